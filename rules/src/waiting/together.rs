//! Serves a waiter for several locks, with all these locks open.

use super::access::{Environment, LockAccess};
use super::hand_over::{Served, grant_heads, reenter, serve};
use super::lock_set::LocksAccess;
use super::settle::settle;
use super::table::RequestId;
use super::verdict::Standing;
use crate::lock::Now;

/// Settles all locks of a waiter (brings their grants and queues up to date), and grants the waiter all of them if possible. Otherwise
/// notes one lock that the waiter can't have yet (`stuck`).
pub fn settle_together<B: LocksAccess>(locks: &mut B, request: RequestId, now: Now) {
    let (aside, was_due) = locks.first().table(|table| {
        let was_due = table.is_any_overdue(request, now.millis());
        (table.waiters.timers.set_tries_aside(), was_due)
    });
    let settled = locks.each(|lock| settle(lock, now));
    let changed = locks.each(|lock| lock.changed());
    let changed = was_due || B::all(&changed).contains(&true);
    let unsettled = B::all(&settled).iter().position(|is_settled| !is_settled);
    let ask = locks.first().table(|table| {
        table.waiters.timers.take_tries_up(aside, changed);
        let ask = table.waiters.take_try(request)?;
        if table.is_gone(request) {
            table.give_up(request);
            return None;
        }
        if let Some(number) = unsettled {
            // The module tries to serve the waiter again once the work that is due at this lock has been done.
            table.waits().stuck_at(request, number);
            return None;
        }
        Some(ask)
    });
    let Some(ask) = ask else { return };
    if serve(locks, request, &ask, Standing::Queued(request), now) == Served::Waits {
        return;
    }
    locks.each(|lock| {
        reenter(lock, &ask.owner, now);
        if !ask.room.is_exclusive() {
            grant_heads(lock, false, now);
        }
    });
}
