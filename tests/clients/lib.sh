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

# serve COUNT: starts this many servers with the module on free ports of 127.0.0.1, and ends them with the script. Sets REDIS_URLS for all
# of them, and REDIS_URL and REDIS_PORT for the first.
servers=() data=
serve() {
    need perl
    local at port tries=0
    data=$(mktemp -d)
    trap 'end_servers' EXIT
    REDIS_URLS=
    for ((at = 0; at < $1; )); do
        port=$(free_port)
        rm -rf "${data:?}/$at"
        mkdir "$data/$at"
        "$REDISLOCK_SERVER" --port "$port" --bind 127.0.0.1 --dir "$data/$at" --save '' --logfile "$data/$at/log" \
            --notify-keyspace-events KA --loadmodule "$REDISLOCK_SO" >/dev/null &
        servers[at]=$!
        if up "$port" "${servers[at]}"; then
            REDIS_URLS+="${REDIS_URLS:+ }redis://127.0.0.1:$port"
            at=$((at + 1))
        else
            # Try again if another program took the port meanwhile. Other errors would only repeat.
            tries=$((tries + 1))
            [ $tries -lt 5 ] || { cat "$data/$at/log"; fail "the server ended at once"; }
        fi
    done
    REDIS_URL=${REDIS_URLS%% *} REDIS_PORT=${REDIS_URLS%% *}
    REDIS_PORT=${REDIS_PORT##*:}
    export REDIS_URLS REDIS_URL REDIS_PORT
}

free_port() { perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'; }

# serve_cluster: also starts a cluster of one server, which has all slots, and sets CLUSTER_URL.
serve_cluster() {
    local port tries=0 folder=$data/cluster
    while :; do
        rm -rf "$folder"
        mkdir "$folder"
        port=$(free_port)
        # By default, the bus uses the port plus 10000, which can be too high.
        "$REDISLOCK_SERVER" --port "$port" --bind 127.0.0.1 --dir "$folder" --save '' --logfile "$folder/log" \
            --cluster-enabled yes --cluster-announce-ip 127.0.0.1 --cluster-port "$(free_port)" \
            --loadmodule "$REDISLOCK_SO" >/dev/null &
        servers+=($!)
        ! up "$port" $! || break
        tries=$((tries + 1))
        [ $tries -lt 5 ] || { cat "$folder/log"; fail "the server ended at once"; }
    done
    [[ $(tell "$port" 'CLUSTER ADDSLOTSRANGE 0 16383') = +OK* ]] || fail "the cluster takes no slots"
    until [[ $(tell "$port" 'CLUSTER INFO') = *cluster_state:ok* ]]; do
        kill -0 "${servers[-1]}" || fail "the cluster ended"
        sleep 0.05
    done
    export CLUSTER_URL=redis://127.0.0.1:$port
}

# tell PORT COMMAND: sends the command, and prints the raw answer.
tell() { (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf '%s\r\nQUIT\r\n' "$2" >&3 && cat <&3); }

# up PORT PROCESS: waits until this process, and no other server, answers on the port; fails if it ends.
up() {
    local end=$((SECONDS + 60))
    until (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'INFO server\r\nQUIT\r\n' >&3 && grep -q "^process_id:$2" <&3) 2>/dev/null; do
        kill -0 "$2" 2>/dev/null && [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

# Ends the servers. Their logs are deleted, so it shows the report of a crash.
end_servers() {
    kill -KILL "${servers[@]}" 2>/dev/null || true
    wait "${servers[@]}" 2>/dev/null || true
    grep -hs -A 99 'BUG REPORT START' "$data"/*/log | cut -c 1-200 || true
    rm -rf "$data"
}
