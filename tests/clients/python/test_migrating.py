"""Tests the steps of docs/migrating.md, in which old and new locks run in parallel: the old one is redis-py's lock."""

import time

import pytest
import redis
from both import both
from redis.exceptions import LockError, LockNotOwnedError, ResponseError
from redislock import Locks

from support import wait_for


@pytest.fixture
def client(server):
    with server.connect() as client:
        yield client


def test_both_keep_out_those_that_know_one_only(client, locks):
    with both(client, locks, "job") as first:
        with pytest.raises(LockError), client.lock("lock:job", blocking=False):
            pytest.fail("two at work: both and old")
        with pytest.raises(TimeoutError), locks.lock("redislock:job", wait=0.001):
            pytest.fail("two at work: both and new")
        with pytest.raises(LockError), both(client, locks, "job", wait=0.001):
            pytest.fail("two at work: both and both")
    with client.lock("lock:job", timeout=30), pytest.raises(LockError), both(client, locks, "job", wait=0.001):
        pytest.fail("two at work: old and both")
    with locks.lock("redislock:job"), pytest.raises(TimeoutError), both(client, locks, "job", wait=0.001):
        pytest.fail("two at work: new and both")
    with both(client, locks, "job") as later:
        assert later.fence > first.fence
    assert client.keys() == []


def test_both_are_held_though_the_work_is_longer_than_the_lease(client, locks):
    lease, renewed, before = 3, 0, 0
    with both(client, locks, "job", lease=lease):
        begin = time.monotonic()
        while renewed < 2 or time.monotonic() - begin < 1.2 * lease:
            assert not client.lock("lock:job", timeout=30, blocking=False).acquire(), "two at work: both and old"
            assert locks.try_acquire("redislock:job") is None, "two at work: both and new"
            renewed, before = renewed + (client.pttl("lock:job") > before), client.pttl("lock:job")
            time.sleep(0.01)
    assert client.keys() == []


def test_the_loss_of_the_old_one_is_told(client, locks):
    with pytest.raises(LockNotOwnedError), both(client, locks, "job"):
        client.delete("lock:job")
    assert client.keys() == []


def work(url, number):
    """Runs rounds with the kind of lock that this process has reached in the migration, until it is told to end."""
    client = redis.Redis.from_url(url, decode_responses=True)
    ways = {
        "old": lambda: client.lock("lock:job", timeout=30),
        "both": lambda: both(client, locks, "job", wait=60),
        "new": lambda: locks.lock("redislock:job"),
    }
    with Locks(client) as locks:
        while (step := client.get(f"step:{number}")) != "end":
            with ways[step]():
                assert client.incr("inside") == 1, "two at work"
                client.hincrby(f"rounds:{number}", step)
                time.sleep(0.002)
                client.decr("inside")


def test_workers_go_over_one_by_one_and_no_two_are_at_work(server, workers, client):
    for number in range(4):
        client.set(f"step:{number}", "old")
        workers.start(work, server.url, number)
    for step in ("old", "both", "new"):
        for number in range(4):
            client.set(f"step:{number}", step)
            wait_for(lambda: int(client.hget(f"rounds:{number}", step) or 0) >= 5 or not workers[number].is_alive(), f"{number}: {step}")
    for number in range(4):
        client.set(f"step:{number}", "end")
    workers.join()
    assert client.get("inside") == "0"


def test_one_key_can_not_be_both(client, locks):
    with client.lock("job", timeout=30), pytest.raises(ResponseError, match="^WRONGTYPE "), locks.lock("job"):
        pytest.fail("a lock over a string")
    with locks.lock("job"):
        assert not client.lock("job", timeout=30, blocking=False).acquire()
        old = client.lock("job")
        old.local.token = b"token"
        with pytest.raises(ResponseError, match="WRONGTYPE "):
            old.release()


def test_an_extension_counts_from_now_and_a_lost_lock_is_told(client, locks):
    old = client.lock("old", timeout=30)
    assert old.acquire()
    old.extend(30)
    assert client.pttl("old") > 31_000  # redis-py adds the time to what is left
    _, fence, *_ = client.execute_command("LOCK.ACQUIRE", "new", "OWNER", "me", "PX", 30_000)
    assert client.execute_command("LOCK.EXTEND", "new", "me", "PX", 30_000, "FENCE", fence) == 30_000
    client.execute_command("LOCK.EXTEND", "new", "me", "PX", 1)
    client.delete("old")
    with pytest.raises(LockNotOwnedError):
        old.release()
    wait_for(lambda: not client.exists("new"), "the lease lapses")
    with pytest.raises(ResponseError, match="^NOTHELD "):
        client.execute_command("LOCK.RELEASE", "new", "me")
