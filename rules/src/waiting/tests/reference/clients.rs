//! Answers to clients, and clients that go away, in the reference.

use super::super::server::Conn;
use super::{Answered, Holder, Reference, Session, Told, Wish, third};
use crate::lock::Millis;

impl Reference {
    /// Sends all answers, and returns them.
    pub(crate) fn tell(&mut self, now: Millis) -> Vec<Answered> {
        let answered = std::mem::take(&mut self.answered);
        for Answered { conn, told, session, grant, .. } in &answered {
            if let (Some(_), Some(lease)) = (told, session) {
                self.keep_alive(*conn, *lease, *grant, now);
            }
        }
        answered
    }

    /// Sends all answers before any other due work, and returns them.
    pub(crate) fn tell_first(&mut self, now: Millis) -> Vec<Answered> {
        let answered = std::mem::take(&mut self.answered);
        self.bind_told(&answered, now);
        answered
    }

    /// An operator makes the server answer a waiting client. Returns the answers to the client.
    pub(crate) fn unblock(&mut self, conn: Conn, now: Millis) -> Vec<Answered> {
        if let Some(place) = self.waiting.iter().position(|(waits, ..)| *waits == conn) {
            let (_, wish, _) = self.waiting.remove(place);
            self.answer(conn, wish, None, None, false, now);
        }
        let told: Vec<_> = self.answered.extract_if(.., |answered| answered.conn == conn).collect();
        for Answered { grant, .. } in told.iter().filter(|told| told.told.is_some() && !told.own_hold) {
            // The owner now knows of the hold of another client.
            self.share_hold(*grant);
        }
        self.bind_told(&told, now);
        told
    }

    fn bind_told(&mut self, told: &[Answered], now: Millis) {
        for Answered { conn, told, session, grant, .. } in told {
            if let (Some(_), Some(lease)) = (told, session) {
                self.bind(*conn, *lease, *grant, now);
            }
        }
    }

    /// Starts the session of a client that is answered before other due work. The lock stays as the server finds it: sessions renew their
    /// leases later.
    pub(super) fn bind(&mut self, conn: Conn, lease: Millis, grant: u64, now: Millis) {
        // If all grants have lapsed, the server deletes the key.
        if self.holders.iter().all(|holder| holder.until < now) {
            self.end_grants(|_| true);
        }
        let Some(holder) = self.holders.iter().find(|holder| holder.fence == grant).copied() else {
            return;
        };
        if now <= holder.until {
            self.keep_alive(conn, lease, grant, now);
        }
    }

    /// Starts a session, which renews the lease when a third of it has passed.
    pub(super) fn keep_alive(&mut self, conn: Conn, lease: Millis, grant: u64, now: Millis) {
        let renew_at = now + third(lease);
        self.orphans.retain(|orphan| *orphan != grant);
        if let Some(holder) = self.grant_mut(grant) {
            holder.session = Some(Session { conn, lease, renew_at });
            holder.kept_for = holder.kept_for.max(lease);
        }
    }

    pub(super) fn answer(
        &mut self,
        conn: Conn,
        wish: Wish,
        told: Told,
        grant: Option<u64>,
        own_hold: bool,
        now: Millis,
    ) {
        let latest = self.holder(wish.who).and_then(|holder| holder.renewed(now));
        let session = wish.session.then_some(wish.lease);
        self.answered.push(Answered { conn, told, latest, session, grant: grant.unwrap_or(0), own_hold });
    }

    /// Notes that the owner has been told of the grant in another way. So no hold is taken back if a client that is still to be told goes
    /// away.
    pub(super) fn share_hold(&mut self, grant: u64) {
        for answered in self.answered.iter_mut().filter(|answered| answered.grant == grant) {
            answered.own_hold = false;
        }
    }

    /// Closes a connection. Grants that it kept alive end, unless a client that is still to be told asked for a session.
    pub(crate) fn close(&mut self, conn: Conn, now: Millis) {
        self.waiting.retain(|(waits, _, _)| *waits != conn);
        let kept = |holder: &Holder| holder.session.is_some_and(|session| session.conn == conn);
        self.end_grants(|holder| kept(holder) && holder.until < now);
        self.leave(conn);
        for holder in self.holders.iter_mut().filter(|holder| kept(holder)) {
            holder.session = None;
            self.orphans.push(holder.fence);
        }
        self.end_orphans();
    }

    /// Ends the grants whose sessions' connections have closed, and that nobody will keep alive.
    fn end_orphans(&mut self) {
        let heirs = self.answered.iter().filter(|other| other.told.is_some() && other.session.is_some());
        let heirs: Vec<u64> = heirs.map(|other| other.grant).collect();
        let over: Vec<u64> = self.orphans.extract_if(.., |fence| !heirs.contains(fence)).collect();
        self.end_grants(|holder| over.contains(&holder.fence));
    }

    /// Sends a waiting client away without an answer.
    pub(crate) fn send_away(&mut self, conn: Conn) {
        self.waiting.retain(|(waits, _, _)| *waits != conn);
        self.leave(conn);
    }

    /// Takes back one hold of the client's grant, unless another client was told of the same hold later.
    pub(super) fn leave(&mut self, conn: Conn) {
        let Some(place) = self.answered.iter().position(|answered| answered.conn == conn) else { return };
        let gone = self.answered.remove(place);
        if gone.told.is_none() || !gone.own_hold {
            return self.end_orphans();
        }
        let successor =
            |other: &&mut Answered| other.told.is_some() && other.grant == gone.grant && !other.own_hold;
        if let Some(successor) = self.answered.iter_mut().skip(place).find(successor) {
            successor.own_hold = true;
        } else if let Some(holder) = self.grant_mut(gone.grant).copied() {
            self.give_back(holder.who, false);
        }
        self.end_orphans();
    }
}
