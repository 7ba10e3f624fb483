//! Tells waiters their answers. A session begins when its client is told.

use std::num::NonZero;

use super::budget::CHANGE;
use super::host::{Host, is_turn_over};
use super::lock_id::LockId;
use super::lock_state::{Listener, Record, Session, WaiterNews};
use super::message::{Channel, Message, MessageKind};
use super::notices::Notice;
use super::queue::RequestId;
use super::replication::Moved;
use super::table::Table;
use super::waiter::{Answer, RequestedLocks, Stage};
use crate::lock::{Deadline, Fence, Got, Now, Owner};

/// The most answers and messages that one turn sends.
const ANSWERS: usize = 100;

/// What a waiter is told.
pub struct ToldAnswer {
    pub answer: Answer,
    pub locks: RequestedLocks,
    pub owner: Owner<'static>,
    /// Whether replicas had to confirm the answer.
    pub synced: bool,
}

/// The answer for a waiter that the server has unblocked: what it was granted, with what is left of the lease.
pub fn tell<H: Host>(host: &mut H, request: RequestId, now: Now) -> Option<ToldAnswer> {
    // If the client is not to be told yet, an operator has unblocked it.
    let stage = host.table().stage(request)?;
    match stage {
        Stage::Queued => _ = host.table().leave_queues(request, Stage::Answered(Answer::TimedOut)),
        Stage::Unconfirmed(answer) => host.table().end_unconfirmed(request, answer),
        _ => (),
    }
    let (mut answer, time_up, locks, connection, confirm, is_place, session, owner) = {
        let table = host.table();
        let waiter = table.waiters.get(&request)?;
        let Stage::Answered(answer) = waiter.stage else { return None };
        let session = waiter.ask.session.then_some(waiter.ask.lease);
        let (locks, owner) = (waiter.locks.clone(), waiter.ask.owner.clone());
        let is_place = waiter.channel.is_some();
        (
            answer,
            waiter.time_up.map(NonZero::get),
            locks,
            waiter.connection,
            waiter.confirm,
            is_place,
            session,
            owner,
        )
    };
    let mut sessions = Vec::new();
    if let Answer::Granted { until } | Answer::Extended { until } = &mut answer {
        let lease = session.map(|lease| host.limits().allowed(lease));
        for (id, fence) in locks.all().iter().filter_map(|lock| Some((&lock.id, lock.fence()?))) {
            // Opening a key takes as long as a tenth of a handover.
            let is_sure = lease.is_none() && confirm.is_none();
            if is_sure && !host.table().is_doubtful(id, fence, request) {
                continue;
            }
            let held = host.alive_with(id, fence, now.millis());
            let end =
                held.filter(|(holds, _)| !host.table().is_abandoned(id, fence, *holds)).map(|held| held.1);
            *until = end.map_or(Deadline::At(0), |end| end.min(*until));
            let begin =
                |(lease, end)| (id, fence, Session::new(connection, lease, confirm, end, now.millis()), end);
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
    let mut table = host.table();
    table.set_stage(request, Stage::Told(answer));
    if let Answer::Granted { until } = answer
        && until != Deadline::At(0)
    {
        table.end_by(request, time_up);
        for (id, fence, session, end) in sessions {
            table.begin_session(request, id, fence, session, Moved { from: until, to: end }, now.millis());
        }
    }
    drop(table);
    Some(ToldAnswer { answer, locks, owner, synced: confirm.is_some() })
}

/// Sends answers only, as far as one turn allows. Reads the clock only if needed.
pub fn send_due<H: Host>(host: &mut H, now: impl Fn() -> Now) {
    let mut answers = 0;
    while send_next(host, &mut answers, &now) && !is_turn_over(host) {}
}

/// Sends what the next notice is about, if it is not out of date. Returns whether there was one, and this turn may send more.
pub(super) fn send_next<H: Host>(host: &mut H, answers: &mut usize, now: impl Fn() -> Now) -> bool {
    if *answers == ANSWERS {
        return false;
    }
    let Some(notice) = host.table().outgoing.pop() else { return false };
    host.table().budget.spend(CHANGE);
    let Some(next) = host.table().outgoing_of(notice) else { return true };
    *answers += 1;
    match next {
        Outgoing::Client(client) => host.unblock(client),
        Outgoing::Place(request) => tell_place(host, request, now()),
        Outgoing::Message(message) => _ = host.publish(&message),
    }
    true
}

/// Answers a place by a message. If the answer is a grant, and nobody receives the message, takes the grant back.
fn tell_place<H: Host>(host: &mut H, request: RequestId, now: Now) {
    let granted = host.table().stage(request);
    let Some(ToldAnswer { answer, locks, owner, .. }) = tell(host, request, now) else { return };
    let Some((channel, lease)) = host
        .table()
        .waiters
        .get(&request)
        .and_then(|waiter| Some((Channel::clone(waiter.channel.as_deref()?), waiter.ask.lease)))
    else {
        return;
    };
    let lease = match (granted, answer) {
        (Some(Stage::Answered(Answer::Granted { until: first })), Answer::Granted { until })
            if until < first =>
        {
            lease.min(until.left(now.start))
        }
        _ => lease,
    };
    // All new grants have the same fence, which is the highest.
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
    /// Whether a grant may have ended, or its lease may have become shorter, since the answer was made.
    fn is_doubtful(&self, id: &LockId, fence: Fence, request: RequestId) -> bool {
        let lock = self.get(id.to_ref()).filter(|lock| !lock.recheck && !self.is_swept(id.to_ref()));
        let record = lock.and_then(|lock| lock.record(fence));
        let record = record.filter(|record| record.to_take_back == 0 && record.hold(request).is_some());
        record.is_none_or(|record| record.session.is_some_and(|its| self.has_closed(its)))
    }

    /// A place was sent a message that starts its work, so that nothing is left to claim.
    fn started(&mut self, request: RequestId) {
        let granted = self.granted(request);
        self.note_received(request);
        for (id, fence) in granted {
            self.change(id.to_ref(), None, |_, lock| lock.change(fence, Record::note_known));
        }
        self.remove(request);
    }

    /// Who is to be told what, if the notice is not out of date.
    #[inline]
    fn outgoing_of(&mut self, notice: Notice) -> Option<Outgoing<C>> {
        match notice {
            Notice::Message(message) => Some(Outgoing::Message(message)),
            Notice::Wanted(id, fence) => self.change(id.to_ref(), None, |_, lock| {
                let told = if lock.queue.is_empty() { WaiterNews::No } else { WaiterNews::Yes };
                let tell = |listener: &mut Box<Listener>| {
                    listener.told = told;
                    let (channel, owner) = (listener.channel.clone(), listener.owner.clone());
                    Outgoing::Message(Message { channel, kind: MessageKind::Wanted(fence), owner })
                };
                let message = lock.change(fence, |record| record.listener.as_mut().map(tell));
                message.flatten().filter(|_| told == WaiterNews::Yes)
            }),
            Notice::Waiter(request) => {
                let waiter = self.waiters.get_mut(&request)?;
                waiter.unblocked = matches!(waiter.stage, Stage::Answered(_));
                Some(waiter.client.map_or(Outgoing::Place(request), Outgoing::Client))
            }
        }
    }
}

enum Outgoing<C> {
    Client(C),
    Place(RequestId),
    Message(Message),
}
