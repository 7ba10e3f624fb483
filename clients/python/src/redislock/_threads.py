"""Locks for threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from multiprocessing.util import Finalize
from queue import SimpleQueue
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Union

import redis
from redis import exceptions
from redis.retry import Retry

from . import _own
from ._cluster import PATIENCE, Slots
from ._core import Core, Handle, T
from ._observer import Observer
from ._request import Key, LockLost, NotAcquired, Passing, Request, Seconds
from ._subscription import SILENCE, TRY_AGAIN, Subscription, log

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._request import Options, TryOptions

Client = Union["redis.Redis", "redis.RedisCluster"]


A_LOOK = 1.0  # s: how late a reading thread may notice that its wait is over, if the server is silent
AT_EXIT = 1.0  # s: how long the end of the program or of the client waits for a server
REST = 0.01  # s: how late a loss may be noticed if no thread waits


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends to its end."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it suspended")


def _give_back() -> None:
    """At the normal end of the process, releases all locks. No new thread can start then, but those of the locks still run."""
    ends = monotonic() + AT_EXIT
    for given in [io.soon(io.core.give_back()) for io in list(_Threads.all) if io.core.connected and not io.core.closed]:
        given.wait(max(0, ends - monotonic()))


def _begin_anew() -> None:
    """Runs in a child after a fork, before it starts threads: the threads and connections belong to the parent."""
    for io in list(_Threads.all):
        io.core.begin_anew()
        io.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _closing(made: list[Locks], close: Callable[[], object]) -> None:
    for locks in made:
        locks._client_closed()
    close()


class _Signal(threading.Event):
    reader = None

    async def sleep(self, seconds: float) -> None:
        self.wait(max(0.0, min(seconds, threading.TIMEOUT_MAX)))


class _Woken:
    """Wakes a thread that waits, even if this thread is reading the subscription."""

    def __init__(self) -> None:
        self.reader: _Reader | None = None
        self.is_set, self.event = False, threading.Event()

    def set(self) -> None:
        self.is_set = True
        self.event.set()
        if self.reader is not None:
            self.reader.interrupt(self)

    def clear(self) -> None:
        self.is_set = False
        self.event.clear()

    async def sleep(self, seconds: float) -> None:
        if self.reader is not None:
            self.reader.wait(self, seconds)
        else:
            self.event.wait(max(0.0, min(seconds, threading.TIMEOUT_MAX)))


class _Reader:
    """Decides which thread reads a subscription: one that waits for a lock, which then need not be woken, or else a thread of its own."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription, self.core = subscription, subscription.core
        self.turn = threading.Lock()  # the thread that has it reads
        self.free = threading.Event()  # set when nobody may be reading
        self.free.set()
        self.leader: tuple[_Woken, int] | None = None
        self.asleep: dict[_Woken, None] = {}

    def wait(self, woken: _Woken, seconds: float) -> None:
        end = monotonic() + seconds
        self.asleep[woken] = None
        try:
            while not woken.is_set and (left := end - monotonic()) > 0:
                if self.subscription.alive and self.turn.acquire(blocking=False):
                    self._lead(woken, end)
                else:
                    woken.event.wait(min(left, threading.TIMEOUT_MAX))
                    if not woken.is_set:  # a woken thread may take the turn
                        woken.event.clear()
        finally:
            del self.asleep[woken]
            if not self.turn.locked():
                self.offer()

    def _lead(self, woken: _Woken, end: float) -> None:
        self.leader = woken, threading.get_ident()
        try:
            while not (woken.is_set or self.core.closed) and (left := end - monotonic()) > 0:
                run(self.subscription.hear(min(left, A_LOOK)))
        except exceptions.RedisError as error:
            self.subscription.broken(error)
        except BaseException:  # a signal handler's exception, perhaps in the middle of a message
            self.subscription.alive = False
            raise
        finally:
            self.leader = None
            self.turn.release()
            if not self.subscription.alive:
                self.free.set()

    def interrupt(self, woken: _Woken) -> None:
        """Ends the read of another thread, by a ping: its answer ends the read."""
        leader = self.leader
        if leader is not None and leader[0] is woken and leader[1] != threading.get_ident():
            with suppress(Exception):
                run(self.core.io.ping(self.subscription))

    def offer(self) -> None:
        """Passes the turn to a thread that waits anyway, or else to the subscription's own thread."""
        waiting = next((each for each in list(self.asleep) if not each.is_set), None)
        if waiting is not None and self.subscription.alive:
            waiting.event.set()
        else:
            self.free.set()

    def take(self) -> None:
        """The subscription's own thread, which reads if no other does. It pauses, since a thread that was just woken may soon wait again."""
        while True:
            self.free.wait()
            self.free.clear()
            if self.subscription.alive and not self.core.closed:
                sleep(REST)
            if self.turn.acquire(blocking=False):
                return


