//! `SYNC`: replicas are to have a grant, or an extension, before the client is told of it.
//!
//! The client is blocked meanwhile, like one that waits in a queue, and what becomes of it and of its grant is the same. Each question
//! to the replicas is for all that has changed since the last one (`table::replication`).

use super::access::{Caller, Environment, Host, LockAccess, LocksAccess, Refusal};
use super::join::{Outcome, WaitOptions, block, on_all};
use super::leases::lease_moved;
use super::run_due::TURN;
use super::table::{Answer, Arrival, Confirmed, LockRef, RequestId, RequestedLock, WaitKind};
use super::verdict::{Verdict, new_fence, take};
use crate::lock::{AcquireRequest, Deadline, Got, Millis, Now};

/// How long in ms to wait before trying again what could not be done now.
const AGAIN: Millis = 2;

/// Does what verdicts say, and has the client told once replicas have confirmed it.
pub(super) fn take_confirmed<B: LocksAccess, G>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    verdicts: Vec<Verdict>,
    now: Now,
) -> Result<Outcome<G>, Refusal> {
    let fence = new_fence(locks, &verdicts, now)?;
    let Some((request, client)) = block(locks, caller) else { return Ok(Outcome::Taken) };
    let (mut all, mut again, mut until) = (Vec::with_capacity(verdicts.len()), Vec::new(), Deadline::Never);
    for (number, verdict) in verdicts.into_iter().enumerate() {
        let Some(lock) = locks.lock(number) else { break };
        let is_again = matches!(verdict, Verdict::Again { .. });
        // Each can be taken, and has its fence.
        let Ok((got, end)) = take(lock, ask, verdict, fence, now) else { continue };
        if let Some(channel) = &wait.channel {
            let owner = ask.owner.borrowed().into_owned();
            lock.here(|table, at| table.listeners().watch_untold(at, got.fence, owner, channel.clone()));
            lease_moved(lock, got.fence, end, now);
        }
        until = until.min(end);
        if ask.once && is_again {
            again.push((number, got));
        }
        all.push(got);
    }
    let (ask, way, client_id) = (ask.to_owned(), WaitKind::Blocked(client), caller.id());
    let arrival = Arrival { ask, way, client_id, since: now.micros, timeout: 0, confirm: wait.confirm };
    hold_answer(locks, request, arrival, &all, Answer::Granted { until });
    for (number, got) in again {
        if let Some(lock) = locks.lock(number) {
            lock.change(|entry| entry.share_hold_with(got.fence, request));
        }
    }
    Ok(Outcome::Waits)
}

/// Has a client that is blocked told once replicas have confirmed it.
pub(super) fn hold_answer<B: LocksAccess>(
    locks: &mut B,
    request: RequestId,
    arrival: Arrival<<B::One as Environment>::Client>,
    all: &[Got],
    answer: Answer,
) {
    on_all(locks, |lock, places| {
        let got: Vec<(LockRef<'_>, Got)> = places.iter().copied().zip(all.iter().copied()).collect();
        lock.table(|table| table.hold_answer(request, arrival, B::SEVERAL, &got, answer));
    });
}

/// Looks how far the replicas are, has those told whose grants they have, and asks about what is new; to be called when one of them
/// has said how far it is, when there is something new and nothing is asked yet, and now and then. In how many ms to do so again,
/// where there is more to be done; the replicas' answers are told of apart.
pub(crate) fn confirm<H: Host>(host: &mut H, now: Now) -> Option<Millis> {
    if host.table(|table| table.replication.is_empty()) {
        return None;
    }
    host.table(|table| table.replication.heard());
    let mut seen = host.replicas();
    seen.replicas.sort_unstable_by(|one, other| other.cmp(one));
    while let Some(confirmed) = host.table(|table| table.next_confirmed(&seen.replicas)) {
        if let Confirmed::Answer(request, locks) = confirmed {
            // It may have been broken, deleted or moved meanwhile.
            let end = |lock: &RequestedLock| host.look(&lock.id, lock.fence()?, now.millis());
            let ends: Option<Vec<Deadline>> = locks.all().iter().map(end).collect();
            let until = ends.and_then(|ends| ends.into_iter().min());
            host.table(|table| table.answer_confirmed(request, until));
        }
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
