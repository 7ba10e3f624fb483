# shellcheck shell=bash
# Shared by the scripts: finds folders, installs what is missing, and builds the module for this and other machines.
# Sourced, never run; leaves the caller in the project's root folder.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# Prints the comment at the top of the script.
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
host=$(uname -m)-unknown-linux-gnu
# shellcheck disable=SC2034 # for the callers
module=$target/$host/release/libredislock.so

# shellcheck disable=SC2034 # for the callers
# Selects the unit tests that are random or quick: all but the small worlds.
random=(--skip worlds:: --skip tests::detect::)

# Before the next login, the PATH lacks a newly installed rustup.
command -v cargo >/dev/null || PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

say() { printf '%s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

# own_server redis|valkey: prints the path of this machine's own server. In Debian's and Ubuntu's redis-tools (valkey-tools), the RDB
# checker is the server's binary, which acts as a server if it is started under the server's name.
own_server() {
    command -v "$1-server" && return
    local checker cli
    checker=$(command -v "$1-check-rdb") && cli=$(command -v "$1-cli") || return
    ln -sfn "$checker" "$target/servers/$1-server"
    ln -sfn "$cli" "$target/servers/$1-cli"
    printf '%s\n' "$target/servers/$1-server"
}

# version_of SERVER: prints the version, such as "7.0.15"; fails if the server doesn't run.
version_of() {
    local answer
    answer=$("$1" --version 2>&1) && [[ $answer =~ \ v=([0-9.]+) ]] && printf '%s\n' "${BASH_REMATCH[1]}"
}

# at_least WANTED VERSION: is the version at least the wanted one?
at_least() {
    [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

module_version() { sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml; }

# Prints the oldest Rust version that is supported.
declared_rust() { sed -n 's/^rust-version *= *"\(.*\)".*/\1/p' Cargo.toml; }

check_rust() {
    local wanted version
    wanted=$(declared_rust)
    command -v cargo >/dev/null ||
        die "Rust is not installed (no cargo on the PATH): get rustup from https://rustup.rs, or with: apt install rustup"
    # Debian's rustup is installed without a toolchain.
    version=$(rustc --version | cut -d ' ' -f 2) || die "rustc does not run; if rustup has no toolchain yet: rustup default stable"
    at_least "$wanted" "$version" ||
        die "Rust $version is too old, $wanted or later is needed; where rustup is there: rustup update stable"
}

# Checks for the library and its headers: the package libclang1 alone lacks stddef.h.
has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return
    compgen -G '/usr/lib*/libclang*.so*' >/dev/null && return
    compgen -G '/usr/lib/llvm*/lib*/libclang[.-]*so*' >/dev/null &&
        compgen -G '/usr/lib/llvm*/lib*/clang/*/include/stddef.h' >/dev/null
}

has_server() { own_server redis || own_server valkey; }

# want PACKAGE REASON CHECK...: marks the package for installation if the check fails.
wanted=()
want() {
    local package=$1 reason=$2
    shift 2
    [[ " ${wanted[*]} " = *" $package "* ]] || "$@" >/dev/null 2>&1 && return
    say "missing: $package ($reason)"
    wanted+=("$package")
}

# install_missing: installs what building and running needs, and the packages that the caller wants; ends the script if it can't.
install_missing() {
    check_rust
    want gcc "links the module" command -v cc
    want libc6-dev "the C headers the server's module API stands on" test -e /usr/include/stdio.h
    want libclang-dev "reads the server's module API when the module is built" has_libclang
    # redis-server would also start a service on port 6379 at each boot, so use redis-tools: it contains the same server (see own_server),
    # and redis-cli.
    want redis-tools "the Redis server and redis-cli" has_server
    install_wanted
}

# install_wanted: installs the wanted packages; ends the script if it can't.
install_wanted() {
    [ ${#wanted[@]} -gt 0 ] || return 0
    local by_hand="install by hand: ${wanted[*]}" apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
    command -v apt-get >/dev/null || die "no apt-get here, $by_hand (these are Debian's names)"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "neither root nor sudo, $by_hand"
        apt=(sudo "${apt[@]}")
    fi
    say "installing with ${apt[*]}: ${wanted[*]}"
    "${apt[@]}" -q update >&2 || say "apt-get update failed, trying with what is known"
    "${apt[@]}" -q install -y --no-install-recommends "${wanted[@]}" >&2 || die "apt-get failed, $by_hand"
}

# Prints the Debian mirror in this machine's apt sources.
debian_mirror() {
    # shellcheck disable=SC2016 # apt-get expands it
    apt-get indextargets --no-release-info --format '$(REPO_URI)' | grep -v security | head -n 1
}

# cross_packages ARCHITECTURE: prints Debian's packages of the cross compiler and its C headers.
cross_packages() {
    local debian=${1/x86_64/amd64}
    echo "gcc-${1//_/-}-linux-gnu" "libc6-dev-${debian/aarch64/arm64}-cross"
}

# want_target TRIPLE: marks the packages that building for it (aarch64-unknown-linux-gnu, say) needs.
want_target() {
    local arch=${1%%-*} compiler headers
    [ "$arch" != "$(uname -m)" ] || return 0
    read -r compiler headers < <(cross_packages "$arch")
    want "$compiler" "links the module for $arch" command -v "$arch-linux-gnu-gcc"
    want "$headers" "the C headers of $arch" test -e "/usr/$arch-linux-gnu/include/stdio.h"
}

# has_std TRIPLE: is Rust's standard library for it installed, or can rustup install it?
has_std() { [ -d "$(rustc --print target-libdir --target "$1")" ] || timeout 300 rustup target add "$1" >&2; }

# musl_libraries ARCHITECTURE: prints the folder of libraries with which to link a module for musl. The server has loaded libc already, so a
# stub with the name of Alpine's libc is enough; if the module is loaded with glibc, the error shows this name. Rust's libunwind replaces
# libgcc_s.
musl_libraries() {
    local dir=$target/musl/$1
    mkdir -p "$dir"
    # The stub has a function that each module uses: otherwise, the linker would drop the dependency on it.
    echo 'void __errno_location(void) {}' |
        "$1-linux-gnu-gcc" -x c - -shared -nostdlib -Wl,-soname,"libc.musl-$1.so.1" -o "$dir/libc.so"
    echo "INPUT($(rustc --print target-libdir --target "$1-unknown-linux-musl")/self-contained/libunwind.a)" >"$dir/libgcc_s.so"
    echo "$dir"
}

# build_module: builds the module for this machine, byte for byte as in a release.
build_module() { build_for "$host" --release; }

# build_command ARCHITECTURE: builds the program `redislock`, statically linked, and prints its path.
build_command() {
    has_std "$1-unknown-linux-musl" || die "rustup can't install Rust's library for $1-unknown-linux-musl"
    build_for "$1-unknown-linux-musl" --profile command --package redislock-cli --bin redislock
    echo "$target/$1-unknown-linux-musl/command/redislock"
}

# build_for TRIPLE ARGUMENTS...: runs cargo build for this target. The result contains no paths of this machine, so that the same source
# makes the same bytes in any folder.
build_for() {
    local triple=$1 arch=${1%%-*} name=${1//-/_} flag flags='' bindgen='' linker='' compiler='' cflags=''
    shift
    # Not for this machine's own architecture: a linker set here also links build scripts, which would be built again.
    [ "$arch" = "$(uname -m)" ] || linker=$arch-linux-gnu-gcc bindgen=-I/usr/$arch-linux-gnu/include
    for flag in "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" "--remap-path-prefix=$PWD=redislock" \
        "--remap-path-prefix=$target=target"; do
        flags+=${flags:+$'\x1f'}$flag
    done
    # No musl compiler is needed: the dependencies' C code needs no particular C library.
    if [[ $triple = *-musl ]]; then compiler=$arch-linux-gnu-gcc cflags=-U_FORTIFY_SOURCE; fi
    # The module is linked dynamically; a program, statically.
    if [[ $triple = *-musl && "$*" != *--bin* ]]; then
        flags+=$'\x1f'-Ctarget-feature=-crt-static$'\x1f'-Lnative=$(musl_libraries "$arch")
        # The types of the module API are the same in both C libraries, so use glibc's headers.
        bindgen="--target=$arch-linux-gnu $bindgen"
    fi
    env CARGO_ENCODED_RUSTFLAGS="$flags" ${linker:+"CARGO_TARGET_${name^^}_LINKER=$linker"} ${compiler:+"CC_$name=$compiler"} \
        ${cflags:+"CFLAGS_$name=$cflags"} \
        ${bindgen:+"BINDGEN_EXTRA_CLANG_ARGS_$name=$bindgen"} \
        cargo build --locked --target "$triple" "$@"
}

# pack FOLDER NAME FILE: packs FOLDER/NAME as .tar.gz, with the commit's time, so that the same commit makes the same bytes.
pack() {
    tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$(git log -1 --format=%ct)" -cf - "$2" |
        gzip -n9 >"$3"
}

# install_nextest: finds cargo-nextest, which runs the Rust tests, on the PATH, or installs it with pip in seconds; building it takes two
# cores more than ten minutes.
install_nextest() {
    local venv=$target/tools/nextest
    PATH=$PATH:$venv/bin
    command -v cargo-nextest >/dev/null && return
    want_python && install_wanted
    say "installing cargo-nextest"
    python3 -m venv "$venv"
    "$venv/bin/pip" --disable-pip-version-check install --quiet --requirement .config/nextest.txt >&2 ||
        die "pip can't install cargo-nextest; by hand: cargo install --locked cargo-nextest"
}

want_python() { want python3-venv "tests with redis-py, and cargo-nextest" python3 -c 'import venv, ensurepip'; }
want_go() { want golang-go "the tests with go-redis, actionlint, and Porcupine" command -v go; }
in_sbin() { command -v "$1" || command -v "/usr/sbin/$1"; }
has_php() { php -r "exit((int) !stream_resolve_include_path('$1/autoload.php'));"; }
has_ruby() { ruby -e "require '$1'"; }

# needs STEP...: installs what these steps of scripts/test need.
needs() {
    local step
    command -v apt-get >/dev/null || return 0
    for step; do
        case $step in
        shellcheck) want shellcheck "the lints of the scripts" command -v shellcheck ;;
        workflows) want_go ;;
        redis-* | valkey-* | evidence)
            want nftables "networks that lose packets" in_sbin nft
            want iproute2 "networks of a test's own" in_sbin ip
            want zsh "the completion of names" command -v zsh
            want fish "the completion of names" command -v fish
            ;;&
        evidence) want_go ;;&
        clients\ * | conformance\ * | evidence) want_python ;;&
        *\ go,*) want_go ;;
        *\ node,*)
            want nodejs "the tests with ioredis and node-redis" command -v node
            want npm "the tests with ioredis and node-redis" command -v npm
            ;;
        *\ java,*)
            want default-jdk-headless "the tests with Jedis, Lettuce and Redisson" command -v javac
            want maven "the tests with Jedis, Lettuce and Redisson" command -v mvn
            ;;
        *\ php,*)
            want php-cli "the tests with phpredis" command -v php
            want php-redis "the tests with phpredis" php -r 'exit((int) !extension_loaded("redis"));'
            want composer "the tests with phpredis" command -v composer
            ;;&
        clients\ php,*)
            want php-symfony-lock "locks of Symfony" has_php Symfony/Component/Lock
            want php-illuminate-cache "locks of Laravel" has_php Illuminate/Cache
            want php-illuminate-redis "locks of Laravel" has_php Illuminate/Redis
            want php-illuminate-bus "unique jobs of Laravel" has_php Illuminate/Bus
            want php-illuminate-container "locks of Laravel" has_php Illuminate/Container
            ;;
        *\ ruby,*)
            want ruby "the tests with redis-rb" command -v ruby
            want ruby-redis "the tests with redis-rb" has_ruby redis
            ;;&
        clients\ ruby,*)
            want ruby-connection-pool "the tests with redis-rb" has_ruby connection_pool
            want ruby-activejob "a job of Rails" has_ruby active_job
            want ruby-sidekiq "its workers" command -v sidekiq
            ;;
        esac
    done
    install_wanted
}