class _Line:
    """The connections for commands to a server."""

    def __init__(self, commands: Any, sessions: Any) -> None:
        self.commands, self.sessions = commands, sessions
        self.turns, self.session_turn = threading.BoundedSemaphore(_own.COMMANDS), threading.BoundedSemaphore(1)
        self.silent = 0.0  # when a command last timed out
        self.idle: list[tuple[Any, float]] = []

    async def send(self, words: list[Any], session: bool, asking: bool = False) -> Any:
        turns = self.session_turn if session else self.turns
        self._take(turns)
        try:
            if not session:
                return self._send(words, asking)
            if asking:
                self.sessions.execute_command("ASKING")
            return self.sessions.execute_command(*words)
        except exceptions.TimeoutError:
            self.silent = monotonic()
            raise
        except exceptions.ResponseError as refusal:
            raise Passing.of(refusal) from None
        finally:
            turns.release()

    def _take(self, turns: threading.Semaphore) -> None:
        """Waits for a turn, but not also for an answer: if the server has not answered others meanwhile, this fails like them."""
        asked, taken = monotonic(), False
        while not taken:
            taken = turns.acquire(timeout=TRY_AGAIN)
            if asked < self.silent:
                if taken:
                    turns.release()
                raise exceptions.TimeoutError("the server did not answer those that had their turn before")

    def _send(self, words: list[Any], asking: bool) -> Any:
        """As `execute_command`, in half the time. The pool checks a connection once a second: it may be dead, or need to log in anew."""
        pool, now = self.commands.connection_pool, monotonic()
        connection, taken = self.idle.pop() if self.idle else (None, now)
        if connection is not None and now > taken + 1:
            pool.release(connection)
            connection = None
        if connection is None:
            connection, taken = pool.get_connection(), now
        try:
            if asking:
                connection.send_command("ASKING", check_health=False)
                connection.read_response()
            connection.send_command(*words, check_health=False)
            reply = connection.read_response()
        except exceptions.ResponseError:
            self.idle.append((connection, taken))
            raise
        except BaseException:
            connection.disconnect()
            pool.release(connection)
            raise
        self.idle.append((connection, taken))
        return reply

    def close(self) -> None:
        self.silent = monotonic()  # so all that wait for an answer or a connection fail now
        with suppress(IndexError):
            while True:
                self.commands.connection_pool.release(self.idle.pop()[0])
        for client in (self.commands, self.sessions):
            client.connection_pool.disconnect(inuse_connections=False)


