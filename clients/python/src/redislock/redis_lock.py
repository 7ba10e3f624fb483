"""A lock with the interface of redis-py's own: `client.lock("name", lock_class=redislock.redis_lock.Lock)`."""

from __future__ import annotations

from functools import partialmethod
from time import monotonic
from typing import Any

import redis
import redis.lock
from redis.exceptions import LockError, LockNotOwnedError

from . import _request, _threads

def _locks(client: Any) -> _threads.Locks:
    """The one `Locks` of this client, so that all its locks share a subscription and a timer."""
    made = vars(client).get("_redislock") or vars(client).setdefault("_redislock", _threads.Locks(client))
    return made  # type: ignore[no-any-return]


class Lock(redis.lock.Lock):
    """With a `timeout`, the lock ends after it, unless it is extended. Without one, it is renewed until it is released.

    `sleep` has no effect, since nobody polls. Waiters are served in order of arrival.
    """

    def register_scripts(self) -> None:
        pass

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        blocking = self.blocking if blocking is None else blocking
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        held = _locks(self.redis).lock(
            self.name, wait=wait if blocking else 0, owner=token, lease=self.timeout or None, renew=not self.timeout)
        try:
            self.local.token = held.acquire()
        except _request.NotAcquired:
            return False
        return True

    def locked(self) -> bool:
        return self.redis.execute_command("LOCK.INFO", self.name) is not None

    def owned(self) -> bool:
        return self.local.token is not None and self.local.token.lost is None and monotonic() < self.local.token._until

    def do_release(self, expected_token: Any) -> None:
        try:
            expected_token.release()
        except _request.LockLost as lost:
            raise LockNotOwnedError("Cannot release a lock that's no longer owned", lock_name=self.name) from lost

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Any:
        left = 0 if replace_ttl else self.local.token._until - monotonic()
        try:
            self.local.token.extend(additional_time + left)
        except _request.LockLost as lost:
            raise LockNotOwnedError("Cannot extend a lock that's no longer owned", lock_name=self.name) from lost
        return True

    def do_reacquire(self) -> Any:
        return self.do_extend(self.timeout or 0, True)


class Redis(redis.Redis):
    """A client whose method `lock` returns such locks. It can be the `REDIS_CLIENT_CLASS` of django-redis."""

    lock = partialmethod(redis.Redis.lock, lock_class=Lock)


__all__ = ["Lock", "LockError", "Redis"]
