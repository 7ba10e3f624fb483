"""Raw commands through redis-py's two faces, threads and asyncio, in RESP2 and RESP3: what the page about all clients says of it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis.asyncio
from redis.exceptions import ResponseError

from support import LIMIT_S, connect, pairs, wait_for


class Threads:
    tasks = False

    def __init__(self):
        self.executor = ThreadPoolExecutor()

    def connect(self, port, **options):
        return connect(port, **options)

    def begin(self, call, *words):
        return self.executor.submit(call, *words)

    def end(self, waiting):
        return waiting.result(LIMIT_S)


class Tasks:
    tasks = True

    def __init__(self):
        self.loop = asyncio.new_event_loop()

    def connect(self, port, **options):
        return redis.asyncio.Redis(host="127.0.0.1", port=port, decode_responses=True, socket_timeout=None, **options)

    def begin(self, call, *words):
        return self.loop.create_task(call(*words))

    def end(self, waiting):
        return self.loop.run_until_complete(asyncio.wait_for(waiting, LIMIT_S))


@pytest.mark.parametrize("protocol", [2, 3], ids=["RESP2", "RESP3"])
@pytest.mark.parametrize("single", [False, True], ids=["pool", "one connection"])
@pytest.mark.parametrize("face", [Threads, Tasks], ids=["threads", "asyncio"])
def test_a_lock_from_its_grant_to_its_end(server, face, single, protocol):
    face = face()
    client = face.connect(server.port, protocol=protocol, single_connection_client=single)
    other = face.connect(server.port, protocol=protocol)

    def call(*words, by=client):
        return face.end(face.begin(by.execute_command, *words))

    def waiters():
        reply = call("LOCK.INFO", "door")
        assert isinstance(reply, dict if protocol == 3 else list)
        return pairs(reply)["waiters"]

    owner, fence, holds, lease = call("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 30_000)
    assert (owner, holds, lease) == ("alice", 1, 30_000)
    assert call("LOCK.ACQUIRE", "door", "OWNER", "bob") is None
    # A wait takes a connection of the pool; what has only one needs another for it.
    waiting = face.begin((other if single else client).execute_command, "LOCK.ACQUIRE", "door", "OWNER", "bob", "BLOCK", 0)
    wait_for(lambda: waiters() == 1, "bob waits")
    assert call("LOCK.RELEASE", "door", "alice", "FENCE", fence) == 0
    owner, next_fence, *_ = face.end(waiting)
    assert owner == "bob" and next_fence > fence
    assert call("LOCK.ACQUIRE", "door", "OWNER", "carol", "BLOCK", 60_000, "NOTIFY", "mine", "ONCE") == "QUEUED"
    with pytest.raises(ResponseError, match="^NOTHELD "):
        call("LOCK.RELEASE", "door", "alice", "FENCE", fence)
    with pytest.raises(ResponseError, match="^syntax error"):  # without its ERR
        call("LOCK.ACQUIRE", "door", "OWNED")
    assert call("LOCK.INFO", "window") is None
    for each in (client, other):
        face.end(face.begin(each.aclose if face.tasks else each.close))
