"""Writes to the server of the lock, with the program of the documentation: many threads at once, the clients as the README makes them."""

import os
import threading

import pytest
import redis
from guarded_write import write
from redislock import LockLost, Locks

from support import info, locks, run_threads, wait_for


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def client(server, request):
    pool = redis.BlockingConnectionPool.from_url(server.url, max_connections=100, timeout=30, protocol=request.param)
    with redis.Redis.from_pool(pool) as client:
        yield client


@pytest.fixture
def other(server):
    with server.connect() as other:
        yield other


def set_to(value):
    return lambda pipe: pipe.set("data", value)


@pytest.mark.crowd
def test_three_hundred_threads_write_under_their_locks_at_once(client, server):
    """Each counts by reading first, so whoever wrote beside the holder of the lock would make a count too low."""
    def work(number):
        key = f"count:{{{number % 30}}}"
        for _ in range(3):
            with locks(client).lock(f"{key}:lock") as held:
                count = int(client.get(key) or 0) + 1
                write(client, f"{key}:lock", held.fence, lambda pipe: pipe.set(key, count))

    run_threads(300, work)
    assert [client.get(f"count:{{{number}}}") for number in range(30)] == [b"30"] * 30


@pytest.mark.parametrize("next_one", [[], ["LOCK.ACQUIRE", "door", "OWNER", "other"]], ids=["free", "another holder"])
def test_a_stale_holder_writes_nothing(client, other, next_one):
    fence = client.execute_command("LOCK.ACQUIRE", "door", "PX", 60_000)[1]
    write(client, "door", fence, set_to("first"))
    other.execute_command("LOCK.BREAK", "door")
    if next_one:
        other.execute_command(*next_one)
    with pytest.raises(LockLost):
        write(client, "door", fence, set_to("stale"))
    assert other.get("data") == "first"


def test_nothing_is_written_where_the_lock_ends_between_the_look_and_the_write(client, other):
    fence = client.execute_command("LOCK.ACQUIRE", "door", "PX", 60_000)[1]

    def lose_and_set(pipe):
        other.execute_command("LOCK.BREAK", "door")
        pipe.set("data", "stale")

    with pytest.raises(LockLost):
        write(client, "door", fence, lose_and_set)
    assert other.get("data") is None


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


def test_a_session_is_renewed_and_all_is_written(client, server, other):
    with server.connect(single_connection_client=True) as session:
        fence = session.execute_command("LOCK.ACQUIRE", "door", "PX", 1500, "SESSION")[1]
        ends = other.pexpiretime("door")
        renewed = threading.Event()

        def count(number):
            while not renewed.is_set():
                write(client, "door", fence, lambda pipe: pipe.incr("data"))

        watcher = threading.Thread(
            target=lambda: (wait_for(lambda: other.pexpiretime("door") > ends + 400, "renewals"), renewed.set())
        )
        watcher.start()
        run_threads(10, count)
        watcher.join()
        assert info(other, "door")["fence"] == fence


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
