//! `SYNC`: replicas have to confirm a grant or an extension before the client is told of it.
//!
//! Until replicas have confirmed, the client is blocked. If the client goes away meanwhile, the module handles it like a waiter that has
//! not been told of its grant yet. The module asks the replicas one question for all changes since the last question
//! (`table::replication`).

use super::access::{Environment, Host, LockAccess};
use super::grant::{Granted, share_holds};
use super::join::{BlockedRequest, WaitOptions};
use super::lapse::lease_moved;
use super::lock_set::LocksAccess;
use super::run_due::TURN;
use super::table::{Answer, Arrival, LockRef, RequestId, WaitKind};
use crate::lock::{AcquireRequest, Deadline, Got, Millis, Now};

/// If the replicas can't be asked now, the module tries again after this many ms.
const AGAIN: Millis = 2;

/// Keeps the client of the running command blocked until replicas have confirmed its grants, and then has the client told. This function is
/// not inlined, so that an acquire without `SYNC` does not pay for it.
#[cold]
#[inline(never)]
pub(super) fn tell_when_confirmed<B: LocksAccess>(
    locks: &mut B,
    client_id: u64,
    (request, client): BlockedRequest<B>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    (granted, until): (&B::Each<Granted>, Deadline),
    now: Now,
) {
    let got = locks.with(granted, |lock, granted| {
        if let Some(channel) = &wait.channel {
            let owner = ask.owner.borrowed().into_owned();
            lock.here(|table, at| {
                table.listeners().watch_unclaimed(at, granted.got.fence, owner, channel.clone())
            });
            lease_moved(lock, granted.got.fence, granted.until, now);
        }
        granted.got
    });
    let (owned, way) = (ask.to_owned(), WaitKind::Blocked(client));
    let arrival =
        Arrival { ask: owned, way, client_id, since: now.micros, timeout: 0, confirm: wait.confirm };
    hold_answer(locks, request, arrival, &got, Answer::Granted { until });
    share_holds(locks, request, ask, granted);
}

/// Keeps a client blocked until replicas have confirmed the grants or extensions of which `answer` tells the client.
pub(super) fn hold_answer<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    arrival: Arrival<<B::One as Environment>::Client>,
    all: &B::Each<Got>,
    answer: Answer,
) {
    locks.here_all(|table, places| {
        let got: Vec<(LockRef<'_>, Got)> = places.iter().copied().zip(B::all(all).iter().copied()).collect();
        table.hold_answer(request, arrival, B::SEVERAL, &got, answer);
    });
}

/// Reads how much of the replication stream each replica has acknowledged. If enough replicas have confirmed a client's grants or
/// extensions, has this client answered. If there are newer changes, asks the replicas for another acknowledgement. A timer calls this
/// function after each acknowledgement, when there are newer changes and the last question has been answered, and from time to time.
/// Returns in how many ms the timer has to call it again; `None` if there is nothing to do before the next acknowledgement.
pub fn confirm<H: Host>(host: &mut H) -> Option<Millis> {
    if host.table(|table| table.replication.is_empty()) {
        return None;
    }
    host.table(|table| table.replication.heard());
    let mut seen = host.replicas();
    seen.replicas.sort_unstable_by(|one, other| other.cmp(one));
    while host.table(|table| table.confirm_next(&seen.replicas)) {
        if host.used() >= TURN {
            return Some(0);
        }
    }
    if host.table(|table| table.replication.is_to_ask()) {
        if !host.ask_replicas() {
            return Some(AGAIN);
        }
        host.table(|table| table.replication.asked(seen.written));
    }
    None
}
