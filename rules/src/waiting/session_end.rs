//! When a session ends, because its connection has closed, and what its time brings otherwise: its lease is renewed, or a renewal is undone
//! that replicas have not confirmed.

use super::access::{LockAccess, LockEvent};
use super::budget::{CHANGE, scan};
use super::hand_over::end;
use super::lapse::lease_moved;
use super::sessions;
use super::table::{AT_A_TIME, MessageKind, Moved, Session};
use crate::lock::{self, Deadline, GrantChange, Now};

/// Ends the grants whose sessions' connections have closed. With `all`, also looks at all other sessions, and renews the leases that are
/// due. If there are many sessions, the next step handles the rest. Returns whether no grant is left that has to end because its
/// connection has closed.
pub(super) fn settle_sessions<S: LockAccess>(lock: &mut S, all: bool, now: Now) -> bool {
    let mut seen = None;
    loop {
        let next = lock.here(|table, at| table.next_sessions(at, seen, all, AT_A_TIME));
        if next.is_empty() {
            break;
        }
        lock.spend(scan(next.len()));
        for fence in next {
            seen = Some(fence);
            if let Some(session) = lock.here(|table, at| table.session(at, fence))
                && settle_session(lock, session, now)
                && !lock.pay(CHANGE)
                && lock.here(|table, at| !table.next_sessions(at, seen, all, 1).is_empty())
            {
                lock.here(|table, at| table.locks.recheck_by(at, 0));
                return lock.here(|table, at| table.next_sessions(at, seen, false, 1).is_empty());
            }
        }
    }
    if all {
        lock.here(|table, at| table.locks.renew_next(at));
    }
    true
}

/// Settles one session: ends its grant, renews the lease, or undoes a renewal, if necessary. Returns whether there was anything to do.
pub(super) fn settle_session<S: LockAccess>(lock: &mut S, session: Session, now: Now) -> bool {
    let fence = session.fence;
    let Some(until) = lock.with_fence(fence).map(|held| held.deadline) else {
        lock.here(|table, at| table.end_grant(at, fence, Some(MessageKind::Lost)));
        return true;
    };
    // Somebody may have shortened the lease, so that the lease ends before the next renewal is due.
    let renew = session.renew_at <= now.millis() || until < Deadline::At(session.renew_at);
    // The server reports each closed connection. `is_open` is checked so that one missed report does not make the module renew a lease
    // forever.
    if session.over || renew && !lock.is_open(session.client) {
        // If another client of the same owner was granted the lock and still has to be told, the grant goes on, because this client's
        // connection will keep the grant alive. (Some servers let the module tell a client only after the timers have run.)
        if lock.here(|table, at| table.has_successor(at, fence)) {
            if session.renew_at <= now.millis() {
                // The waiter may be told only after some time, so this code puts the next renewal off.
                let renew_at = sessions::next_renewal(session.lease, now.millis());
                lock.change(|entry| entry.renew_session_at(fence, renew_at));
            }
            return false;
        }
        end(lock, &[fence], LockEvent::SessionEnded);
    } else if let Some(moved) =
        lock.here(|table, at| table.sessions().take_unconfirmed_renewal(at, fence, now.millis()))
    {
        undo_renewal(lock, session, until, moved, now);
    } else if renew {
        let limits = lock.limits();
        let lease = limits.allowed(session.lease);
        let held = lock.with_fence(fence);
        let to = held.map_or(until, |held| lock::lengthen(held, lease, limits, now.start));
        let moved = Moved { from: until, to };
        // In the lease's last millisecond, it is too late to ask replicas to confirm a renewal.
        let is_last = until <= Deadline::At(now.millis());
        let waits = lock.entry(|entry| entry.awaits_renewal(fence) || is_last && entry.is_synced(fence));
        if !waits {
            lock.update(fence, GrantChange::NONE, to);
        }
        let renew_at = sessions::next_renewal(lease, now.millis());
        lock.here(|table, at| {
            table.sessions().start(at, Session { renew_at, ..session });
            if !waits {
                table.sessions().await_renewal(at, fence, moved, now.millis());
            }
        });
    } else {
        return false;
    }
    true
}

/// Undoes a renewal that replicas have not confirmed in time: the lease ends at its earlier end again (`moved.from`), unless somebody else
/// has changed the end since. `until` is the present end of the lease. Then the session tries again to renew the lease. But if the earlier
/// end has already passed, ends the grant.
fn undo_renewal<S: LockAccess>(lock: &mut S, session: Session, mut until: Deadline, moved: Moved, now: Now) {
    if until == moved.to {
        until = moved.from;
        if until < Deadline::At(now.millis()) {
            end(lock, &[session.fence], LockEvent::Lapsed);
            return;
        }
        lock.update(session.fence, GrantChange::NONE, until);
        lease_moved(lock, session.fence, until, now);
    }
    let renew_at = sessions::next_look(until.left(now.millis()), now.millis());
    lock.here(|table, at| table.sessions().start(at, Session { renew_at, ..session }));
}
