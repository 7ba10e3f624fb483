"""What the documentation's other programs for Python promise: the async context manager, waiting by events, sessions."""

import asyncio
import time

import lock_async
import pytest
import redis.asyncio
from acquire_shared import acquire_shared
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry
from watched_lock import lock as watched_lock

from support import info, wait_for


@pytest.fixture
def client(server):
    return redis.asyncio.Redis(host="127.0.0.1", port=server.port, socket_timeout=None)


@pytest.fixture
def other(server):
    with server.connect() as other:
        yield other


def try_acquire(client):
    return client.execute_command("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000)


def test_async_the_lock_is_held_for_the_block_and_free_after_it(client, other):
    async def work():
        async with client, lock_async.lock(client, "door") as fence:
            assert try_acquire(other) is None
            assert info(other, "door")["fence"] == fence

    asyncio.run(work())
    assert try_acquire(other)


def test_async_a_task_that_is_cancelled_gives_the_lock_back(client, other):
    async def work():
        async with client, lock_async.lock(client, "door"):
            asyncio.current_task().cancel()
            await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())
    assert try_acquire(other)


@pytest.mark.parametrize("lock", [lock_async.lock, watched_lock])
def test_async_a_lost_lock_does_not_hide_what_went_wrong_in_the_block(client, other, lock):
    async def work():
        async with client, lock(client, "door"):
            other.execute_command("LOCK.BREAK", "door")
            1 / 0

    with pytest.raises(ZeroDivisionError):
        asyncio.run(work())


def test_async_a_lost_lock_does_not_go_unnoticed(client, other):
    async def work():
        async with client, lock_async.lock(client, "door"):
            other.execute_command("LOCK.BREAK", "door")

    with pytest.raises(ResponseError, match="^NOTHELD "):
        asyncio.run(work())


@pytest.mark.parametrize("events", ["KA", ""], ids=["events", "no events"])
def test_waiting_on_a_shared_connection(client, other, events):
    other.config_set("notify-keyspace-events", events)
    _, fence, *_ = other.execute_command("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 100_000)
    begin = time.monotonic()

    async def work():
        async with client:
            waiting = asyncio.create_task(acquire_shared(client, "door", wait_ms=100_000))
            while "cmdstat_pttl" not in other.info("commandstats"):  # it has asked how long to wait
                await client.ping()  # the connection is not blocked
            other.execute_command("LOCK.RELEASE", "door", "other")
            return await waiting

    owner, next_fence = asyncio.run(work())
    assert next_fence > fence
    assert info(other, "door")["owner"] == owner
    assert time.monotonic() - begin < 60  # not at the end of the lease


def test_a_session_ends_with_its_connection_and_the_fence_tells(server, other):
    client = server.connect(single_connection_client=True, retry=Retry(NoBackoff(), 0))

    def acquire():
        words = ["LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 60_000, "BLOCK", 0, "ONCE", "SESSION"]
        return client.execute_command(*words)[1]

    fence = acquire()
    assert acquire() == fence
    assert info(other, "door")["session"] == 1
    other.client_kill_filter(_id=client.client_id())
    wait_for(lambda: info(other, "door") is None, "the session ends")
    with pytest.raises(redis.ConnectionError):
        client.ping()
    assert acquire() > fence
    client.close()
    wait_for(lambda: info(other, "door") is None, "the session ends")
