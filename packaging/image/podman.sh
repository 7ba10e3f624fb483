# shellcheck shell=bash
# Sets up podman and buildah, and base systems for images, for packaging/image/build and check. Sourced after scripts/lib.sh.

# shellcheck disable=SC2034 # for the callers
version=$(module_version)

# Without cgroup version 2, crun refuses to run. And not every machine allows the limits that podman asks for.
runtime=
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
    runtime='runtime = "runc"'
    export BUILDAH_RUNTIME=runc
fi
export CONTAINERS_CONF=${target:?}/containers.conf
cat >"$CONTAINERS_CONF" <<EOF
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=10000:10000"]
[engine]
$runtime
EOF

want_podman() {
    want podman "runs images" command -v podman
    want buildah "makes images" command -v buildah
    want catatonit "is the first process of a pod" command -v catatonit
    want netavark "connects pods" test -x /usr/lib/podman/netavark
    want iptables "is what netavark sets a network up with" test -x /usr/sbin/iptables
    want mmdebstrap "makes systems to build images on" command -v mmdebstrap
    [ -z "$runtime" ] || want runc "runs containers where control groups are of version 1" command -v runc
}

# alone ARGUMENT...: restarts the script under a lock of this user, since all runs use the same names.
alone() {
    [ -n "${REDISLOCK_ALONE:-}" ] || REDISLOCK_ALONE=yes exec flock --close "${XDG_RUNTIME_DIR:-/tmp}/redislock-check-$UID.lock" \
        "packaging/image/${0##*/}" "$@"
}

# down: removes all containers and pods whose names begin with redislock-check, whichever run left them.
down() {
    local names
    mapfile -t names < <(podman ps --all --quiet --filter name=^redislock-check)
    # Kill them, because a graceful stop takes long.
    [ ${#names[@]} = 0 ] || podman kill "${names[@]}" >/dev/null 2>&1 || true
    mapfile -t names < <(podman pod ls --quiet --filter name=^redislock-check)
    [ ${#names[@]} = 0 ] || podman pod rm --force "${names[@]}" >/dev/null
    mapfile -t names < <(podman ps --all --quiet --filter name=^redislock-check)
    [ ${#names[@]} = 0 ] || podman rm --force --volumes "${names[@]}" >/dev/null
    mapfile -t names < <(podman volume ls --quiet --filter name=^redislock-check)
    [ ${#names[@]} = 0 ] || podman volume rm "${names[@]}" >/dev/null
    ! podman network exists redislock-check || podman network rm redislock-check >/dev/null
}

# import NAME FILE: makes an image from a system in a .tar.
import() {
    say "making the image $1"
    podman import --quiet --change ENV="PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$2" "$1" >/dev/null
}

# debian_base SUITE SERVER: prints the name of an image of this Debian release with the package SERVER, and makes it if it is missing.
debian_base() {
    local name=localhost/redislock-base:$1-$2
    podman image exists "$name" || {
        mmdebstrap --quiet --variant=essential --include="$2" "$1" "$target/base.tar" "$(debian_mirror)" >&2
        import "$name" "$target/base.tar"
        rm "$target/base.tar"
    }
    echo "$name"
}

# musl_base: prints the name of an image with musl, busybox and the server of scripts/musl. Like Alpine's, it is small.
musl_base() {
    local name=localhost/redislock-base:musl server root arch
    arch=$(uname -m)
    podman image exists "$name" || {
        server=$(scripts/musl server) || return
        root=$target/base
        rm -rf "$root"
        mkdir -p "$root"/{bin,data,etc,lib,tmp,usr/bin}
        chmod 1777 "$root/tmp"
        cp "/lib/$arch-linux-musl/libc.so" "$root/lib/ld-musl-$arch.so.1"
        cp "$(command -v busybox)" "$root/bin/"
        chroot "$root" /bin/busybox --install -s /bin
        cp "${server%/*}"/valkey-* "$root/usr/bin/"
        tar -C "$root" -cf "$target/base.tar" .
        import "$name" "$target/base.tar"
        rm -rf "$target/base.tar" "$root"
    }
    echo "$name"
}
