# shellcheck shell=bash
# What the scripts share: where things are, and how what is missing gets installed.
# Sourced, never run; leaves the caller in the project's root folder.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# What a script says at its top.
usage() { sed -n '2,/^set/{/^set/!s/^# \?//p}' "scripts/${0##*/}"; }

case ${1:-} in
-h | --help)
    usage
    exit
    ;;
esac

mkdir -p "${CARGO_TARGET_DIR:-target}/servers"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
export CARGO_TARGET_DIR=$target
# shellcheck disable=SC2034 # for the callers
module=$target/release/libredislock.so

# A fresh rustup is on the PATH only from the next login on.
command -v cargo >/dev/null || PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

say() { printf '%s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

# own_server redis|valkey: the path of this machine's own server.
# Debian's and Ubuntu's redis-tools (valkey-tools) hold the whole server under the name of its RDB checker;
# under its own name it is a server.
own_server() {
    command -v "$1-server" && return
    local checker cli
    checker=$(command -v "$1-check-rdb") && cli=$(command -v "$1-cli") || return
    ln -sfn "$checker" "$target/servers/$1-server"
    ln -sfn "$cli" "$target/servers/$1-cli"
    printf '%s\n' "$target/servers/$1-server"
}

# version_of SERVER: its version, "7.0.15"; fails if the server doesn't run.
version_of() {
    local answer
    answer=$("$1" --version 2>&1) && [[ $answer =~ \ v=([0-9.]+) ]] && printf '%s\n' "${BASH_REMATCH[1]}"
}

# at_least WANTED VERSION
at_least() {
    [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

check_rust() {
    local how="get it from https://rustup.rs; where rustup is there: rustup update stable" wanted version
    wanted=$(sed -n 's/^rust-version *= *"\(.*\)".*/\1/p' Cargo.toml)
    command -v cargo >/dev/null || die "Rust is not installed (no cargo on the PATH): $how"
    version=$(rustc --version | cut -d ' ' -f 2) || die "rustc does not run: $how"
    at_least "$wanted" "$version" || die "Rust $version is too old, $wanted or later is needed: $how"
}

# Both the library and the headers that come with it: libclang1 alone has no stddef.h.
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return
    compgen -G '/usr/lib*/libclang*.so*' >/dev/null && return
    compgen -G '/usr/lib/llvm*/lib*/libclang[.-]*so*' >/dev/null &&
        compgen -G '/usr/lib/llvm*/lib*/clang/*/include/stddef.h' >/dev/null
}

has_server() { own_server redis || own_server valkey; }

# want PACKAGE REASON CHECK...: notes the package down where the check fails.
wanted=()
want() {
    local package=$1 reason=$2
    shift 2
    "$@" >/dev/null 2>&1 && return
    say "missing: $package ($reason)"
    wanted+=("$package")
}

# install_missing: what building and running needs, and what the caller wants beside; ends the script where it can't.
install_missing() {
    check_rust
    want gcc "links the module" command -v cc
    want libc6-dev "the C headers the server's module API stands on" test -e /usr/include/stdio.h
    want libclang-dev "reads the server's module API when the module is built" has_libclang
    # Not redis-server: that package also starts a service on port 6379 and at each boot, which nobody asked for.
    # redis-tools holds the same server (see own_server), and redis-cli.
    want redis-tools "the Redis server and redis-cli" has_server
    [ ${#wanted[@]} -gt 0 ] || return 0

    local by_hand="install by hand: ${wanted[*]}" apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
    command -v apt-get >/dev/null || die "no apt-get here, $by_hand (these are Debian's names)"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "neither root nor sudo, $by_hand"
        apt=(sudo "${apt[@]}")
    fi
    say "installing with ${apt[*]}: ${wanted[*]}"
    "${apt[@]}" -q update >&2 || say "apt-get update failed, trying with what is known"
    "${apt[@]}" -q install -y --no-install-recommends "${wanted[@]}" >&2 || die "apt-get failed, $by_hand"
}
