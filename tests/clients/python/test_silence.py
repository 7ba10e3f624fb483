"""Tests a server that does not answer, at the first lock or later. All waits and all calls of close end in time."""

import asyncio
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager

import pytest
import redis
import redis.asyncio
import redislock
import redislock.asyncio

from support import info, run_threads, until, wait_for

MANY = 30
ANSWER = 1.0  # s: how long the client waits for an answer
LIMITS = {"socket_timeout": ANSWER, "socket_connect_timeout": ANSWER, "max_connections": 300}
LATEST = 4 * ANSWER  # generous for a busy machine, but less than several waits one after the other


@pytest.fixture
def mute():
    """The URL of a port that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def frozen(server):
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


def ours():
    return {thread for thread in threading.enumerate() if thread.name == "redislock"}


@pytest.fixture(autouse=True)
def no_thread_is_left(server):
    before = ours()
    yield
    wait_for(lambda: ours() <= before, "no thread is left")


def all_fail_in_time(locks, **options):
    """Acquires many locks at once, each with its own key."""
    began = time.monotonic()

    def take(number):
        with pytest.raises((redis.TimeoutError, redis.ConnectionError, redislock.NotAcquired)):
            locks.lock(f"door{number}", wait=0.5, **options).acquire()

    run_threads(MANY, take)
    assert time.monotonic() - began < LATEST


async def all_tasks_fail_in_time(locks, **options):
    began = time.monotonic()
    ended = await asyncio.gather(*(locks.lock(f"door{number}", wait=0.5, **options).acquire() for number in range(MANY)), return_exceptions=True)
    assert time.monotonic() - began < LATEST
    assert all(isinstance(error, (redis.TimeoutError, redis.ConnectionError, redislock.NotAcquired)) for error in ended), ended


def test_many_connect_at_once_to_what_does_not_answer(mute):
    with redis.Redis.from_url(mute, **LIMITS) as client, redislock.Locks(client) as locks:
        all_fail_in_time(locks)


def test_many_tasks_connect_at_once_to_what_does_not_answer(mute):
    async def work():
        async with redis.asyncio.Redis.from_url(mute, **LIMITS) as client, redislock.asyncio.Locks(client) as locks:
            await all_tasks_fail_in_time(locks)

    asyncio.run(work())


def test_a_client_is_closed_while_the_locks_connect(server, other):
    waits, before = [], ours()

    def wait(number):
        with pytest.raises(redislock.Closed, match=f"^the client was closed: door{number}$"):
            waits[number].acquire()

    with redis.Redis.from_url(server.url, socket_timeout=30) as client, redislock.Locks(client) as locks:
        waits += [locks.lock(f"door{number}") for number in range(3)]
        with frozen(server):
            threads = [threading.Thread(target=wait, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            wait_for(lambda: all(each._state == "waiting" for each in waits) and ours() - before, "all wait for the connections")
            began = time.monotonic()
            client.close()
            for thread in threads:
                thread.join()
            assert time.monotonic() - began < 20, "the client's timeout is 30 s"
        wait_for(lambda: ours() <= before and not other.pubsub_channels(), "nothing is left behind")
        assert not any(info(other, f"door{number}") for number in range(3))
        with locks.lock("door"):  # the client opens again
            pass


def test_a_client_is_closed_while_the_locks_of_tasks_connect(server, other):
    async def work():
        async with redis.asyncio.Redis.from_url(server.url, socket_timeout=30) as client, redislock.asyncio.Locks(client) as locks:
            with frozen(server):
                waits = [locks.lock(f"door{number}") for number in range(3)]
                tasks = [asyncio.create_task(each.acquire()) for each in waits]
                await asyncio.sleep(0)
                assert all(each._state == "waiting" for each in waits), "all wait for the connections"
                began = time.monotonic()
                await client.aclose()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                assert time.monotonic() - began < 20, "the client's timeout is 30 s"
            assert [str(error) for error in ended] == [f"the client was closed: door{number}" for number in range(3)]
            await until(lambda: len(asyncio.all_tasks()) == 1 and not other.pubsub_channels(), "nothing is left behind")

    asyncio.run(work())


def test_holders_and_waits_are_told_of_the_close_though_renewals_get_no_answer(server, other):
    """The renewals are sent one after the other. The close is reported without waiting for them."""
    other.execute_command("LOCK.ACQUIRE", "window", "OWNER", "other", "PX", 600_000)
    told = []

    def wait():
        with pytest.raises(redislock.Closed):
            locks.lock("window").acquire()
        told.append("window")

    with redis.Redis.from_url(server.url, socket_timeout=5) as client, redislock.Locks(client) as locks:
        held = [locks.lock(f"door{number}", lease=20).acquire() for number in range(5)]
        held[-1].on_lost(lambda _: told.append("door"))
        thread = threading.Thread(target=wait)
        thread.start()
        wait_for(lambda: (info(other, "window") or {}).get("waiters"), "it waits")
        with frozen(server):
            for each in held:
                locks._io.core._doubtful(each)  # a new subscription does this
            wait_for(lambda: sum(each._due == float("inf") for each in held) == 5, "the renewals are on their way")
            client.close()
            assert "door" in told
            thread.join(15)
            assert "window" in told
