//! The answers to waiters, from the decision until the waiter has been told. With `SYNC`, replicas have to confirm a grant in between.

use super::WaitTable;
use super::outgoing::{Notice, Outgoing};
use super::queue::RequestId;
use super::replication::{Awaited, Offset};
use super::waiter::{Answer, Confirmed, Phase, Told, Waiter};
use crate::lock::Deadline;

impl<C: Copy> WaitTable<C> {
    /// Returns the next answer or renewal that enough replicas have confirmed. Also notes that a renewal is confirmed. For an answer, the
    /// caller has to call `answer_confirmed`. `acks` has the offset that each replica has acknowledged, the highest offset first.
    pub(crate) fn next_confirmed(&mut self, acks: &[Offset]) -> Option<Confirmed> {
        Some(match self.replication.confirmed(acks)?.clone() {
            Awaited::Answer(request) => {
                let waiter = self.waiters.get(request);
                debug_assert!(waiter.is_some(), "{request:?} is to be told");
                Confirmed::Answer(request, waiter?.locks.clone())
            }
            Awaited::Renewal(id, fence) => {
                self.sessions().set_renewal(id.to_ref(), fence, None);
                Confirmed::Renewal
            }
        })
    }

    /// Adds a client's answer, which enough replicas have confirmed, to the answers to be sent. `until` is the end of the lease that ends
    /// first. `None` means that one of the grants has ended meanwhile. In that case, the client is told so, and the holds that the request
    /// added are taken back.
    pub(crate) fn answer_confirmed(&mut self, request: RequestId, until: Option<Deadline>) {
        let Some(Phase::Unconfirmed(answer)) = self.waiters.phase(request) else { return };
        // Somebody may have extended the lease since the module made this grant or extension, and replicas have not confirmed the new end.
        // So the answer has the earlier of the two ends.
        let answer = match (answer, until) {
            (Answer::Extended { until: confirmed }, Some(until)) => {
                Answer::Extended { until: until.min(confirmed) }
            }
            (Answer::Granted { until: confirmed }, Some(until)) => {
                Answer::Granted { until: until.min(confirmed) }
            }
            (Answer::Extended { .. }, None) => Answer::NotHeld,
            _ => Answer::Gone,
        };
        if until.is_none() {
            self.mark_undeliverable(request);
        }
        self.waits().go_on(request, Phase::Answered(answer));
        self.outgoing.push_back(Notice::Waiter(request));
    }

    /// Gives up waiting for replicas to confirm a client's grant or extension. The client is told so later, and the hold that a grant added
    /// is taken back. Returns whether the client was still waiting for replicas.
    pub(super) fn end_unconfirmed(&mut self, request: RequestId) -> bool {
        let Some(Phase::Unconfirmed(answer)) = self.waiters.phase(request) else { return false };
        let answer = match answer {
            Answer::Extended { .. } => Answer::ExtensionUnconfirmed,
            _ => Answer::GrantUnconfirmed,
        };
        self.mark_undeliverable(request);
        self.waits().go_on(request, Phase::Answered(answer));
        true
    }

    /// Whether there is any answer or message to send.
    pub fn has_answered(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Takes the next answer or message to send.
    pub(crate) fn next_answer(&mut self) -> Option<Outgoing<C>> {
        loop {
            let tell = match self.outgoing.pop_front()? {
                Notice::Message(message) => Some(Outgoing::Message(message)),
                Notice::Wanted(id) => self.listeners().next_wanted(id).map(Outgoing::Message),
                Notice::Waiter(request) => {
                    self.with_table_of(request, |table| table.waits().answer_due(request))
                }
            };
            if tell.is_some() {
                return tell;
            }
        }
    }

    /// Returns the answer for a waiter, and notes that the waiter has been told. If the waiter still waits for its locks or for replicas,
    /// an operator has sent it away as if its time were up, so its wait ends now. Returns `None` if the waiter has already been told, or is
    /// gone. (Redis 7.0 with `io-threads-do-reads` asks for the answer twice after an operator's `CLIENT UNBLOCK`.)
    pub fn tell(&mut self, request: RequestId) -> Option<Told> {
        match self.waiters.phase(request)? {
            Phase::Queued => _ = self.leave(request, Phase::Answered(Answer::TimedOut)),
            Phase::Unconfirmed(_) => _ = self.end_unconfirmed(request),
            _ => (),
        }
        let waiter = self.waiters.get(request)?;
        let (is_over, may_be_changed) =
            if waiter.phase.is_granted() { self.doubts(&waiter.locks) } else { (false, false) };
        let tell = |waiter: &mut Waiter<C>| {
            let Phase::Answered(mut answer) = waiter.phase else { return None };
            if let Answer::Granted { until } = &mut answer
                && is_over
            {
                *until = Deadline::At(0);
            }
            waiter.phase = Phase::Told(answer);
            let channel = waiter.channel().cloned();
            let Waiter { locks, ask, client_id, confirm, .. } = waiter;
            let (locks, ask, binds) = (locks.clone(), ask.clone(), Vec::new());
            Some(Told {
                locks,
                binds,
                ask,
                client_id: *client_id,
                answer,
                may_be_changed,
                confirm: *confirm,
                channel,
            })
        };
        let mut told = self.waits().edit(request, tell).flatten()?;
        for lock in told.locks.all().iter().filter(|_| told.ask.session) {
            let entry = self.locks.entries.get_mut(lock.id.to_ref());
            if let (Some(entry), Some(fence)) = (entry, lock.fence())
                && entry.grants.bind(fence, request, told.client_id)
            {
                told.binds.push((lock.id.clone(), fence));
            }
        }
        Some(told)
    }

    /// The server is done with a blocked client. If the client was told of its grant, it is known only at the end of this turn of the event
    /// loop whether the reply was sent (see `departures::closed`). Otherwise, drops what the table has of this client. Returns whether the
    /// client was told of its grant.
    pub fn freed(&mut self, request: RequestId) -> bool {
        let told = self.with_table_of(request, |table| table.waiters.told_client(request));
        match told {
            Some((client, _)) => self.sent.push((client, request)),
            None => self.with_table_of(request, |table| table.forget(request)),
        }
        told.is_some()
    }

    /// The server has sent the replies of this turn of its event loop, so the clients that were told of their grants know of them. Drops
    /// what the table has of these clients.
    pub fn turn_sent(&mut self) {
        while let Some((_, request)) = self.sent.pop() {
            self.with_table_of(request, |table| table.forget(request));
        }
    }
}