class _Threads:
    """IO that blocks. The process has three threads: one hears messages when no waiting thread does (in a cluster, one for each shard), one
    is the clock, and one sends the clock's commands."""

    all: ClassVar[weakref.WeakSet[_Threads]] = weakref.WeakSet()
    process: ClassVar[int | None] = None  # the process at whose end locks are released
    shields = False

    def __init__(self, client: Client, observer: Observer | None) -> None:
        self.all.add(self)
        self.client: Any = client
        self.core = Core(self, observer)
        self.reset()

    def reset(self) -> None:
        self.starting = threading.RLock()  # reentrant: a signal handler may close the client meanwhile
        self.threads: list[threading.Thread] = []
        self.jobs: SimpleQueue[Coroutine[Any, Any, object] | None] = SimpleQueue()
        self.lines: dict[str, _Line] = {}
        self.slots = Slots(self) if isinstance(self.client, redis.RedisCluster) else None

    def _client(self, connections: int, name: str = "", **more: Any) -> Any:
        like = self.client.get_redis_connection(self.client.get_default_node()) if name else self.client
        settings = _own.settings(like.connection_pool, Retry, name) | more
        return redis.Redis(connection_pool=redis.ConnectionPool(max_connections=connections, **settings))

    def line(self, name: str) -> _Line:
        if (line := self.lines.get(name)) is None:
            with self.starting:
                if (line := self.lines.get(name)) is None:
                    line = self.lines[name] = _Line(self._client(_own.COMMANDS, name), self._client(1, name))
        return line

    def seeds(self) -> Iterable[str]:
        return [node.name for node in list(self.client.nodes_manager.startup_nodes.values())]

    def at(self, host: str, port: int) -> str:
        return "{}:{}".format(*self.client.nodes_manager.remap_host_port(host, port))

    async def slots_of(self, name: str) -> Any:
        pool = self._client(1, name, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE).connection_pool
        try:
            connection = pool.get_connection()
            connection.send_command("CLUSTER", "SLOTS")
            return connection.read_response()
        finally:
            pool.disconnect()

    def signal(self) -> _Signal:
        return _Signal()

    def woken(self) -> _Woken:
        return _Woken()

    def reader(self, subscription: Subscription) -> _Reader:
        return _Reader(subscription)

    async def turn(self, subscription: Subscription) -> None:
        subscription.reader.take()

    def turn_over(self, subscription: Subscription) -> None:
        subscription.reader.turn.release()
        subscription.reader.offer()

    async def send(self, words: list[Any], session: bool) -> Any:
        return await (self.line("") if self.slots is None else self.slots).send(words, session)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        self.jobs.put(work)

    def begun(self) -> bool:
        return self.core.connected or bool(self.core.subscriptions)

    async def start(self) -> None:
        if self.slots is None or self.slots.known():
            return
        with self.starting:
            if not self.slots.known():
                await self.slots.read()
        if not self.slots.known():
            raise exceptions.ConnectionError("no node of the cluster tells its slots")

    def listen(self, subscription: Subscription) -> None:
        with self.starting:
            if not subscription.begun:
                self._thread(lambda: run(subscription.listen()))
                subscription.begun = True

    def serve(self) -> None:
        self._thread(lambda: run(self.core.clock()))
        self._thread(self._work)
        with self.starting:
            if _Threads.process != os.getpid():
                _Threads.process = os.getpid()
                Finalize(None, _give_back, exitpriority=0)  # like `atexit`, but also runs in a `multiprocessing` process

    def _thread(self, target: Callable[[], object]) -> None:
        thread = threading.Thread(target=target, daemon=True, name="redislock")
        with self.starting:
            thread.start()
            self.threads = [each for each in self.threads if each.is_alive()] + [thread]

    async def subscribe(self, subscription: Subscription) -> int:
        subscription.link = self._client(1, subscription.name).pubsub()
        subscription.link.subscribe(subscription.channel)
        if subscription.name:
            subscription.link.ssubscribe(subscription.channel)
        return 2 if subscription.name else 1

    async def receive(self, subscription: Subscription, seconds: float) -> Any:
        return subscription.link.get_message(timeout=seconds)

    async def ping(self, subscription: Subscription) -> None:
        subscription.link.ping()

    async def unsubscribe(self, subscription: Subscription) -> None:
        subscription.link.close()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                run(job)
            except Exception:
                log.exception("a renewal or a release failed")

    def soon(self, work: Coroutine[Any, Any, object]) -> threading.Event:
        """Lets another thread do the work, so that the caller may stop waiting for it."""
        done = threading.Event()

        async def job() -> None:
            try:
                await work
            finally:
                done.set()

        self.spawn(job())
        return done

    def close(self) -> None:
        self._end("the locks were closed", SILENCE)

    def client_closed(self) -> None:
        self._end("the client was closed", AT_EXIT)

    def _end(self, why: str, patience: float) -> None:
        if self.core.closed:
            return
        ends, parting, answered = monotonic() + patience, self.core.end(why), True
        if self.core.connected and threading.current_thread() not in self.threads:
            answered = self.soon(parting).wait(patience)  # time limit, in case the server does not answer
        else:  # nothing was sent yet, or a listener closes the locks
            run(parting)
        self._stop(ends, answered)

    def _stop(self, ends: float, answered: bool) -> None:
        self.core.closed = True
        self.core.tick.set()
        self.jobs.put(None)
        for subscription in list(self.core.subscriptions.values()):
            subscription.reader.free.set()
            if subscription.alive and answered:
                with suppress(Exception):
                    subscription.link.ping()  # wakes the reading thread
        for thread in self.threads:
            if thread is not threading.current_thread():  # a listener in this thread may close the locks
                thread.join(max(0, ends - monotonic()))
        self.core.ended()
        for line in list(self.lines.values()):
            line.close()


