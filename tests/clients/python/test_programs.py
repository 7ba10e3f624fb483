"""What the documentation's other programs for Python promise: the lock that is watched, sessions."""

import asyncio

import pytest
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry
from watched_lock import lock

from support import info, wait_for


@pytest.fixture
def client(server):
    return redis.asyncio.Redis(host="127.0.0.1", port=server.port, socket_timeout=None)


@pytest.fixture
def other(server):
    with server.connect() as other:
        yield other


def test_a_lost_lock_does_not_hide_what_went_wrong_in_the_block(client, other):
    async def work():
        async with client, lock(client, "door"):
            other.execute_command("LOCK.BREAK", "door")
            1 / 0

    with pytest.raises(ZeroDivisionError):
        asyncio.run(work())


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
