"""What a `Locks` tells of its locks while they are waited for and held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ._core import Handle
    from ._request import LockLost

Outcome = Literal["timeout", "busy", "cancelled", "deadlock", "closed", "error"]


class Observer:
    """Override what you want to hear of. Times are seconds. `lock` has `keys`, `mode`, `owner`, and `fence` once it is held.

    Each `waiting` is followed by one `acquired` or `refused`, and each `acquired` by one `released` or `lost`. The thread or task that
    changes the lock calls this, and waits for it. What it raises is logged, and changes nothing.
    """

    def waiting(self, lock: Handle) -> None:
        """The lock is not free, and the wait begins."""

    def acquired(self, lock: Handle, waited: float) -> None:
        """`waited` counts from the call of `acquire`, also where the lock was free."""

    def refused(self, lock: Handle, waited: float, outcome: Outcome, error: BaseException) -> None:
        """`acquire` raises `error`."""

    def released(self, lock: Handle, held: float) -> None:
        """Its holder released it."""

    def lost(self, lock: Handle, held: float, error: LockLost) -> None:
        """It ended before its release. `error.reason` says why, in few words that repeat."""
