"""Tests the lock that a process keeps until another process wants it."""

import asyncio
import time

import pytest
import redis.asyncio as redis
from kept_lock import KeptLock

from support import info, until

LEASE = 2000


@pytest.fixture
def run(server):
    """Runs an asynchronous function with three holders, each with its own client."""

    def run(body):
        async def opened():
            async with (
                redis.Redis(host="127.0.0.1", port=server.port) as one,
                redis.Redis(host="127.0.0.1", port=server.port) as two,
                redis.Redis(host="127.0.0.1", port=server.port) as three,
                KeptLock(one, "door", LEASE) as first,
                KeptLock(two, "door", LEASE) as second,
                KeptLock(three, "door", LEASE) as third,
            ):
                await body(first, second, third)

        asyncio.run(opened())

    return run


def grants(server):
    with server.connect() as client:
        return client.info("lock")["lock_grants"]


def test_many_uses_take_one_grant(run, server):
    async def body(first, *_):
        before, fences = grants(server), set()
        for _ in range(10_000):
            async with first.use() as fence:
                fences.add(fence)
        assert (grants(server) - before, len(fences)) == (1, 1)

    run(body)


def test_a_lock_is_kept_beyond_its_lease(run, server):
    async def body(first, *_):
        async with first.use() as fence:
            pass
        end = time.monotonic() + 2.5 * LEASE / 1000
        with server.connect() as other:
            while time.monotonic() < end:
                assert info(other, "door")["fence"] == fence
                await asyncio.sleep(0.01)
        async with first.use() as again:
            assert again == fence

    run(body)


@pytest.mark.crowd
def test_tasks_of_three_processes_are_never_inside_together(run):
    async def body(*locks):
        inside, fences = 0, []

        async def task(lock):
            nonlocal inside
            for _ in range(20):
                async with lock.use() as fence:
                    inside += 1
                    assert inside == 1, "two are inside"
                    fences.append(fence)
                    await asyncio.sleep(0)
                    inside -= 1

        await asyncio.gather(*(task(lock) for lock in locks for _ in range(33)))
        assert len(fences) == 3 * 33 * 20
        assert fences == sorted(fences)

    run(body)


def test_a_wish_is_served_though_the_subscription_was_cut(run, server):
    async def body(first, second, _):
        async with first.use() as fence:
            pass
        with server.connect() as other:
            other.client_kill_filter(_type="pubsub")

        async def wish():
            async with second.use() as next_fence:
                assert next_fence > fence

        await asyncio.wait_for(wish(), 60)

    run(body)


def test_a_lost_lock_is_taken_anew(run, server):
    async def body(first, *_):
        async with first.use() as fence:
            pass
        with server.connect() as other:
            other.execute_command("LOCK.BREAK", "door")
        await until(lambda: first.fence != fence, "it hears of its loss")
        async with first.use() as again:
            assert again > fence

    run(body)
