"""What the user asks for, as words of the server's commands; and the meaning of the server's errors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from numbers import Real
from typing import Any, Literal, TypedDict, Union
from uuid import uuid4

from redis import exceptions

Key = Union[str, bytes]
Seconds = Union[int, float, timedelta]
Words = list[Any]
Mode = Literal["exclusive", "shared", "limit"]


class LockError(Exception):
    """Base of all errors of this package."""


class NotAcquired(LockError, TimeoutError):
    """The lock was not free until the wait was over."""


class LockLost(LockError):
    """The lock has ended without a release: somebody else may hold it now. `reason` says why."""

    reason = ""

    @classmethod
    def of(cls, lock: object, reason: str) -> LockLost:
        error = cls(f"{lock}: {reason}")
        error.reason = reason
        return error


class Cancelled(LockError):
    """The wait was given up by `cancel`."""


class Closed(LockError):
    """The locks, or their client, were closed."""


class Deadlock(LockError):
    """The wait would never end. `cycle` tells who waits for whom."""

    def __init__(self, cycle: str) -> None:
        super().__init__(cycle)
        self.cycle = cycle


class NotConfirmed(LockError):
    """Too few replicas confirmed the lock in time (`sync`)."""


class NoModule(LockError):
    """The server has no lock commands."""


class TooOld(LockError):
    """The server's Redislock doesn't know an option."""


# Errors of a server that can't serve the command at the moment, or is no longer the right one to ask. For most, redis-py has classes.
PASSING_CODES = (
    "ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS Not enough", "READONLY", "TRYAGAIN",
    "UNBLOCKED",
)


class Passing(exceptions.ResponseError):
    """An error with one of these codes, for which redis-py has no class."""

    @classmethod
    def of(cls, refusal: exceptions.ResponseError) -> exceptions.ResponseError:
        """Converts the error to this class if it has one of the codes; returns any other error as it is."""
        return cls(str(refusal)) if str(refusal).startswith(PASSING_CODES) else refusal


class TryOptions(TypedDict, total=False):
    lease: Seconds | None
    shared: bool
    limit: int | None
    slot: int | None
    label: str | None
    detect: bool
    sync: tuple[int, Seconds] | None
    session: bool
    owner: Key | None
    max_hold: Seconds | None
    renew: bool


class Options(TryOptions, total=False):
    wait: Seconds | None


KINDS: dict[str, type | tuple[type, ...]] = {
    "shared": bool, "limit": int, "slot": int, "label": str, "detect": bool, "session": bool, "owner": (str, bytes), "renew": bool,
    "sync": (tuple, list), "wait": object, "lease": object, "max_hold": object,
}


def _check(name: str, value: object) -> None:
    if (kind := KINDS.get(name)) is None:
        raise TypeError(f"there is no option {name}")
    if kind is bool or value is not None:  # None counts as left out
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            raise TypeError(f"{name} must be {' or '.join(each.__name__ for each in kinds)}: {value!r}")


def seconds(name: str, value: Seconds, least: float = 0.001) -> float:
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if type(number) not in (int, float) and (isinstance(number, bool) or not isinstance(number, Real)):
        raise TypeError(f"{name} must be a number of seconds or a timedelta: {value!r}")
    if not math.isfinite(number) or number < least:
        raise ValueError(f"{name} must be {'at least a millisecond' if least else 'None, 0 or more seconds'}: {value!r}")
    return number


def gone(refusal: exceptions.ResponseError) -> str:
    """Why the grant has ended, from an error of the server, without the lock's name. Empty if the error does not say so."""
    said = str(refusal)
    if said.startswith("WRONGTYPE"):
        return "its key has something else"
    return re.sub("^.*?by this owner: ('.*'|it) ", "it ", said) if said.startswith("NOTHELD") else ""


def ms(number: float) -> int:
    return max(1, round(number * 1000))


