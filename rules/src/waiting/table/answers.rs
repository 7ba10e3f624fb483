//! The answers to waiters, from the decision until the waiter has been told. With `SYNC`, replicas have to confirm a grant in between.

use super::WaitTable;
use super::outgoing::{Notice, Outgoing};
use super::queue::RequestId;
use super::replication::{Awaited, Offset};
use super::waiter::{Answer, Phase, Told, Waiter};

impl<C: Copy> WaitTable<C> {
    /// Notes the next answer or renewal that enough replicas have confirmed, and has an answer sent. Returns whether there was one. `acks`
    /// has the offset that each replica has acknowledged, the highest offset first.
    pub(crate) fn confirm_next(&mut self, acks: &[Offset]) -> bool {
        let confirmed = self.replication.confirmed(acks).cloned();
        match &confirmed {
            Some(Awaited::Answer(request)) => {
                let phase = self.waiters.phase(*request);
                debug_assert!(matches!(phase, Some(Phase::Unconfirmed(_))), "{request:?} is to be told");
                if let Some(Phase::Unconfirmed(answer)) = phase {
                    self.waits().go_on(*request, Phase::Answered(answer));
                    self.outgoing.push_back(Notice::Waiter(*request));
                }
            }
            Some(Awaited::Renewal(id, fence)) => self.sessions().set_renewal(id.to_ref(), *fence, None),
            None => (),
        }
        confirmed.is_some()
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
        let tell = |waiter: &mut Waiter<C>| {
            let Phase::Answered(answer) = waiter.phase else { return None };
            waiter.phase = Phase::Told(answer);
            let channel = waiter.channel().cloned();
            let Waiter { locks, ask, client_id, confirm, .. } = waiter;
            let (locks, ask, binds) = (locks.clone(), ask.clone(), Vec::new());
            Some(Told { locks, binds, ask, client_id: *client_id, answer, confirm: *confirm, channel })
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
