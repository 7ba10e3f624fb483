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
    assert call("LOCK.ACQUIRE", "door", "OWNER", "alice")[:3] == ["alice", fence, 2]
    # The same owner on another connection: the same grant, without another hold.
    assert call("LOCK.ACQUIRE", "door", "OWNER", "alice", "ONCE", by=other)[:3] == ["alice", fence, 2]
    assert call("LOCK.EXTEND", "door", "alice", "EX", 60, "FENCE", fence) == 60_000
    assert call("LOCK.ACQUIRE", "door", "OWNER", "bob") is None

    # A wait takes a connection of the pool; what has only one needs another for it.
    waiting = face.begin((other if single else client).execute_command, "LOCK.ACQUIRE", "door", "OWNER", "bob", "BLOCK", 0)
    wait_for(lambda: waiters() == 1, "bob waits")
    assert call("LOCK.RELEASE", "door", "alice", "FENCE", fence) == 1
    assert call("LOCK.RELEASE", "door", "alice", "FENCE", fence) == 0
    owner, next_fence, holds, _ = face.end(waiting)
    assert (owner, holds) == ("bob", 1) and next_fence > fence

    hearing = other.pubsub(ignore_subscribe_messages=True)
    face.end(face.begin(hearing.subscribe, "mine"))
    wait = ["LOCK.ACQUIRE", "door", "OWNER", "carol", "BLOCK", 60_000, "NOTIFY", "mine", "ONCE"]
    assert call(*wait) == "QUEUED"
    assert call("LOCK.RELEASE", "door", "bob", "ALL") == 0
    message = wait_for(lambda: face.end(face.begin(hearing.get_message)), "carol hears")["data"]
    granted = call(*wait)
    assert granted[0] == "carol" and message == f"granted {granted[1]} carol"

    with pytest.raises(ResponseError, match="^NOTHELD "):
        call("LOCK.RELEASE", "door", "alice", "FENCE", fence)
    with pytest.raises(ResponseError, match="^syntax error"):  # without its ERR
        call("LOCK.ACQUIRE", "door", "OWNED")
    assert call("LOCK.RELEASE", "door", "carol") == 0
    assert call("LOCK.INFO", "door") is None
    for each in (hearing, client, other):
        face.end(face.begin(each.aclose if face.tasks else each.close))
