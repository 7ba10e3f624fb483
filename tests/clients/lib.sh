# shellcheck shell=bash
# What the clients' `run` scripts share: the module and the servers under test, and the programs of the documentation.
# Sourced, never run; leaves the caller in its own folder, with its place under target/ in $work.

[ -z "${REDISLOCK_SO:-}" ] || REDISLOCK_SO=$(realpath "$REDISLOCK_SO")
cd "$(dirname "${BASH_SOURCE[1]}")" || exit
root=$(realpath ../../..)
work=$root/target/clients/$(basename "$PWD")
mkdir -p "$work"
export REDISLOCK_SO=${REDISLOCK_SO:-$root/target/$(uname -m)-unknown-linux-gnu/release/libredislock.so}
export REDISLOCK_SERVER=${REDISLOCK_SERVER:-redis-server}
# What cargo builds here is run, and not debugged.
export CARGO_PROFILE_DEV_DEBUG=false

skip() {
    echo "$1"
    exit 77
}

fail() {
    echo "error: $1"
    exit 1
}

# need COMMAND...
need() {
    local command
    for command; do
        command -v "$command" >/dev/null || skip "$command is not installed"
    done
}

# same_version PACKAGE VERSION: fails unless that is the module's version, too.
same_version() {
    [ "$2" = "$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")" ] || fail "clients/$1 has another version than Cargo.toml"
}

# programs LANGUAGE FOLDER: the documentation's fenced blocks in that language, each under the name that stands behind the
# language: ```python lock.py. A block without a name would go untested, so it is an error.
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
        [ -e "$new/${name##*/}" ] || rm -rf "$name" # one that the documentation had once
    done
    for name in "$new"/*; do
        [ -e "$name" ] || fail "the documentation has no program in $1"
        # One that has not changed keeps its time, for those that build by it.
        cmp -s "$name" "$2/${name##*/}" || mv "$name" "$2/"
    done
    rm -r "$new"
}

# program COMMAND...: runs a program of the documentation. It must say the fence under which it held a lock. Such a program waits for
# seconds only. If it fails, and tasks of this machine waited for a processor or a disk meanwhile, for 3 s and half of that time at least, it
# has a second try.
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

# For how many seconds tasks of this machine have waited for a processor or for a disk since it started; 0 where Linux doesn't tell.
pressed() {
    { cat /proc/pressure/{cpu,io} 2>/dev/null || true; } |
        awk '/^some/ { sub(/.*total=/, ""); total += $0 } END { print int(total / 1000000) }'
}

# serve COUNT: starts that many servers with the module on free ports of the loopback, and ends them with the script. REDIS_URLS
# has them all; REDIS_URL and REDIS_PORT are the first.
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
            # Somebody took the port in between? Else it will not get better.
            tries=$((tries + 1))
            [ $tries -lt 5 ] || { cat "$data/$at/log"; fail "the server ended at once"; }
        fi
    done
    REDIS_URL=${REDIS_URLS%% *} REDIS_PORT=${REDIS_URLS%% *}
    REDIS_PORT=${REDIS_PORT##*:}
    export REDIS_URLS REDIS_URL REDIS_PORT
}

free_port() { perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'; }

# serve_cluster: beside the servers of `serve` one that is a whole cluster: it has all slots. CLUSTER_URL is its address.
serve_cluster() {
    local port tries=0 folder=$data/cluster
    while :; do
        rm -rf "$folder"
        mkdir "$folder"
        port=$(free_port)
        # The bus has the port 10000 above, unless told another one: that can be too high.
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

# tell PORT COMMAND: the server's answer as it stands.
tell() { (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf '%s\r\nQUIT\r\n' "$2" >&3 && cat <&3); }

# up PORT PROCESS: waits until that server, and not another one that has the port, answers; fails if it ends.
up() {
    local end=$((SECONDS + 60))
    until (exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'INFO server\r\nQUIT\r\n' >&3 && grep -q "^process_id:$2" <&3) 2>/dev/null; do
        kill -0 "$2" 2>/dev/null && [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

# What a crashed server says of it goes with its log, unless it is shown.
end_servers() {
    kill -KILL "${servers[@]}" 2>/dev/null || true
    wait "${servers[@]}" 2>/dev/null || true
    grep -hs -A 99 'BUG REPORT START' "$data"/*/log | cut -c 1-200 || true
    rm -rf "$data"
}
