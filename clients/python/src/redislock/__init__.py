"""Locks of a Redis or Valkey server with the module Redislock, for threads. `redislock.asyncio` has the same for tasks."""

from ._core import Handle
from ._observer import Observer, Outcome
from ._request import Cancelled, Closed, Deadlock, LockError, LockLost, NoModule, NotAcquired, NotConfirmed, TooOld
from ._threads import Lock, Locks

__all__ = [
    "Cancelled", "Closed", "Deadlock", "Handle", "Lock", "LockError", "LockLost", "Locks", "NoModule", "NotAcquired", "NotConfirmed",
    "Observer", "Outcome", "TooOld",
]
