"""Raw commands through redis-py's two faces, threads and asyncio: with a pool and with one connection, in RESP2 and RESP3."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis.asyncio
from redis.exceptions import ResponseError

from support import connect, pairs, wait_for


class Threads:
    def __init__(self):
        self.executor = ThreadPoolExecutor()

    def connect(self, port, **options):
        return connect(port, **options)

    def call(self, client, *words):
        return client.execute_command(*words)

    def begin(self, client, *words):
        return self.executor.submit(client.execute_command, *words)

    def end(self, waiting):
        return waiting.result(60)

    def close(self, *clients):
        for client in clients:
            client.close()
        self.executor.shutdown()


class Tasks:
    def __init__(self):
        self.loop = asyncio.new_event_loop()

    def connect(self, port, **options):
        return redis.asyncio.Redis(host="127.0.0.1", port=port, decode_responses=True, socket_timeout=None, **options)

    def call(self, client, *words):
        return self.end(client.execute_command(*words))

    def begin(self, client, *words):
        return self.loop.create_task(client.execute_command(*words))

    def end(self, waiting):
        return self.loop.run_until_complete(asyncio.wait_for(waiting, 60))

    def close(self, *clients):
        for client in clients:
            self.end(client.aclose())
        self.loop.close()


@pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])
@pytest.mark.parametrize("single", [False, True], ids=["pool", "one connection"])
@pytest.mark.parametrize("face", [Threads, Tasks], ids=["threads", "asyncio"])
def test_a_lock_from_its_grant_to_its_end(server, face, single, protocol):
    face = face()
    client = face.connect(server.port, protocol=protocol, single_connection_client=single)
    other = face.connect(server.port, protocol=protocol)

    owner, fence, holds, lease = face.call(client, "LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 30_000)
    assert (owner, holds, lease) == ("alice", 1, 30_000)
    again = face.call(client, "LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 30_000)
    assert again[:3] == ["alice", fence, 2]
    # The same owner on another connection: the same grant, without another hold.
    resumed = face.call(other, "LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 30_000, "ONCE")
    assert resumed[:3] == ["alice", fence, 2]
    assert face.call(client, "LOCK.EXTEND", "door", "alice", "EX", 60, "FENCE", fence) == 60_000
    assert face.call(client, "LOCK.ACQUIRE", "door", "OWNER", "bob") is None

    # A wait takes a connection of the pool; what has only one needs another for it.
    waiting = face.begin(other if single else client, "LOCK.ACQUIRE", "door", "OWNER", "bob", "PX", 30_000, "BLOCK", 0)

    def info():
        reply = face.call(client, "LOCK.INFO", "door")
        assert isinstance(reply, dict if protocol == 3 else list)
        return pairs(reply)

    wait_for(lambda: info()["waiters"] == 1, "bob waits")
    before = time.monotonic()
    assert face.call(client, "LOCK.RELEASE", "door", "alice", "FENCE", fence) == 1
    assert face.call(client, "LOCK.RELEASE", "door", "alice", "FENCE", fence) == 0
    owner, next_fence, holds, lease = face.end(waiting)
    assert (owner, holds) == ("bob", 1)
    # What is left of it when the reply goes out, in whole ms.
    gone_by = (time.monotonic() - before) * 1000
    assert 30_000 - gone_by - 1 <= lease <= 30_000
    assert next_fence > fence
    with pytest.raises(ResponseError, match="^NOTHELD "):
        face.call(client, "LOCK.EXTEND", "door", "alice")
    assert face.call(client, "LOCK.RELEASE", "door", "bob", "ALL") == 0
    assert face.call(client, "LOCK.INFO", "door") is None
    face.close(client, other)