@dataclass
class Request:
    """A request for one lock or several. Bad input is refused here, before anything is sent."""

    keys: tuple[Key, ...]
    wait: Seconds | None = None
    lease: Seconds | None = None
    shared: bool = False
    limit: int | None = None
    slot: int | None = None
    label: str | None = None
    detect: bool = False
    sync: tuple[int, Seconds] | None = None
    session: bool = False
    owner: Key | None = None
    max_hold: Seconds | None = None
    renew: bool = True
    name: bytes = field(init=False)
    until_asked: float | None = field(init=False)
    starts: bool = field(init=False)

    @classmethod
    def of(cls, keys: tuple[Key, ...], options: Options) -> Request:
        for name, value in options.items():
            if KINDS.get(name) is not type(value):
                _check(name, value)
        for key in keys:
            if not isinstance(key, (str, bytes)):
                raise TypeError(f"a key must be str or bytes: {key!r}")
        return cls(keys, **options)

    def __post_init__(self) -> None:
        if not self.keys or len(set(self.keys)) < len(self.keys):
            raise ValueError("a lock needs a key, and each key once")
        if self.shared and self.limit is not None:
            raise ValueError("shared and limit exclude each other")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1: {self.limit!r}")
        if self.slot is not None and not 1 <= self.slot <= (self.limit or 0):
            raise ValueError(f"slot must be one of the numbers from 1 to limit: {self.slot!r}")
        if self.sync is not None and (len(self.sync) != 2 or not isinstance(self.sync[0], int)):
            raise TypeError(f"sync must be a number of replicas and a time: {self.sync!r}")
        if self.sync is not None and self.sync[0] < 1:
            raise ValueError(f"sync must name at least one replica: {self.sync!r}")
        owner = str(uuid4()) if self.owner is None else self.owner
        self.name = owner.encode() if isinstance(owner, str) else owner
        if not 1 <= len(self.name) <= 128:
            raise ValueError("owner must be 1 to 128 bytes long")
        # A start message tells of one new grant, without a session or a confirmation by replicas. All other grants have to be claimed.
        self.starts = self.owner is None and len(self.keys) == 1 and not self.session and self.sync is None
        self.until_asked = None if self.wait is None else seconds("wait", self.wait, 0)
        of_sync = () if self.sync is None else (self.sync[1],)
        for name, value in [("lease", self.lease), ("max_hold", self.max_hold), *(("sync", given) for given in of_sync)]:
            if value is not None:
                seconds(name, value)

    @property
    def mode(self) -> Mode:
        return "shared" if self.shared else "exclusive" if self.limit is None else "limit"

    def acquire(self, channel: str, block: int | None, lease: Seconds | None, start: int | None = None) -> Words:
        words: Words = ["OWNER", self.name, "NOTIFY", channel, *([] if start is None else ["START", start]), "ONCE"]
        words += [*self._px(lease), *self._sync()]
        words += ["SHARED"] if self.shared else []
        words += [] if self.limit is None else ["LIMIT", self.limit]
        words += [] if self.slot is None else ["SLOT", self.slot]
        words += ["SESSION"] if self.session else []
        words += ["DETECT"] if self.detect else []
        words += [] if self.max_hold is None else ["MAXHOLD", ms(seconds("max_hold", self.max_hold))]
        words += [] if self.label is None else ["LABEL", self.label]
        words += [] if block is None else ["BLOCK", block]
        return [*self._command("ACQUIRE"), *words]

    def extend(self, fences: Sequence[int], lease: Seconds | None) -> Words:
        return [*self._command("EXTEND"), self.name, *self._px(lease), *_fence(fences), *self._sync()]

    def release(self, fences: Sequence[int]) -> Words:
        return [*self._command("RELEASE"), self.name, *_fence(fences)]

    def leave(self) -> Words:
        return ["LOCK.LEAVE", self.keys[0], self.name]

    def explained(self, error: exceptions.ResponseError) -> Exception:
        """Converts an error of the server to one of this package; returns any other error as it is."""
        code, _, rest = str(error).partition(" ")
        if code == "DEADLOCK":
            return Deadlock(rest)
        if code == "NOREPLICAS" and self.sync:
            return NotConfirmed(rest)
        if code == "GRACE":
            return NotAcquired(f"{self}: {rest}")
        if "unknown command" in str(error).lower():
            return NoModule("this server has no Redislock module: load libredislock.so into it (loadmodule), or connect to one that has it")
        if "syntax error" in str(error):
            return TooOld("this server's Redislock doesn't know one of these options: upgrade the module, or leave the option out")
        return error

    def __str__(self) -> str:
        return ", ".join(key if isinstance(key, str) else key.decode(errors="replace") for key in self.keys)

    def _command(self, verb: str) -> Words:
        return [f"LOCK.{verb}", *self.keys] if len(self.keys) == 1 else [f"LOCK.M{verb}", len(self.keys), *self.keys]

    @staticmethod
    def _px(lease: Seconds | None) -> Words:
        return [] if lease is None else ["PX", ms(seconds("lease", lease))]

    def _sync(self) -> Words:
        return [] if self.sync is None else ["SYNC", self.sync[0], ms(seconds("sync", self.sync[1]))]


def _fence(fences: Sequence[int]) -> Words:
    """Restricts a command to this grant. Grants that were not made together have different fences, so no FENCE can name them."""
    return ["FENCE", fences[0]] if len(set(fences)) == 1 else []
