"""The events that a `Locks` reports while locks are waited for and held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ._core import Handle
    from ._request import LockLost

Outcome = Literal["timeout", "busy", "cancelled", "deadlock", "closed", "error"]


class Observer:
    """Override the methods for the events that you need. Times are seconds. `lock` has `keys`, `mode`, `owner`, and `fence` once it is
    held.

    Each `waiting` is followed by one `acquired` or `refused`, and each `acquired` by one `released` or `lost`. The thread or task that
    changes the lock calls them, and waits for them. Exceptions that they raise are logged, and change nothing."""

    def waiting(self, lock: Handle) -> None:
        """The lock is not free, and the wait begins."""

    def acquired(self, lock: Handle, waited: float) -> None:
        """`waited` is the time since the call of `acquire`, also if the lock was free."""

    def refused(self, lock: Handle, waited: float, outcome: Outcome, error: BaseException) -> None:
        """`acquire` raises `error`."""

    def released(self, lock: Handle, held: float) -> None:
        """The holder released the lock."""

    def lost(self, lock: Handle, held: float, error: LockLost) -> None:
        """The lock ended before its release. `error.reason` says why: one of a few texts, or the code of the server's error."""
