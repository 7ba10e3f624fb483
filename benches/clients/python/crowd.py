"""1,000 tasks at once that want one lock, or 100, one round each: what that costs with the package and with redis-py's own Lock.

crowd.py ADDRESS [RUNS]: prints a table of the medians of so many runs, by turns. The server at that address has the module, and no
other clients: their commands would be counted. Each trial is a process of its own, crowd.py ADDRESS WHO LOCKS, which prints what it
counted.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from statistics import median
from threading import Barrier, Thread

import redis
import redis.asyncio
import redislock
import redislock.asyncio

TASKS, LEASE, LIMIT = 1000, 30, 90
WHO = {
    "package-threads": "the package, threads",
    "package-asyncio": "the package, asyncio",
    "lock-threads": "redis-py's `Lock`, threads",
    "lock-asyncio": "redis-py's `Lock`, asyncio",
}


class Tally:
    def __init__(self):
        self.waits, self.errors, self.begin, self.end = [], Counter(), 0.0, 0.0

    def granted(self):
        self.waits.append(time.monotonic() - self.begin)

    def failed(self, error):
        self.errors[type(error).__name__] += 1

    def over(self):
        self.end = time.monotonic()


def in_threads(lock, tally, locks):
    def start():
        tally.begin = time.monotonic()

    gate = Barrier(TASKS, start)

    def work(number):
        gate.wait()
        try:
            with lock(f"crowd:{os.getpid()}:{number % locks}"):
                tally.granted()
        except Exception as error:
            tally.failed(error)

    threads = [Thread(target=work, args=(number,)) for number in range(TASKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.over()


async def in_tasks(lock, tally, locks):
    async def work(number):
        try:
            async with lock(f"crowd:{os.getpid()}:{number % locks}"):
                tally.granted()
        except Exception as error:
            tally.failed(error)

    tally.begin = time.monotonic()
    await asyncio.gather(*map(work, range(TASKS)))
    tally.over()


def crowd_of_threads(who, host, port, tally, locks):
    with redis.Redis(host, port) as client:
        if who.startswith("lock"):
            in_threads(lambda key: client.lock(key, timeout=LEASE), tally, locks)
        else:
            with redislock.Locks(client) as ours:
                in_threads(lambda key: ours.lock(key, lease=LEASE), tally, locks)


async def crowd_of_tasks(who, host, port, tally, locks):
    async with redis.asyncio.Redis(host=host, port=port) as client:
        if who.startswith("lock"):
            await in_tasks(lambda key: client.lock(key, timeout=LEASE), tally, locks)
        else:
            async with redislock.asyncio.Locks(client) as ours:
                await in_tasks(lambda key: ours.lock(key, lease=LEASE), tally, locks)


def trial(address, who, locks):
    host, port = address.split(":")
    tally = Tally()
    with redis.Redis(host, int(port), protocol=2) as watch:
        watch.config_resetstat()
        if who.endswith("asyncio"):
            asyncio.run(crowd_of_tasks(who, host, int(port), tally, locks))
        else:
            crowd_of_threads(who, host, int(port), tally, locks)
        calls = {name.removeprefix("cmdstat_"): each["calls"] for name, each in watch.info("commandstats").items()}
        connections = watch.info("stats")["total_connections_received"]
    # What a script calls is counted as well, but was not sent: of redis-py's Lock, that is GET and DEL.
    commands = sum(count for name, count in calls.items() if name.startswith(("lock.", "set", "eval", "script", "subscribe", "ping")))
    rate = len(tally.waits) / (tally.end - tally.begin)
    longest = max(tally.waits, default=0)
    print(json.dumps({"rate": rate, "commands": commands, "connections": connections, "longest": longest, "errors": tally.errors}))


def cell(results):
    """One cell of the table, from the results of all runs."""
    done = [result for result in results if result]
    if not done:
        return f"not done within {LIMIT} s"

    def middle(name):
        return median(result[name] for result in done)

    rates = [result["rate"] for result in done]
    text = (f"{middle('rate'):,.0f}/s ({min(rates):,.0f} to {max(rates):,.0f}), {middle('commands'):,.0f}, "
            f"{middle('connections'):.0f}, {middle('longest'):.1f} s")
    for name in sorted({name for result in done for name in result["errors"]}):
        counts = sorted({result["errors"].get(name, 0) for result in done})
        text += f"; {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} got `{name}`"
    return text + (f"; {len(results) - len(done)} not done within {LIMIT} s" if len(done) < len(results) else "")


def attempt(*words):
    try:
        said = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, check=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(said.stdout)


def table(address, runs):
    results = {(who, locks): [] for who in WHO for locks in (1, 100)}
    for _ in range(runs):
        for who, locks in results:
            results[who, locks].append(attempt(address, who, str(locks)))
    print("| | one lock: grants/s, commands, connections, longest wait | 100 locks |\n|---|---|---|")
    for who, name in WHO.items():
        print(f"| {name} | {cell(results[who, 1])} | {cell(results[who, 100])} |")


if len(sys.argv) == 4:
    trial(sys.argv[1], sys.argv[2], int(sys.argv[3]))
else:
    table(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
