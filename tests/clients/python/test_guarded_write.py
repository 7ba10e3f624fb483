"""Writes to the server of the lock, with the program of the documentation, and the client as the README makes it."""

import os

import pytest
import redis
from guarded_write import write
from redislock import LockLost, Locks

from support import run_threads


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def client(server, request):
    pool = redis.BlockingConnectionPool.from_url(server.url, max_connections=100, timeout=60, protocol=request.param)
    with redis.Redis.from_pool(pool) as client:
        yield client


def test_a_stale_holder_writes_nothing(client, other):
    def lose_and_set(pipe):
        other.execute_command("LOCK.BREAK", "door")
        pipe.set("data", "stale")

    fence = client.execute_command("LOCK.ACQUIRE", "door")[1]
    write(client, "door", fence, lambda pipe: pipe.set("data", "first"))
    # It ends between the look and the write; then it is free; then another one holds it.
    for work in (lose_and_set, lambda pipe: pipe.set("data", "stale"), lambda pipe: pipe.set("data", "stale")):
        with pytest.raises(LockLost):
            write(client, "door", fence, work)
        if work is not lose_and_set:
            other.execute_command("LOCK.ACQUIRE", "door", "OWNER", "other")
    assert other.get("data") == "first"


def test_an_extension_in_between_has_it_tried_again(client, other):
    owner, fence, *_ = client.execute_command("LOCK.ACQUIRE", "door", "PX", 60_000)
    tries = []

    def extend_and_set(pipe):
        if not tries:
            other.execute_command("LOCK.EXTEND", "door", owner, "PX", 50_000)
        tries.append(fence)
        pipe.set("data", len(tries))

    write(client, "door", fence, extend_and_set)
    assert (len(tries), other.get("data")) == (2, "2")


def test_threads_write_on_a_cluster():
    with redis.RedisCluster.from_url(os.environ["CLUSTER_URL"]) as client, Locks(client) as locks:

        def work(number):
            key = f"guarded:{{{number}}}"
            with locks.lock(f"{key}:lock") as held:
                write(client, f"{key}:lock", held.fence, lambda pipe: pipe.set(key, number))
            with pytest.raises(LockLost):
                write(client, f"{key}:lock", held.fence, lambda pipe: pipe.set(key, "stale"))
            assert client.get(key) == str(number).encode()

        run_threads(20, work)
