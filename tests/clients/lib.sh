# shellcheck shell=bash
# Shared by the clients' `run` scripts: finds the module and the server, and extracts the programs of the documentation. Sourced, never run;
# leaves the caller in its own folder, with $work as its folder under target/.

[ -z "${REDISLOCK_SO:-}" ] || REDISLOCK_SO=$(realpath "$REDISLOCK_SO")
cd "$(dirname "${BASH_SOURCE[1]}")" || exit
root=$(realpath ../../..)
work=$root/target/clients/$(basename "$PWD")
mkdir -p "$work"
export REDISLOCK_SO=${REDISLOCK_SO:-$root/target/$(uname -m)-unknown-linux-gnu/release/libredislock.so}
export REDISLOCK_SERVER=${REDISLOCK_SERVER:-redis-server}
# No debug information is needed, which makes builds faster.
export CARGO_PROFILE_DEV_DEBUG=false

skip() {
    echo "$1"
    exit 77
}

fail() {
    echo "error: $1"
    exit 1
}

# need COMMAND...: skips the tests if a command is missing.
need() {
    local command
    for command; do
        command -v "$command" >/dev/null || skip "$command is not installed"
    done
}

# same_version PACKAGE VERSION: fails unless this is the module's version.
same_version() {
    [ "$2" = "$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")" ] || fail "clients/$1 has another version than Cargo.toml"
}

# programs LANGUAGE FOLDER: extracts the documentation's fenced blocks in this language to files with the name after the language: ```python
# lock.py. A block without a name would go untested, so it is an error.
programs() {
    local new name
    new=$(mktemp -d "$work/programs.XXXXXX")
    awk -v language="$1" -v folder="$new" '
        !/^```/ { if (file) print > file; next }
        open { open = 0; if (file) close(file); file = ""; next }
        {
            open = 1
            if ($1 != "```" language) next
            if (NF != 2 || seen[$2]++) { print FILENAME ":" FNR ": a block needs a name of its own"; exit failed = 1 }
            file = folder "/" $2
            printf "" > file
        }
        END { exit failed }' "$root"/README.md "$root"/docs/*.md "$root"/docs/{clients,commands}/*.md || fail "see above"
    mkdir -p "$2"
    for name in "$2"/*; do
        [ -e "$new/${name##*/}" ] || rm -rf "$name" # no longer in the documentation
    done
    for name in "$new"/*; do
        [ -e "$name" ] || fail "the documentation has no program in $1"
        # An unchanged program keeps its file time, so that it is not built again.
        cmp -s "$name" "$2/${name##*/}" || mv "$name" "$2/"
    done
    rm -r "$new"
}

# program COMMAND...: runs a program of the documentation, which must print the fence of a lock that it held. Such programs wait only for
# seconds: if one fails on a busy machine, where tasks waited for a processor or a disk for 3 s and for half of its time, it runs again.
program() {
    local said status=0 begin=$SECONDS waited
    waited=$(pressed)
    said=$(timeout 60 "$@" 2>&1) || status=$?
    printf '%s:\n%s\n' "${*: -1}" "${said//$'\n'/$'\n'    }"
    waited=$(($(pressed) - waited))
    if [ $status != 0 ] && [ $waited -ge 3 ] && [ $((2 * waited)) -ge $((SECONDS - begin)) ]; then
        echo "once more, after exit code $status: the machine was busy"
        status=0
        said=$(timeout 60 "$@" 2>&1) || status=$?
        echo "$said"
    fi
    [ $status = 0 ] || fail "its exit code is $status"
    grep -Eq 'held .*[0-9]{16}' <<<"$said" || fail "it held no lock"
}

# pressed: prints for how many seconds tasks have waited for a processor or a disk since the start of the machine; 0 if Linux doesn't tell.
pressed() {
    { cat /proc/pressure/{cpu,io} 2>/dev/null || true; } |
        awk '/^some/ { sub(/.*total=/, ""); total += $0 } END { print int(total / 1000000) }'
}

# serve COUNT [cluster]: starts this many servers with the module on free ports of 127.0.0.1, and a cluster of one server, and ends them with
# the script. Sets REDIS_URLS for all of them, REDIS_URL and REDIS_PORT for the first, and CLUSTER_URL.
servers=() data=
serve() {
    need python3
    local line told
    data=$(mktemp -d)
    trap 'end_servers' EXIT
    exec {told}< <(exec python3 "$root/tests/clients/conformance/driver/servers.py" "$data" "$@")
    servers+=($!)
    while read -r line <&"$told"; do
        [ -n "$line" ] || return 0
        export "${line?}"
    done
    fail "the servers do not start"
}

free_port() { python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'; }

# tell PORT COMMAND: sends the command, and prints the raw answer.
tell() { (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf '%s\r\nQUIT\r\n' "$2" >&3 && cat <&3); }

# Ends the servers. Their logs are deleted, so it shows the report of a crash.
end_servers() {
    kill "${servers[@]}" 2>/dev/null || true
    wait "${servers[@]}" 2>/dev/null || true
    grep -hrs --include=log -A 99 'BUG REPORT START' "$data" | cut -c 1-200 || true
    rm -rf "$data"
}
