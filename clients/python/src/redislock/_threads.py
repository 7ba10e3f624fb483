"""Locks for threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

import redis
from redis.retry import Retry

from . import _own
from ._core import SILENCE, Core, Handle, T, log
from ._request import Key, Request, Seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._request import Options

Client = Union["redis.Redis", "redis.RedisCluster"]


def run(work: Coroutine[Any, Any, object]) -> None:
    """Ends a coroutine that never suspends."""
    with suppress(StopIteration):
        work.send(None)
        raise AssertionError("it suspended")


class _Signal(threading.Event):
    async def sleep(self, seconds: float) -> None:
        self.wait(min(seconds, threading.TIMEOUT_MAX))


class _Threads:
    """IO that blocks. Three threads serve the process: one hears messages, one is the clock, one sends what the clock wants sent."""

    def __init__(self, client: Client) -> None:
        self.client, self.core = client, Core(self)
        self._reset()

    def _reset(self) -> None:
        self.process, self.starting = os.getpid(), threading.Lock()
        self.threads: list[threading.Thread] = []
        self.jobs: SimpleQueue[Coroutine[Any, Any, object] | None] = SimpleQueue()
        self.turns, self.session_turn = threading.BoundedSemaphore(_own.COMMANDS), threading.BoundedSemaphore(1)
        self.pubsub: Any = None
        if isinstance(self.client, redis.RedisCluster):
            self.commands: Any = self.client
            self.sessions: Any = self.client
        else:
            self.commands, self.sessions = self._client(_own.COMMANDS), self._client(1)

    def _client(self, connections: int) -> redis.Redis:
        return redis.Redis(connection_pool=redis.ConnectionPool(max_connections=connections, **_own.settings(self.client, Retry)))

    def signal(self) -> _Signal:
        return _Signal()

    async def send(self, words: list[Any], session: bool) -> Any:
        with self.session_turn if session else self.turns:
            return (self.sessions if session else self.commands).execute_command(*words)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        self.jobs.put(work)

    async def start(self) -> None:
        if self.process != os.getpid():  # a child after a fork: threads and connections are the parent's
            self.core.reset()
            self._reset()
        with self.starting:
            if not self.threads:
                await self.core.subscribe()
                work = (lambda: run(self.core.listen()), lambda: run(self.core.clock()), self._work)
                self.threads = [threading.Thread(target=target, daemon=True, name="redislock") for target in work]
                for thread in self.threads:
                    thread.start()

    async def subscribe(self) -> None:
        source: Any = self._client(1) if self.commands is not self.client else self.client
        self.pubsub = source.pubsub()
        self.pubsub.subscribe(self.core.channel)

    async def receive(self) -> Any:
        return self.pubsub.get_message(timeout=SILENCE)

    async def ping(self) -> None:
        self.pubsub.ping()

    async def unsubscribe(self) -> None:
        self.pubsub.close()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                run(job)
            except Exception:
                log.exception("a renewal or a release failed")

    def close(self) -> None:
        if self.process != os.getpid():
            return
        run(self.core.end())
        self.core.closed = True
        self.core.tick.set()
        self.jobs.put(None)
        with suppress(Exception):
            self.pubsub.ping()  # wakes the thread that hears
        for thread in self.threads:
            thread.join(SILENCE)
        if self.commands is not self.client:
            self.commands.close()
            self.sessions.close()


class Lock(Handle):
    """A lock that is held for a block, or from `acquire` to `release`. It is used once."""

    _core: Core

    def acquire(self) -> Lock:
        self._process = os.getpid()
        run(self._core.acquire(self))
        return self

    def release(self) -> None:
        """Raises `LockLost` if the lock was lost meanwhile."""
        if self._process == os.getpid():  # in a child after a fork, the lock is the parent's
            run(self._core.release(self))

    def extend(self, lease: Seconds | None = None) -> None:
        """Sets the lease again, counted from now, and is the length of renewals from then on."""
        run(self._core.extend(self, lease))

    def cancel(self) -> None:
        """For other threads: the wait ends with `Cancelled`."""
        self._cancelled = True
        self._woken.set()

    def __enter__(self) -> Lock:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.release()
        except Exception:
            if error is None:  # what went wrong in the block tells more
                raise


class Locks:
    """The locks of a process: make one, and share it between all threads. `client` is a `Redis`, of Sentinel too, or a `RedisCluster`."""

    def __init__(self, client: Client) -> None:
        self._io = _Threads(client)

    def lock(self, *keys: Key, **options: Unpack[Options]) -> Lock:
        """`with locks.lock("invoice:42", wait=10) as held: ...`. Times are seconds or `timedelta`."""
        return Lock(self._io.core, Request(keys, **options))

    def close(self) -> None:
        """Releases what is held, and ends all waits."""
        self._io.close()

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

