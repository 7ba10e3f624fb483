"""Locks of a Redis or Valkey server with the module Redislock. `redislock.asyncio` has the same for tasks."""

from ._request import Cancelled, Deadlock, LockError, LockLost, NoModule, NotAcquired, NotConfirmed, TooOld
from ._threads import Lock, Locks

__all__ = [
    "Cancelled", "Deadlock", "Lock", "LockError", "LockLost", "Locks", "NoModule", "NotAcquired", "NotConfirmed", "TooOld"
]
