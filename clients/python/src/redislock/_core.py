"""How locks are waited for, kept and given up, for threads and asyncio. docs/protocol.md describes the protocol.

Only `IO` blocks. With threads, its coroutines block instead of suspending, so that `_threads.run` can run any coroutine to its end at once.
"""

from __future__ import annotations

import math
import os
import re
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from redis import exceptions

from ._cluster import Slots
from ._observer import Observer, Outcome
from ._request import (
    Cancelled, Closed, Deadlock, Key, LockError, LockLost, Mode, NotAcquired, Passing, Request, Seconds, Words, gone, ms, seconds
)
from ._subscription import SILENCE, TRY_AGAIN, Subscription, log

ASK_AGAIN = 4.0  # s; less than the server's setting lock.claim, so a lost message delays the grant but does not lose it
RENEW_AGAIN = 1.0  # s: the longest pause after a renewal that failed
CLOSING = 1.0  # s: how long the end of all locks waits for places to be given up, before it closes the connections
LEASE_OVER = "its lease is over, and no renewal came through"
TOO_OLD = "it has reached its maximum age (max_hold, or the server's lock.max-hold)"

# Errors after which to ask again: the connection is lost, or the server can't serve the command at the moment.
PASSING = (
    Passing,
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
    exceptions.ClusterError,
    exceptions.RedisClusterException,
    OSError,
)


T = TypeVar("T")


class Signal(Protocol):
    reader: Any

    def set(self) -> None: ...
    def clear(self) -> None: ...
    async def sleep(self, seconds: float) -> None: ...


class IO(Protocol):
    """The operations in which threads and asyncio differ."""

    shields: bool  # whether `finish` completes its work although the task is cancelled
    slots: Slots | None  # None outside a cluster

    def signal(self) -> Signal: ...
    def woken(self) -> Signal: ...
    def reader(self, subscription: Subscription) -> Any: ...
    async def start(self) -> None: ...
    def listen(self, subscription: Subscription) -> None: ...
    def serve(self) -> None: ...
    async def send(self, words: Words, session: bool) -> Any: ...
    async def finish(self, work: Coroutine[Any, Any, T]) -> T: ...
    def spawn(self, work: Coroutine[Any, Any, object]) -> None: ...
    async def subscribe(self, subscription: Subscription) -> int: ...
    async def turn(self, subscription: Subscription) -> None: ...
    def turn_over(self, subscription: Subscription) -> None: ...
    async def receive(self, subscription: Subscription, seconds: float) -> Any: ...
    async def ping(self, subscription: Subscription) -> None: ...
    async def unsubscribe(self, subscription: Subscription) -> None: ...


@dataclass(eq=False)
class Sent:
    """A command that awaits its answer, which tells the lease."""

    handle: Handle
    began: float
    latest: float = math.inf  # the latest end of the lease, whatever the answer says
    sets: float = math.inf  # the lease that the command sets, if it is an extension


