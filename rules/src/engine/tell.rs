//! Tells waiters their answers. A session begins when its client is told.

use super::host::Host;
use super::lock_state::{Record, Session};
use super::table::Table;
use super::waiter::{Answer, Phase};
use crate::lock::{Deadline, Fence, Got, Millis, Now};
use crate::waiting::table::Moved;
use crate::waiting::{LockId, Message, MessageKind, RequestId, RequestedLocks};

/// The answer for a waiter that the server has unblocked: what it was granted, with the lease that its grants have now.
pub fn tell<H: Host>(host: &mut H, request: RequestId, now: Now) -> Option<(Answer, RequestedLocks)> {
    // An operator has sent the client away, if it is in its queues.
    if !host.table().leave(request, Phase::Answered(Answer::TimedOut)) {
        host.table().end_unconfirmed(request);
    }
    let waiter = host.table().waiters.get(&request)?;
    let (Phase::Answered(mut answer), ends, locks) = (waiter.phase, waiter.ends, waiter.locks.clone()) else {
        return None;
    };
    let mut sessions = Vec::new();
    let (client, confirm, is_place) = (waiter.client_id, waiter.confirm, waiter.channel.is_some());
    let session = waiter.ask.session.then_some(waiter.ask.lease);
    if let Answer::Granted { until } | Answer::Extended { until } = &mut answer {
        let lease = session.map(|lease| host.limits().allowed(lease));
        // Of the lease, replicas have confirmed no more than what it was then.
        let is_over = *until == Deadline::At(0);
        *until = if confirm.is_some() || is_over { *until } else { Deadline::Never };
        for (id, fence) in locks.all().iter().filter_map(|lock| Some((&lock.id, lock.fence()?))) {
            let held = host.alive_with(id, fence);
            let end = held.filter(|(holds, _)| !host.table().is_left(id, fence, *holds)).map(|held| held.1);
            *until = end.map_or(Deadline::At(0), |end| end.min(*until));
            let begin =
                |(lease, end)| (id, fence, Session::new(client, lease, confirm, end, now.millis()), end);
            sessions.extend(lease.zip(end).map(begin));
        }
        if *until == Deadline::At(0) {
            host.table().untell(request);
            answer = match answer {
                Answer::Extended { .. } => Answer::NotHeld,
                _ if confirm.is_some() || is_place => Answer::Gone,
                answer => answer,
            };
        }
    }
    let table = host.table();
    table.go_on(request, Phase::Told(answer));
    if let Answer::Granted { until } = answer
        && until != Deadline::At(0)
    {
        table.end_by(request, ends);
        for (id, fence, session, end) in sessions {
            // A longer lease counts as a renewal that replicas have to confirm.
            let renewal = (until < end).then_some(Moved { from: until, to: end });
            table.begin_session(request, id, fence, session, renewal, now.millis());
        }
    }
    Some((answer, locks))
}

/// Answers a place by a message. If it is a grant that nobody hears of, takes the grant back.
pub(super) fn tell_place<H: Host>(host: &mut H, request: RequestId, now: Now) {
    let Some((answer, locks)) = tell(host, request, now) else { return };
    let Some(waiter) = host.table().waiters.get(&request) else { return };
    let (Some(channel), owner, lease) = (waiter.channel.clone(), waiter.ask.owner.clone(), waiter.ask.lease)
    else {
        return;
    };
    // All new grants have the highest fence.
    let got = locks.all().iter().filter_map(|lock| lock.got).max_by_key(|got| got.fence);
    let kind = match (answer, got) {
        (Answer::TimedOut, _) => MessageKind::Timeout,
        (Answer::Granted { until }, Some(Got { fence, slot, .. })) if until != Deadline::At(0) => {
            let start = |number| MessageKind::Start { fence, lease, slot, number };
            channel.start.map_or(MessageKind::Granted(fence), start)
        }
        _ => MessageKind::Gone,
    };
    let heard = host.publish(&Message { channel, kind, owner });
    match (kind, heard) {
        (MessageKind::Granted(_), true) => (),
        (MessageKind::Start { .. }, true) => host.table().started(request),
        (MessageKind::Granted(_) | MessageKind::Start { .. }, false) => host.table().give_up(request),
        _ => host.table().forget(request),
    }
}

impl<C: Copy> Table<C> {
    /// A waiter is told, so its connection keeps its grant alive.
    fn begin_session(
        &mut self,
        request: RequestId,
        id: &LockId,
        fence: Fence,
        session: Session,
        renewal: Option<Moved>,
        now: Millis,
    ) {
        self.change(id.to_ref(), None, |table, lock| {
            let keeps = lock
                .record(fence)
                .and_then(|record| record.session)
                .is_some_and(|known| known.client == session.client && !known.over);
            let binds = |record: &mut Record| {
                let hold = record.pending.iter_mut().find(|hold| hold.request == request)?;
                // If the connection already keeps the grant alive, it does so even if the client turns out to be gone.
                let binds = hold.binds;
                hold.binds &= !keeps;
                Some(binds)
            };
            if lock.change(fence, binds).flatten() == Some(true) {
                table.set_session(id.to_ref(), lock, fence, Some(session));
                let renewal = renewal
                    .zip(session.confirm)
                    .map(|(moved, confirm)| (moved, confirm.ends(moved.from, now)));
                table.set_renewal(id, lock, fence, Some(session), renewal);
                let due = lock.first_due().map(|(time, _)| time);
                lock.wake = lock.wake.into_iter().chain(due).min();
            }
        });
    }

    /// A place was sent a message that starts its work, so that nothing is left to claim.
    fn started(&mut self, request: RequestId) {
        let granted = self.granted(request);
        self.known(request);
        for (id, fence) in granted {
            self.change(id.to_ref(), None, |_, lock| lock.change(fence, Record::is_known));
        }
        self.remove(request);
    }
}
