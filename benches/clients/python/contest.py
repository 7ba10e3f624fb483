"""A client that wants one lock; benches/compare starts several, and docs/bench.md tells what it counts.

contest.py contend ADDRESS WHO SECONDS MS: says "ready", waits for a line, contends for so long, keeps each grant for MS, and prints a
line for each: when it came, and when it was released. contest.py hold ADDRESS WHO KEY: says "ready", then takes and gives back one lock as the lines "acquire" and
"release" say, and prints when it had it, or began to give it back.

Times are in ns of the one clock that all processes read.
"""

import sys
import time
from random import random
from uuid import uuid4

from redis import Redis
from redis.cluster import ClusterNode, RedisCluster
from redislock import Locks

LEASE = 30
mode, address, who, last, *keep = sys.argv[1:]
(host, port), *others = nodes = [node.split(":") for node in address.split(",")]
# Several addresses are the nodes of a cluster.
client = RedisCluster(startup_nodes=[ClusterNode(*node) for node in nodes]) if others else Redis(host, int(port), socket_timeout=None)


class Redislock:
    def __init__(self, key, *words):
        self.key, self.words = key, words

    def acquire(self):
        self.owner = str(uuid4())
        words = ("OWNER", self.owner, "PX", LEASE * 1000, "BLOCK", 0, "ONCE", *self.words)
        self.fence = client.execute_command("LOCK.ACQUIRE", self.key, *words)[1]

    def release(self):
        client.execute_command("LOCK.RELEASE", self.key, self.owner, "FENCE", self.fence)

    def rest(self, part=1):
        pass


class Package:
    def __init__(self, key):
        self.locks, self.key = Locks(client), key

    def acquire(self):
        self.lock = self.locks.lock(self.key, lease=LEASE)
        self.lock.acquire()

    def release(self):
        self.lock.release()

    def rest(self, part=1):
        pass


class Library:
    def __init__(self, key):
        self.lock = client.lock(key, timeout=LEASE)

    def acquire(self):
        self.lock.acquire()

    def release(self):
        self.lock.release()

    def rest(self, part=1):
        # A client that asked again at once would nearly always get the lock again, so it first waits as long as the others do.
        time.sleep(part * self.lock.sleep)


def contend(lock, seconds, keep):
    sys.stdin.readline()
    lock.rest(random())  # so that those who ask from time to time don't ask all at once
    grants = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        lock.acquire()
        granted = time.monotonic_ns()
        if keep:
            time.sleep(keep)
        grants.append(f"{granted} {time.monotonic_ns()}")
        lock.release()
        lock.rest()
    print(*grants, sep="\n")


def hold(lock):
    for line in sys.stdin:
        if line == "acquire\n":
            lock.acquire()
            print(time.monotonic_ns(), flush=True)
        else:
            print(time.monotonic_ns(), flush=True)
            lock.release()


key = last if mode == "hold" else "contested"
lock = {"redislock": Redislock, "session": lambda key: Redislock(key, "SESSION"), "package": Package, "library": Library}[who](key)
client.ping()
print("ready", flush=True)
hold(lock) if mode == "hold" else contend(lock, float(last), float(keep[0]) / 1000)