class Handle:
    """One acquire: first the wait, then the grant. Base of both classes `Lock`, for threads and for asyncio."""

    def __init__(self, core: Core, request: Request) -> None:
        self._core, self._request, self._woken = core, request, core.io.woken()
        self._state = "new"  # waiting, held, lost, parting, over
        self._fences: list[int] = []
        self._left: list[int] = []  # fences of a grant that another task of this owner left to this one
        self._slots: list[int] = []
        self._until = self._due = math.inf  # when the lease is over, and when the clock has to act on this lock
        self._lease = 30.0
        self._whole = 0  # ms: the lease that a renewal is expected to give; 0 is unknown
        self._place = self._asking = self._unsure = self._doubt = False
        self._aged = False  # the last lease came out short: the maximum age cuts it
        self._unclaimed = False  # held by a start message: the claim is still to come
        self._cancelled = ""  # why the wait was given up
        self._gave = False  # its release was sent, and may have arrived
        self._given_back = False  # it was released after its holder was told the end
        self._subscription: Subscription | None = None  # the one that gets its messages
        self._answered: Signal | None = None
        self._ended: Signal | None = None
        self._since: float | None = None  # since the observer was told that it is held, until it is told of the end
        self._entered = False  # whether a `with` block has begun
        self._inside: Any = None  # the task of a block, which releases it even at the end of the program
        self._heard_lost: set[int] = set()
        self._asks, self._asked = 0, 0.0  # the number of the last acquire, and when it was sent
        self._told: tuple[int, int, int] | None = None  # a start message: fence, ms until it ends unclaimed, slot
        self._error: LockLost | None = None
        self._listeners: list[Callable[[LockLost], object]] = []

    def _use(self) -> None:
        if self._core.closed:
            raise Closed("the locks were closed")
        if self._state != "new":
            raise LockError(f"this lock was used already: {self._request}")

    def _begins_block(self) -> bool:
        """Returns whether a block may begin although the lock is held already: `acquire` came first. Otherwise begins to use the lock."""
        again, self._entered = self._entered, True
        if self._state == "new":
            return False
        self.check()
        return self._state == "held" and not again

    @property
    def keys(self) -> tuple[Key, ...]:
        return self._request.keys

    @property
    def owner(self) -> bytes:
        return self._request.name

    @property
    def mode(self) -> Mode:
        return self._request.mode

    @property
    def fence(self) -> int:
        """Greater for each later grant: a resource that checks it can refuse a late holder. With several locks, their greatest fence."""
        return max(self._fences)

    @property
    def fences(self) -> list[int]:
        return list(self._fences)

    @property
    def slot(self) -> int | None:
        """With `limit`: which of the holders this one is, from 1; None if the server does not tell."""
        return self._slots[0] if self._slots else None

    @property
    def lost(self) -> LockLost | None:
        """Why the lock was lost; None if it was not."""
        if self._state == "held" and monotonic() >= self._until:  # the process was suspended, and the clock has not run yet
            self._core._lose(self, TOO_OLD if self._aged else LEASE_OVER)
        return self._error

    def check(self) -> None:
        """Raises `LockLost` if the lock was lost."""
        if (error := self.lost) is not None:
            raise error

    def on_lost(self, listener: Callable[[LockLost], object]) -> None:
        """Calls the listener as soon as the lock is lost, in the thread that finds out."""
        with self._core.mutex:
            if self._error is None:
                self._listeners.append(listener)
                return
        listener(self._error)


