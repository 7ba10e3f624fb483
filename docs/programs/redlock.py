"""A lock over several independent servers, as docs/redlock.md explains it. It needs redis-py."""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


class NotLocked(Exception):
    """No majority: someone else holds the lock, it was lost, or too many servers are down."""


def connect(url, timeout_s=0.5):
    """A server that is away must cost little of the lease, and nothing is tried again unseen."""
    return redis.Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0))


class Redlock:
    """An owner's lock over independent servers, for one thread at a time. A `with` in a `with` is a re-entry."""

    def __init__(self, servers, key, lease_ms=10_000, wait_s=10, owner=None):
        self.servers, self.key, self.lease_ms, self.wait_s = servers, key, lease_ms, wait_s
        self.owner = owner or str(uuid4())
        self.majority = len(servers) // 2 + 1
        self.holds = 0
        self.until = 0  # on the monotonic clock
        self.fences = {}  # by the server's place
        self.threads = ThreadPoolExecutor(len(servers))

    def ask(self, command, *words):
        """What all servers say, asked at once. One that is away says an error."""

        def ask_one(server):
            try:
                return server.execute_command(command, self.key, *words)
            except redis.RedisError as error:
                return error

        return list(self.threads.map(ask_one, self.servers))

    def lasts(self, start, yes):
        """Until when a majority's yes lasts, if it does at all."""
        until = start + (self.lease_ms * 0.99 - 2) / 1000
        return until if yes >= self.majority and time.monotonic() < until else None

    def acquire(self):
        end = time.monotonic() + self.wait_s
        while True:
            start = time.monotonic()
            if self.holds and start >= self.until:
                raise NotLocked(f"{self.key}: lost")
            answers = self.ask("LOCK.ACQUIRE", "OWNER", self.owner, "PX", self.lease_ms, "ONCE")
            fences = {at: grant[1] for at, grant in enumerate(answers) if isinstance(grant, list)}
            if until := self.lasts(start, len(fences)):
                self.until, self.fences, self.holds = until, fences, self.holds + 1
                return
            if not self.holds:
                self.ask("LOCK.RELEASE", self.owner, "ALL")
            if time.monotonic() >= end:
                raise NotLocked(f"{self.key}: {len(fences)} of {len(self.servers)} servers granted it: {answers}")
            time.sleep(random.uniform(0.01, 0.1))

    def extend(self):
        start = time.monotonic()
        answers = self.ask("LOCK.EXTEND", self.owner, "PX", self.lease_ms)
        until = self.lasts(start, sum(isinstance(lease, int) for lease in answers))
        if not until:
            raise NotLocked(f"{self.key}: not extended: {answers}")
        self.until = until

    def release(self):
        self.holds -= 1
        if self.holds:
            return
        over = time.monotonic() >= self.until
        answers = self.ask("LOCK.RELEASE", self.owner, "ALL")
        lost = sum(isinstance(answer, redis.ResponseError) for answer in answers)  # NOTHELD
        if over or len(self.servers) - lost < self.majority:
            raise NotLocked(f"{self.key}: lost meanwhile")

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.release()
        except NotLocked:
            if error is None:  # else what went wrong in the block tells more
                raise


if __name__ == "__main__":
    urls = os.environ.get("REDIS_URLS", "redis://localhost:6379 redis://localhost:6380 redis://localhost:6381")
    servers = [connect(url) for url in urls.split()]
    with Redlock(servers, "invoice:42") as lock:
        print("held on", len(lock.fences), "of", len(servers), "servers, with fences", lock.fences)
        with lock:
            lock.extend()