class Lock(Handle):
    """A lock that is held for a block, or from `acquire` to `release`. Each object can be used only once."""

    _core: Core

    def acquire(self) -> Lock:
        self._use()  # keeps the object alive while it is held
        try:
            run(self._core.acquire(self))
            return self
        except BaseException:
            self._core.drop(self)
            raise

    def release(self) -> None:
        """Raises `LockLost` if the lock was lost before."""
        try:
            run(self._core.release(self))
        except LockLost:
            raise
        except BaseException:  # for example Ctrl-C
            self._core.drop(self)
            raise

    def extend(self, lease: Seconds | None = None) -> float:
        """Sets the lease, counted from now, also for later renewals; None keeps its length. Returns the seconds that the server gave."""
        return run(self._core.extend(self, lease))

    def cancel(self) -> None:
        """Can be called by other threads: the wait ends with `Cancelled`."""
        self._cancelled = "no longer wanted"
        self._woken.set()

    def __enter__(self) -> Lock:
        return self if self._begins_block() else self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.release()
        except Exception:
            if error is None:  # the error of the block is raised instead
                raise


class Locks:
    """The locks of a process: make one, and share it between all threads. `client` is a `Redis`, of Sentinel too, or a `RedisCluster`."""

    def __init__(self, client: Client, *, observer: Observer | None = None) -> None:
        _own.refuse_others(client, redis)
        self._client, self._io = client, _Threads(client, observer)
        _own.made_of(client, self, "close", _closing)

    def lock(self, *keys: Key, **options: Unpack[Options]) -> Lock:
        """`with locks.lock("invoice:42", wait=10) as held: ...`. Times are seconds or `timedelta`."""
        return Lock(self._io.core, Request.of(keys, options))

    def try_acquire(self, *keys: Key, **options: Unpack[TryOptions]) -> Lock | None:
        """Asks once, without waiting: None if somebody else holds the lock. A block can follow: `with held: ...`."""
        try:
            return self.lock(*keys, wait=0, **options).acquire()
        except NotAcquired:
            return None

    def close(self) -> None:
        """Releases what is held, tells its holders, and ends all waits."""
        self._io.close()

    def _client_closed(self) -> None:
        if (io := self._io).begun() and not io.core.closed:
            self._io = _Threads(self._client, io.core.observer)  # a closed client can be used again, and so can its locks
            io.client_closed()

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

