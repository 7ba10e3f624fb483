//! How a lapse is noticed: timers for the ends of leases, and the end of lapsed grants. A command notices it too, because it settles its
//! locks first. The server itself deletes a lock with a single lapsed grant, and its event sets the lock's timer.

use super::access::LockAccess;
use super::budget::{END, MOST_ENDED};
use super::sessions;
use super::table::MessageKind;
use crate::lock::{Deadline, Fence, Now};

/// Sets timers for the new end of a grant's lease: one for the lapse, if a waiter or holder is to be told of it, and one for the grant's
/// session, if it has to renew the lease earlier than planned.
pub(super) fn lease_moved<S: LockAccess>(lock: &mut S, fence: Fence, until: Deadline, now: Now) {
    let Deadline::At(last) = until else { return };
    if lock.idle() {
        return;
    }
    lock.here(|table, at| {
        if table.locks.lock(at).is_watched() {
            // The key expires after the millisecond `last`.
            table.locks.look_by(at, last.saturating_add(1));
        }
        if table.session(at, fence).is_some_and(|session| last < session.renew_at) {
            table.locks.renew_by(at, sessions::next_look(until.left(now.millis()), now.millis()));
        }
    });
}

/// Notes since when the lock is held. If somebody waits for the lock or gets messages about it, also sets a timer for the lease that ends
/// first. If there are several grants, sets this timer in any case, because the timer of one grant's session does not watch the leases of
/// the others. This function is not inlined, so that a lock without an entry in the table does not pay for it.
#[inline(never)]
pub(super) fn look_when_one_ends<S: LockAccess>(lock: &mut S, now: Now) {
    let held = lock.value().map(|value| {
        let until = lock.deadline();
        let oldest = value.all(until).next().map_or(0, |held| held.grant.age(now.millis()));
        (value.is_one(), value.first_deadline(until), oldest)
    });
    if lock.idle() {
        return;
    }
    lock.here(|table, at| {
        let (is_one, first, oldest) = held.unwrap_or((true, Deadline::Never, 0));
        let is_watched = table.locks.note_held(at, now.millis().saturating_sub(oldest));
        if let Deadline::At(last) = first
            && (!is_one || is_watched)
        {
            table.locks.look_by(at, last.saturating_add(1));
        }
    });
}

/// If a lock has several grants, ends the lapsed grants, unless their sessions outlive the lapse. The caller has to grant the free room to
/// waiters. Returns whether all lapsed grants have ended.
pub(super) fn end_lapsed<S: LockAccess>(lock: &mut S, now: Now) -> bool {
    let Some(value) = lock.value().filter(|value| !value.is_one()) else { return true };
    let mut lapsed: Vec<Fence> =
        value.lapsed(lock.deadline(), now.millis()).take(MOST_ENDED as usize + 1).collect();
    let paid = lapsed.iter().take_while(|_| lock.pay(END)).count();
    let all = paid == lapsed.len();
    if paid == 0 {
        return all;
    }
    lapsed.truncate(paid);
    let mut over = paid;
    if !lock.idle() {
        over -= lapsed.into_iter().filter(|fence| sessions::renew_overdue(lock, *fence, now)).count();
    }
    if over > 0 {
        for fence in lock.end_lapsed(now.millis(), over) {
            if !lock.idle() {
                lock.here(|table, at| table.end_grant(at, fence, Some(MessageKind::Lost)));
            }
        }
    }
    all
}
