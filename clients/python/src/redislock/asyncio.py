"""Locks for tasks of asyncio."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.retry import Retry

from . import _own
from ._cluster import PATIENCE, Slots
from ._core import Core, Handle, T
from ._observer import Observer
from ._request import Key, LockError, LockLost, NotAcquired, Passing, Request, Seconds
from ._subscription import Subscription

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._request import Options, TryOptions

Client = Union["redis.Redis", "redis.RedisCluster"]

AT_END = 1.0  # s: how long the end of the program or of the client waits for a server


async def _closing(made: list[Locks], close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    for locks in made:
        await locks._client_closed()
    await close()


class _Signal:
    """Wakes one task that sleeps. (`asyncio.wait_for` would make another task for each sleep.)"""

    def __init__(self) -> None:
        self._set, self._sleeper = False, None  # type: bool, asyncio.Future[None] | None
        self.reader: Any = None

    def set(self) -> None:
        self._set = True
        self._wake()

    def clear(self) -> None:
        self._set = False

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def sleep(self, seconds: float) -> None:
        if self._set or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        self._sleeper = loop.create_future()
        timer = loop.call_later(seconds, self._wake) if seconds < math.inf else None
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if timer is not None:
                timer.cancel()


class _Line:
    """The connections for commands to a server."""

    def __init__(self, commands: Any, sessions: Any) -> None:
        self.commands, self.sessions = commands, sessions
        self.turns, self.session_turn = asyncio.Semaphore(_own.COMMANDS), asyncio.Semaphore(1)
        self.silent = 0.0  # when a command last timed out
        self.idle: list[tuple[Any, float]] = []

    async def send(self, words: list[Any], session: bool, asking: bool = False) -> Any:
        asked = monotonic()
        async with self.session_turn if session else self.turns:
            if asked < self.silent:
                raise exceptions.TimeoutError("the server did not answer those that had their turn before")
            try:
                if not session:
                    return await self._send(words, asking)
                if asking:
                    await self.sessions.execute_command("ASKING")
                return await self.sessions.execute_command(*words)
            except exceptions.TimeoutError:
                self.silent = monotonic()
                raise
            except exceptions.ResponseError as refusal:
                raise Passing.of(refusal) from None

    async def _send(self, words: list[Any], asking: bool) -> Any:
        """As `execute_command`, in half the time. The pool checks a connection once a second: it may be dead, or need to log in anew."""
        pool, now = self.commands.connection_pool, monotonic()
        connection, taken = self.idle.pop() if self.idle else (None, now)
        if connection is not None and now > taken + 1:
            await pool.release(connection)
            connection = None
        if connection is None:
            connection, taken = await pool.get_connection(), now
        try:
            if asking:
                await connection.send_command("ASKING", check_health=False)
                await connection.read_response()
            await connection.send_command(*words, check_health=False)
            reply = await connection.read_response()
        except exceptions.ResponseError:
            self.idle.append((connection, taken))
            raise
        except BaseException:
            await connection.disconnect(nowait=True)
            await pool.release(connection)
            raise
        self.idle.append((connection, taken))
        return reply

    async def close(self) -> None:
        await self.commands.connection_pool.disconnect()
        await self.sessions.connection_pool.disconnect()


class _Tasks:
    """IO for one event loop. Two tasks serve it: one hears messages, and one is the clock."""

    shields = True

    def __init__(self, client: Client, observer: Observer | None) -> None:
        self.client: Any = client
        self.tasks: set[asyncio.Task[Any]] = set()
        self.serving: list[asyncio.Task[Any]] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.lines: dict[str, _Line] = {}
        self.reading: asyncio.Task[None] | None = None
        self.slots = Slots(self) if isinstance(client, redis.RedisCluster) else None
        self.core = Core(self, observer)

    def _client(self, connections: int, name: str = "", **more: Any) -> Any:
        like = next(iter(self.client.nodes_manager.startup_nodes.values())) if name else self.client.connection_pool
        settings = _own.settings(like, Retry, name) | more
        return redis.Redis(connection_pool=redis.ConnectionPool(max_connections=connections, **settings))

    def line(self, name: str) -> _Line:
        if name not in self.lines:
            self.lines[name] = _Line(self._client(_own.COMMANDS, name), self._client(1, name))
        return self.lines[name]

    def seeds(self) -> Iterable[str]:
        return [node.name for node in self.client.nodes_manager.startup_nodes.values()]

    def at(self, host: str, port: int) -> str:
        return "{}:{}".format(*self.client.nodes_manager.remap_host_port(host, port))

    async def slots_of(self, name: str) -> Any:
        client = self._client(1, name, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
        try:
            connection = await client.connection_pool.get_connection()
            await connection.send_command("CLUSTER", "SLOTS")
            return await connection.read_response()
        finally:
            await client.connection_pool.disconnect()

    def signal(self) -> _Signal:
        return _Signal()

    woken = signal

    def reader(self, _: Subscription) -> None:
        """Does nothing: only one task reads."""

    async def turn(self, _: Subscription) -> None:
        pass

    def turn_over(self, _: Subscription) -> None:
        pass

    async def send(self, words: list[Any], session: bool) -> Any:
        return await (self.line("") if self.slots is None else self.slots).send(words, session)

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks the error as seen: the task that awaited it has it

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        # redis-py closes a command's connection if the command is cancelled, which would end all places on it.
        return await asyncio.shield(self._task(work))

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        self._task(work)

    def begun(self) -> bool:
        return self.loop is asyncio.get_running_loop()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.loop = self.loop or loop
        if self.loop is not loop:
            raise LockError("these locks belong to another event loop: make one Locks in each")
        if self.slots is not None and not self.slots.known():
            self.reading = self.reading or self._task(self.slots.read())
            await asyncio.shield(self.reading)
            self.reading = None
            if not self.slots.known():
                raise exceptions.ConnectionError("no node of the cluster tells its slots")

    def listen(self, subscription: Subscription) -> None:
        self._serve(subscription.listen())
        subscription.begun = True

    def serve(self) -> None:
        self._serve(self._clock())

    def _serve(self, work: Coroutine[Any, Any, None]) -> None:
        self.serving = [task for task in self.serving if not task.done()] + [self._task(work)]

    async def _clock(self) -> None:
        """Runs the clock. The end of `asyncio.run` cancels it, and all blocks, which release their own locks."""
        try:
            await self.core.clock()
        except asyncio.CancelledError:
            if not self.core.closed:
                with suppress(Exception):
                    await asyncio.wait_for(self.core.give_back(), AT_END)
            raise

    async def subscribe(self, subscription: Subscription) -> int:
        subscription.link = self._client(1, subscription.name).pubsub()
        await subscription.link.subscribe(subscription.channel)
        if subscription.name:
            await subscription.link.ssubscribe(subscription.channel)
        return 2 if subscription.name else 1

    async def receive(self, subscription: Subscription, seconds: float) -> Any:
        return await subscription.link.get_message(timeout=seconds)

    async def ping(self, subscription: Subscription) -> None:
        await subscription.link.ping()

    async def unsubscribe(self, subscription: Subscription) -> None:
        await subscription.link.aclose()

    async def close(self, why: str = "the locks were closed") -> None:
        await self.finish(self.core.end(why))
        serving = set(self.serving)
        while serving:  # a task that connects may miss its cancellation
            for task in serving:
                task.cancel()
            _, serving = await asyncio.wait(serving, timeout=0.1)
        while self.tasks:
            await asyncio.wait(set(self.tasks))
        for subscription in list(self.core.subscriptions.values()):
            with suppress(Exception):
                await self.unsubscribe(subscription)
        for line in self.lines.values():
            await line.close()


class Lock(Handle):
    """A lock that is held for a block, which is cancelled if the lock is lost; or from `acquire` to `release`. It can be used once."""

    _struck = False

    async def acquire(self) -> Lock:
        await self._core.acquire(self)
        return self

    async def release(self) -> None:
        """Raises `LockLost` if the lock was lost before."""
        await self._core.io.finish(self._core.release(self))

    async def extend(self, lease: Seconds | None = None) -> float:
        """Sets the lease, counted from now, also for later renewals; None keeps its length. Returns the seconds that the server gave."""
        return await self._core.io.finish(self._core.extend(self, lease))

    def _strike(self, _: LockLost) -> None:
        if self._inside is not None:
            self._struck = True
            self._inside.cancel()

    async def __aenter__(self) -> Lock:
        if not self._begins_block():
            await self.acquire()
        self._inside = asyncio.current_task()
        self.on_lost(self._strike)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        task, self._inside = self._inside, None
        if self._struck and task is not None:
            if not isinstance(error, asyncio.CancelledError):
                with suppress(asyncio.CancelledError):  # our own cancellation may still be pending
                    await asyncio.sleep(0)
            others = task.uncancel() if hasattr(task, "uncancel") else 0
            with suppress(Exception):
                await self.release()
            if error is None or (isinstance(error, asyncio.CancelledError) and not others):
                raise self.lost or LockLost(str(self._request)) from error
            return
        try:
            await self.release()
        except Exception:
            if error is None:  # the error of the block is raised instead
                raise


class Locks:
    """The locks of an event loop: make one, and share it between all tasks. `client` is a `Redis`, of Sentinel too, or a `RedisCluster`."""

    def __init__(self, client: Client, *, observer: Observer | None = None) -> None:
        _own.refuse_others(client, redis)
        self._client, self._io = client, _Tasks(client, observer)
        if not isinstance(client, redis.RedisCluster):  # a RedisCluster calls its own `aclose` after some errors
            _own.made_of(client, self, "aclose", _closing)

    def lock(self, *keys: Key, **options: Unpack[Options]) -> Lock:
        """`async with locks.lock("invoice:42", wait=10) as held: ...`. Times are seconds or `timedelta`."""
        return Lock(self._io.core, Request.of(keys, options))

    async def try_acquire(self, *keys: Key, **options: Unpack[TryOptions]) -> Lock | None:
        """Asks once, without waiting: None if somebody else holds the lock. A block can follow: `async with held: ...`."""
        try:
            return await self.lock(*keys, wait=0, **options).acquire()
        except NotAcquired:
            return None

    async def close(self) -> None:
        """Releases what is held, tells its holders, and ends all waits."""
        await asyncio.shield(asyncio.create_task(self._io.close()))  # closing may cancel this task, if a block of it holds a lock

    async def _client_closed(self) -> None:
        if (io := self._io).begun() and not io.core.closed:
            self._io = _Tasks(self._client, io.core.observer)  # a closed client can be used again, and so can its locks
            closing = asyncio.create_task(io.close("the client was closed"))
            await asyncio.wait({closing}, timeout=AT_END)

    async def __aenter__(self) -> Locks:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