class Core:
    PASSING = PASSING

    def __init__(self, io: IO, observer: Observer | None) -> None:
        self.io, self.observer = io, observer
        self.closed = False
        self.start = True  # False once a server did not know START
        self.tick = io.signal()
        self.reset()

    def begin_anew(self) -> None:
        """Starts anew in a child after a fork: the parent holds the locks."""
        for handles in self.handles.values():
            for handle in handles:
                handle._state = "over"
        self.reset()

    def reset(self) -> None:
        host = re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname())[:64]
        self.channel = f"redislock:{host}:{os.getpid()}:{uuid4()}"  # LOCK.INFO shows host and process to operators
        self.handles: dict[bytes, list[Handle]] = {}
        self.sent: dict[bytes, list[Sent]] = {}  # by owner, not by handle: a handle may be given up while its extension awaits the answer
        self.mutex = threading.Lock()
        self.next_look = math.inf
        self.connected = False  # whether there has been a connection
        self.subscriptions: dict[str, Subscription] = {}  # by the node's name
        self.ending: list[Handle] = []  # the locks that were held when all were closed


    async def acquire(self, handle: Handle) -> None:
        with self.mutex:
            handle._use()
            handle._state = "waiting"
            self.handles.setdefault(handle.owner, []).append(handle)
        began = monotonic()
        try:
            await self._ask(handle, began)
        except BaseException as error:
            if self.observer is not None:
                self._tell_refused(handle, self.observer, monotonic() - began, error)
            if handle._unsure and isinstance(error, PASSING):  # give up in the background, since no answer comes
                self._begin_to_part(handle)
                self._plan(handle, 0, "parting")
            else:
                await self.io.finish(self._part(handle))
            raise
        if self.observer is not None:
            self._tell_acquired(handle, self.observer, began)

    async def _ask(self, handle: Handle, began: float) -> None:
        request, observer = handle._request, self.observer
        wait = request.until_asked
        tries = 0
        end = math.inf if wait is None else began + wait
        await self.io.start()
        while not handle._cancelled:
            handle._woken.clear()  # before sending: a message may come before the reply
            if self._leaving(handle):  # its release could end the grant that this acquire would enter
                left = (began + ASK_AGAIN if wait == 0 else end) - monotonic()
                if left <= 0:
                    raise NotAcquired(f"{request} is not free")
                await handle._woken.sleep(min(ASK_AGAIN, left))
                continue
            error, pause, start = None, ASK_AGAIN, request.starts and self.start
            with self._sends(handle) as sent:
                try:
                    reply = await self.io.finish(self._ask_once(handle, end, start))
                except exceptions.AuthenticationError:
                    raise
                except PASSING as passing:
                    if not self.connected:
                        raise
                    error, pause = passing, TRY_AGAIN
                except exceptions.ResponseError as refusal:
                    if start and "syntax error" in str(refusal):  # the server does not know START
                        self.start = False
                        continue
                    raise request.explained(refusal) from refusal
                if handle._fences:
                    sent.began = handle._asked  # the command may have waited for a subscription
                    self._hold(handle, reply, sent)
                if error is None and self._moved(handle):
                    self._doubtful(handle)
                if handle._fences and not handle._cancelled:
                    return
            tries += 1
            if handle._cancelled:
                continue
            if observer is not None and handle._place:
                self._call(handle, observer.waiting, handle)
                observer = None  # told only once
            if monotonic() >= end and (error is None or tries > 1):
                raise error or NotAcquired(f"{request} is not free")
            await handle._woken.sleep(pause if wait == 0 else max(0.0, min(pause, end - monotonic())))
            if handle._told is not None and self._starts(handle):
                return
            if monotonic() >= end and wait:
                raise error or NotAcquired(f"{request} is not free")
        raise (Closed if self.closed else Cancelled)(f"{handle._cancelled}: {request}")

    def _starts(self, handle: Handle) -> bool:
        """Whether the lock is held from the start message on. The message repeats the number of the last acquire, so the grant is younger
        than this acquire: its lease safely counts from when this was sent. If too little time is left, the wait asks again."""
        assert handle._told is not None
        (fence, lasts, slot), now = handle._told, monotonic()
        handle._told = None
        until = handle._asked + lasts / 1000
        with self.mutex:
            if until - now < lasts / 5000 or fence in handle._heard_lost or handle._cancelled:
                return False
            handle._fences, handle._slots, handle._state = [fence], [slot] if slot else [], "held"
            handle._unclaimed = True
        handle._lease, handle._until = lasts / 1000, until
        self._plan(handle, now + (until - now) / 3)  # the claim, if the lock is held that long
        return True

    async def _ask_once(self, handle: Handle, end: float, start: bool) -> Any:
        """Waits for the answer, even if the task is cancelled meanwhile: only the answer tells what has to be given up."""
        request, wait = handle._request, handle._request.until_asked
        await self._listened(handle, end if wait else math.inf)
        if handle._cancelled or handle._state != "waiting":
            return None
        unsure, handle._asking, handle._unsure = handle._unsure, True, True
        handle._asks, handle._asked, handle._told = handle._asks + 1, monotonic(), None
        try:
            number, block = handle._asks if start else None, None if wait == 0 else 0 if wait is None else ms(end - handle._asked)
            assert handle._subscription is not None
            words = request.acquire(handle._subscription.channel, block, request.lease, number)
            reply = await self.io.send(words, request.session)
            if isinstance(reply, list):
                handle._fences = reply[1] if isinstance(reply[1], list) else [reply[1]]
            else:
                handle._place |= reply is not None  # the place may belong to another task
            handle._unsure = unsure and not handle._fences and len(handle.keys) > 1  # without one of them, it may hold the others
            return reply
        except PASSING:
            raise
        except exceptions.ResponseError as refusal:
            handle._unsure = unsure  # a refusal does not say whether an earlier acquire without an answer got the lock
            handle._place |= str(refusal).startswith("NOREPLICAS")  # the unclaimed place or grant may still be there
            raise
        finally:
            handle._asking = False
            if handle._answered is not None:
                handle._answered.set()

    def _leaving(self, handle: Handle) -> bool:
        with self.mutex:
            mine = self.handles.get(handle.owner, [])
            return any(other._state == "parting" and set(other.keys) == set(handle.keys) for other in mine)

    def _hold(self, handle: Handle, reply: list[Any], sent: Sent) -> None:
        with self.mutex:
            slots = reply[4] if len(reply) > 4 and reply[4] is not None else []
            handle._slots = slots if isinstance(slots, list) else [slots]
            handle._state = "held"
            lost = not handle._heard_lost.isdisjoint(handle._fences)
        self._renewed(handle, reply[3], sent)
        if lost:
            self._lose(handle, "the server says that it has ended")


    @contextmanager
    def _sends(self, handle: Handle, sets: float = math.inf) -> Iterator[Sent]:
        """Registers a command whose answer tells the lease: a pending extension of the same grant may reach the server after it."""
        with self.mutex:
            mine, now = self.sent.setdefault(handle.owner, []), monotonic()
            latest = now + min((sent.sets for sent in mine if self._share(handle, sent.handle)), default=math.inf)
            sent = Sent(handle, now, latest, sets)
            mine.append(sent)
        try:
            yield sent
        finally:
            with self.mutex:
                mine.remove(sent)
                if not mine:
                    self.sent.pop(handle.owner, None)

    @contextmanager
    def _extends(self, handle: Handle) -> Iterator[Sent]:
        """Notes the lease that an extension is about to set: the server may set it even if no answer comes."""
        lease = handle._lease if handle._request.lease is None else seconds("lease", handle._request.lease)
        now = monotonic()
        self._shorten(handle, now + lease, now + lease / 3)
        with self._sends(handle, lease) as sent:
            yield sent

    def _renewed(self, handle: Handle, lease: int, sent: Sent) -> None:
        asked = handle._whole if handle._request.lease is None else ms(seconds("lease", handle._request.lease))
        # The maximum age only cuts a new lease. If the end moved back by more than the answer took, the server's default was changed instead.
        if handle._request.lease is None and sent.began + lease / 1000 < handle._until - (monotonic() - sent.began) - 0.001:
            asked = 0
        renewed = handle._request.renew or handle._request.session
        handle._aged = renewed and 0 <= lease < asked
        if not handle._aged and sent.sets < math.inf:  # an acquire may be told the longer lease of another hold
            handle._whole = lease
        handle._unclaimed, began = False, sent.began
        handle._lease = lease / 1000 if lease >= 0 else 30.0
        with self.mutex:
            until = handle._until = min(sent.latest, began + lease / 1000 if lease >= 0 else math.inf)
        longer = lease < 0 or 2 * lease >= asked  # otherwise it has reached the maximum age, and no renewal makes it longer
        self._plan(handle, began + min(handle._lease, until - began) / 3 if renewed and longer else math.inf)
        self._shorten(handle, until, began + (until - began) / 3)

    def _shorten(self, handle: Handle, until: float, due: float) -> None:
        """Applies a shorter lease to all that share the grant. The server may handle their pending commands before or after this one."""
        longer = []
        with self.mutex:
            for sent in self.sent.get(handle.owner, []):
                if self._share(handle, sent.handle):
                    sent.latest = min(sent.latest, until)
            for other in self.handles.get(handle.owner, []):
                if self._share(handle, other) and other._state == "held" and until < other._until:
                    other._until = until
                    longer.append(other)
        for other in longer:
            self._plan(other, min(other._due, due) if other._request.renew or other._request.session else other._due)

    # Lists that need the mutex are made in functions: from Python 3.12 on, Ctrl-C in a list comprehension may leave the mutex locked.

    @staticmethod
    def _share(handle: Handle, other: Handle) -> bool:
        """Whether both share a grant, or may do so: one of them may not know its own grant yet."""
        mine, its = (handle._fences, other._fences) if handle._fences and other._fences else (handle.keys, other.keys)
        return not set(mine).isdisjoint(its)

    def _all(self) -> list[Handle]:
        return [handle for those in self.handles.values() for handle in those]

    @staticmethod
    def _in_state(state: str, handles: list[Handle]) -> list[Handle]:
        return [handle for handle in handles if handle._state == state]

    def _plan(self, handle: Handle, due: float, state: str = "held") -> None:
        if handle._state != state:  # an answer that comes while the lock is being released plans nothing
            return
        with self.mutex:
            handle._due = due
            sooner = min(due, handle._until) < self.next_look
            if sooner:
                self.next_look = min(due, handle._until)
        if sooner:
            self.tick.set()

    async def clock(self) -> None:
        """The one timer: for renewals, for leases that end, and for commands that have to be sent again."""
        while True:
            self.tick.clear()
            if self.closed:
                return
            if monotonic() >= self.next_look:  # a release does not wake the clock, so its planned time may have nothing due
                self._look()
            await self.tick.sleep(min(60.0, max(0.0, self.next_look - monotonic())))

    def _look(self) -> None:
        with self.mutex:
            self.next_look, now = math.inf, monotonic()
            handles = self._all()
        handles = [handle for handle in handles if handle._state != "waiting"]
        for handle in handles:
            if now >= handle._until:
                self._lose(handle, TOO_OLD if handle._aged else LEASE_OVER)
            elif now >= handle._due:
                if handle._state == "held":
                    handle._due = math.inf
                    self.io.spawn(self._renew(handle))
                elif self._claims(handle):
                    self.io.spawn(self._part(handle))
        with self.mutex:
            self.next_look = min([self.next_look, *(min(handle._until, handle._due) for handle in handles)])

    async def _renew(self, handle: Handle) -> None:
        if handle._state != "held":  # it was released while others were renewed
            return
        request, asks, channel = handle._request, False, ""
        with suppress(exceptions.RedisError):  # without a subscription, only extend the lease for now
            if handle._doubt:
                asks, channel = (subscription := self._subscription(handle)).opened, subscription.channel
        handle._doubt &= not asks  # this command does not settle a doubt that arises after it
        # If the grant is in doubt, acquire instead: the server learns the channel and the connection anew, and the fence tells whether the
        # lock was lost. An acquire never shortens a lease, so a claimed lock without renewals asks for the shortest one.
        lease = request.lease if request.renew or request.session or handle._unclaimed else 0.001
        words = request.acquire(channel, None, lease) if asks else request.extend(handle._fences, request.lease)
        with self._sends(handle) if asks else self._extends(handle) as sent:
            try:
                reply = await self.io.send(words, request.session and asks)
            except (*PASSING, exceptions.ResponseError) as error:
                if isinstance(error, exceptions.ResponseError) and (why := gone(error)):
                    self._gone(handle, why)
                else:  # the grant lasts until its lease ends; after GRACE, acquire again
                    handle._doubt |= asks or str(error).startswith("GRACE")
                    self._plan(handle, monotonic() + min(RENEW_AGAIN, handle._lease / 10))
                return
            fences = reply[1] if isinstance(reply, list) else []
            fences = fences if isinstance(fences, list) else [fences]
            # A release under way handles the old grant itself: a second release would get NOTHELD, which looks like a loss.
            other = None
            if asks and fences and (fences != handle._fences or handle._state == "lost"):
                other = Handle(self, request)  # a new grant, which the holder doesn't know
                other._fences = fences
            if asks and fences != handle._fences:
                self._gone(handle, "it was free, or someone else's, meanwhile")
            else:
                self._renewed(handle, reply[3] if asks else reply, sent)
                if asks and (handle._doubt or self._moved(handle)):
                    handle._doubt = True
                    self._plan(handle, 0)
        if other is not None:  # after the holder was told of the loss
            await self._part(other)

    async def extend(self, handle: Handle, lease: Seconds | None) -> float:
        handle.check()
        if handle._state != "held":
            raise LockError(f"not held: {handle._request}")
        request = handle._request
        if lease is not None:
            seconds("lease", lease)
            request.lease = lease
        with self._extends(handle) as sent:
            try:
                reply = await self.io.send(request.extend(handle._fences, request.lease), False)
            except exceptions.ResponseError as refusal:
                if why := gone(refusal):
                    self._gone(handle, why)
                    handle.check()
                raise request.explained(refusal) from refusal
            self._renewed(handle, reply, sent)
            return reply / 1000 if reply >= 0 else math.inf

    def _gone(self, handle: Handle, reason: str) -> None:
        """The server does not know the grant, so it is lost for all that share it."""
        with self.mutex:
            held = self._in_state("held", self.handles.get(handle.owner, []))
        for each in held:
            if set(handle._fences) <= set(each._fences):
                self._lose(each, reason)

    def _lose(self, handle: Handle, reason: str, closing: bool = False) -> None:
        """Ends a lock, and tells its holder to stop. If all locks are being closed, it still has to be released."""
        with self.mutex:
            if handle._aged and monotonic() >= handle._until:  # the server may report the end a moment before the clock runs
                reason = TOO_OLD
            if not closing and handle._state != "waiting":
                self._forget(handle)
            if handle._state != "held":
                return
            if not closing:
                handle._state = "lost"
            listeners = handle._listeners if handle._error is None else []
            error = handle._error = handle._error or LockLost.of(handle._request, reason)
        if not closing:
            self._tell_end(handle)
        for listener in listeners:
            self._call(handle, listener, error)


    def _call(self, handle: Handle, listener: Callable[..., object], *said: object) -> None:
        try:
            listener(*said)
        except (Exception, SystemExit) as error:  # this thread serves all other locks, too, so it has to go on
            if self.io.shields and isinstance(error, SystemExit):  # in a task, SystemExit ends the program
                raise
            log.exception("a listener of %s failed", handle._request)

    def _tell_acquired(self, handle: Handle, observer: Observer, began: float) -> None:
        now = monotonic()
        self._call(handle, observer.acquired, handle, now - began)
        with self.mutex:
            handle._since, lost = now, handle._error is not None
        if lost:  # the loss came before the observer was told that the lock is held
            self._tell_end(handle)

    def _tell_refused(self, handle: Handle, observer: Observer, waited: float, error: BaseException) -> None:
        outcome: Outcome = "error"
        if isinstance(error, NotAcquired):
            outcome = "busy" if handle._request.until_asked == 0 else "timeout"
        elif isinstance(error, Deadlock):
            outcome = "deadlock"
        elif isinstance(error, Closed):
            outcome = "closed"
        elif isinstance(error, Cancelled) or not isinstance(error, Exception):
            outcome = "cancelled"
        self._call(handle, observer.refused, handle, waited, outcome, error)

    def _tell_end(self, handle: Handle) -> None:
        """Tells the observer of the end, only once."""
        if self.observer is None:
            return
        with self.mutex:
            since, handle._since = handle._since, None
        if since is None:
            return
        held = monotonic() - since
        if handle._error is None or handle._given_back:
            self._call(handle, self.observer.released, handle, held)
        else:
            self._call(handle, self.observer.lost, handle, held, handle._error)


    async def release(self, handle: Handle) -> None:
        if handle.lost is not None and handle._state == "lost":
            if self._claims(handle):
                self.io.spawn(self._part(handle))  # perhaps only the network failed: then others get the lock at once
        elif self._claims(handle):
            refused = await self._leave(handle)
            if refused is not None:
                raise refused
        handle.check()

    async def _leave(self, handle: Handle) -> Exception | None:
        try:
            refused = await self._part(handle)
            if isinstance(refused, LockLost):
                handle._error = refused
            return refused
        finally:
            self._tell_end(handle)

    def drop(self, handle: Handle) -> None:
        """Called when a release or an acquire was interrupted: the clock gives up what is left of it."""
        if handle._state in ("held", "parting"):
            self._tell_end(handle)
            handle._state = "parting"
            self._plan(handle, 0, "parting")
        else:
            with self.mutex:
                self._forget(handle)

    async def _part(self, handle: Handle) -> Exception | None:
        """Gives up the grant or the place. Returns why the server refused this, if it did. Without a connection, this is done later."""
        request, again, handle._gave = handle._request, handle._gave, True
        refused: Exception | None = None
        if handle._asking and self.io.shields:  # on another connection, the release could overtake the acquire
            handle._answered = self.io.signal()
            await handle._answered.sleep(math.inf)
        with self.mutex:
            fences = handle._fences or handle._left
            mine = self.handles.setdefault(handle.owner, [])
            if handle not in mine:
                mine.append(handle)
            heir = next((other for other in mine if other is not handle and other._state in ("waiting", "held")
                         and set(other.keys) == set(handle.keys) and (not fences or other._fences in ([], fences))), None)
            if heir is not None and fences:
                heir._left = fences
            elif heir is not None:
                heir._place |= handle._place or handle._unsure
            handle._due = math.inf
            if handle._state != "parting":
                self._begin_to_part(handle)
        try:
            if heir is not None:
                pass
            elif fences:
                reply = await self.io.send(request.release(fences), False)
                if isinstance(reply, list) and None in reply:
                    refused = LockLost.of(request, "one of the locks was gone when it was released")
            elif handle._place or handle._unsure:
                left = await self.io.send(request.leave(), False)
                several = len(handle.keys) > 1  # some of them may be held beside the place
                if (several or not left) and (handle._unsure or request.starts) and request.owner is None:
                    await self.io.send(request.release([]), False)
        except PASSING:
            self._plan(handle, monotonic() + TRY_AGAIN, "parting")
            return None
        except exceptions.ResponseError as refusal:
            refused = LockLost.of(request, why) if (why := gone(refusal)) else request.explained(refusal)
        except Exception:
            self._over(handle)
            raise
        handle._given_back = not isinstance(refused, LockLost)
        self._over(handle)
        return None if again else refused

    def _claims(self, handle: Handle) -> bool:
        """Whether this caller is the one to release the lock: the holder, and the end of all locks, may both try to."""
        with self.mutex:
            if handle._state == "parting":
                claimed, handle._due = handle._due < math.inf, math.inf
                return claimed
            if claimed := handle._state in ("held", "lost"):
                self._begin_to_part(handle)
            return claimed

    @staticmethod
    def _begin_to_part(handle: Handle) -> None:
        """Notes that a release has to be sent again until the lease is over, or without a limit for a session."""
        handle._state, handle._until = "parting", math.inf if handle._request.session else monotonic() + handle._lease

    def _over(self, handle: Handle) -> None:
        with self.mutex:
            handle._state = "over"
            waiting = self._in_state("waiting", self.handles.get(handle.owner, []))
            self._forget(handle)
        if handle._ended is not None:
            handle._ended.set()
        for other in waiting:
            other._woken.set()

    def _forget(self, handle: Handle) -> None:
        mine = self.handles.get(handle.owner, [])
        if handle in mine:
            mine.remove(handle)
        if not mine:
            self.handles.pop(handle.owner, None)

    def end(self, why: str) -> Coroutine[Any, Any, None]:
        """Ends all waits, and tells the holders. Returns the locks that are still to be released."""
        with self.mutex:
            self.closed = True
            handles = self._all()
            waiting = self._in_state("waiting", handles)
            for handle in handles:
                handle._ended = self.io.signal()
            for handle in waiting:
                handle._cancelled = why
        for handle in waiting:
            handle._woken.set()
        given_up = set(waiting)
        self.ending = [handle for handle in handles if handle not in given_up]
        for handle in self.ending:
            self._lose(handle, why, closing=True)
        return self._part_all(waiting)

    async def _part_all(self, waiting: list[Handle]) -> None:
        going = waiting
        for handle in self.ending:
            if self._claims(handle):
                await self._leave(handle)
            else:  # the holder releases it
                going.append(handle)
        ends = monotonic() + CLOSING
        for handle in going:
            if handle._ended is not None:
                await handle._ended.sleep(ends - monotonic())

    def ended(self) -> None:
        """Counts locks as lost that could not be released until now."""
        for handle in self.ending:
            self._tell_end(handle)

    async def give_back(self) -> None:
        """Releases all locks at the end of the program, except those without renewals: they are meant to last as long as their lease."""
        with self.mutex:
            handles = self._all()
        for handle in handles:
            kept = handle._request.renew or handle._request.session
            if handle._state in ("held", "parting") and kept and not handle._inside:
                self._tell_end(handle)
                await self._part(handle)


    def _subscription(self, handle: Handle) -> Subscription:
        """The subscription of the lock's shard, made when it is first needed."""
        name = self._shard(handle)
        with self.mutex:
            if (subscription := self.subscriptions.get(name)) is None:
                subscription = self.subscriptions[name] = Subscription(self, name)
            subscription.used = monotonic()
            handle._subscription, handle._woken.reader = subscription, subscription.reader
        if not subscription.begun:
            self.io.listen(subscription)
        return subscription

    async def _listened(self, handle: Handle, end: float) -> None:
        """Waits until the lock's subscription is confirmed. All that wait meanwhile share the attempt, and its failure."""
        while not handle._cancelled:
            handle._woken.clear()
            subscription = handle._subscription
            if subscription is None or subscription.error is None:
                subscription = self._subscription(handle)
            if subscription.error is not None:
                handle._subscription = None
                raise subscription.error
            if subscription.opened:
                return
            await handle._woken.sleep(end - monotonic())
            if monotonic() >= end:
                raise exceptions.TimeoutError("there is no subscription yet")

    def _moved(self, handle: Handle) -> bool:
        """Whether a redirect has said that the lock's slot is on another node."""
        return handle._subscription is not None and self._shard(handle) != handle._subscription.name

    def _shard(self, handle: Handle) -> str:
        return "" if self.io.slots is None else self.io.slots.of(handle.keys[0])

    def subscribed(self, subscription: Subscription) -> None:
        """Messages were lost, so all waits ask again, and all grants are doubted. The new server may know START."""
        self.start = True
        with self.mutex:
            if not self.connected:
                self.io.serve()
                self.connected = True
            handles = self._of(subscription)
        for handle in handles:
            self._doubtful(handle)

    def unsubscribed(self, subscription: Subscription) -> None:
        with self.mutex:
            if self.subscriptions.get(subscription.name) is subscription:
                del self.subscriptions[subscription.name]
            handles = self._of(subscription)
        for handle in handles:
            if subscription.error is None:
                handle._subscription = None
                self._doubtful(handle)
            elif handle._state == "held":
                handle._subscription, handle._doubt = None, True
                self._plan(handle, monotonic() + min(RENEW_AGAIN, handle._lease / 10))
            else:
                handle._woken.set()

    def unused(self, subscription: Subscription) -> bool:
        """Whether the subscription is not needed. From then on, no lock gets it."""
        with self.mutex:
            used = monotonic() < subscription.used + SILENCE or self._of(subscription)
            if not used:
                self.subscriptions.pop(subscription.name, None)
        return not used

    def _of(self, subscription: Subscription) -> list[Handle]:
        return [handle for handle in self._all() if handle._subscription is subscription and handle._state in ("waiting", "held")]

    def _doubtful(self, handle: Handle) -> None:
        if handle._state == "held":
            handle._doubt = True
            self._plan(handle, 0)
        else:
            handle._woken.set()

    def heard(self, message: bytes) -> bool:
        """Handles a message. Returns whether it has woken a wait."""
        word, _, owner = message.partition(b" ")
        fence, woken = b"0", False
        if word == b"start":
            fence, lasts, slot, number, owner = owner.split(b" ", 4)
        elif word in (b"granted", b"lost", b"wanted"):
            fence, _, owner = owner.partition(b" ")
        with self.mutex:
            handles = list(self.handles.get(owner, ()))
            for handle in handles if word == b"lost" else ():
                handle._heard_lost.add(int(fence))  # the answer with this fence may come later
        for handle in handles:
            waits = handle._state == "waiting"
            if word == b"lost" and int(fence) in handle._fences and handle._state == "held":
                self._lose(handle, "the server says that it has ended")
            elif word == b"start" and waits:
                if int(number) == handle._asks:  # another number answers an earlier acquire
                    handle._told = int(fence), int(lasts), int(slot)
                    handle._woken.set()
            elif word == b"gone" or (word in (b"granted", b"timeout") and waits):
                self._doubtful(handle)
            woken |= waits and word != b"lost"
        return woken
