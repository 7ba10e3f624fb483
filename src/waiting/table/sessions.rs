//! Which connection keeps which grants alive, and which of their renewals replicas are to confirm.
//!
//! Such a renewal is made first, and undone if it is not confirmed in time. `settle` undoes it, with the lock open.

use super::connections::Connections;
use super::grant_record::{GrantRecord, Synced};
use super::lock_id::{LockId, LockRef};
use super::locks::Locks;
use super::replication::{Awaited, Confirm, Moved, Replication};
use super::waiter::Session;
use crate::lock::{Fence, Millis};

/// The sessions, and the parts of the table that change with them.
pub(crate) struct Sessions<'a> {
    pub(super) locks: &'a mut Locks,
    pub(super) connections: &'a mut Connections,
    pub(super) replication: &'a mut Replication,
}

impl Sessions<'_> {
    /// Starts a session: a connection keeps a grant alive from now on, in place of any other.
    pub(crate) fn start(&mut self, at: LockRef<'_>, session: Session) {
        let (id, entry) = self.locks.open(at);
        let fence = session.fence;
        let earlier = entry.grants.open(fence, |record| record.session.replace(session)).flatten();
        if let Some(earlier) = earlier.filter(|earlier| earlier.client != session.client) {
            self.connections.remove_session(earlier.client, &id, fence);
        }
        self.connections.add_session(session.client, id, fence);
        self.locks.renew_by(at, session.renew_at);
    }

    /// Ends the session of this grant, which goes on without one.
    pub(super) fn end(&mut self, at: LockRef<'_>, fence: Fence) {
        let id = self.locks.id(at);
        let take = |record: &mut GrantRecord| (record.session.take(), record.synced.take());
        let ended = self.locks.change(at, |entry| entry.grants.change(fence, take)).flatten();
        if let Some((Some(session), synced)) = ended {
            self.ended(&id, &session, synced);
        }
    }

    /// Cleans up after a session that has ended with its grant.
    pub(super) fn ended(&mut self, id: &LockId, session: &Session, synced: Option<Box<Synced>>) {
        self.connections.remove_session(session.client, id, session.fence);
        self.stop_awaiting(id, session.fence, synced);
    }

    fn stop_awaiting(&mut self, id: &LockId, fence: Fence, synced: Option<Box<Synced>>) {
        if synced.is_some_and(|synced| synced.unconfirmed.is_some()) {
            self.replication.remove(&Awaited::Renewal(id.clone(), fence));
        }
    }

    /// Sets how replicas have to confirm the renewals of this grant's session; `None`: renewals need no confirmation.
    pub(crate) fn confirm(&mut self, at: LockRef<'_>, fence: Fence, confirm: Option<Confirm>) {
        let synced = confirm.map(|confirm| Box::new(Synced { confirm, unconfirmed: None }));
        let replace = |record: &mut GrantRecord| match record.session {
            Some(_) => std::mem::replace(&mut record.synced, synced),
            None => None,
        };
        let earlier = self.locks.change(at, |entry| entry.grants.change(fence, replace)).flatten().flatten();
        if earlier.is_some() {
            self.stop_awaiting(&self.locks.id(at), fence, earlier);
        }
    }

    /// Notes that a session has moved the lease of its grant. If replicas are to confirm that, they have time until the earlier end of the
    /// lease.
    pub(crate) fn await_renewal(&mut self, at: LockRef<'_>, fence: Fence, moved: Moved, now: Millis) {
        let Some(confirm) = self.locks.lock(at).grants.synced(fence).map(|synced| synced.confirm) else {
            return;
        };
        let ends = confirm.ends(moved.from, now);
        self.replication.add(&Awaited::Renewal(self.locks.id(at), fence), confirm.replicas);
        self.locks.change(at, |entry| entry.grants.set_renewal(fence, Some((moved, ends))));
        self.locks.renew_by(at, ends);
    }

    /// Notes that replicas have confirmed the renewal of this grant.
    pub(super) fn renewed(&mut self, id: &LockId, fence: Fence) {
        self.locks.change(id.to_ref(), |entry| entry.grants.set_renewal(fence, None));
    }

    /// Takes the renewal of this grant that is to be undone, since replicas have not confirmed it in time.
    pub(crate) fn take_unconfirmed_renewal(
        &mut self,
        at: LockRef<'_>,
        fence: Fence,
        now: Millis,
    ) -> Option<Moved> {
        let (moved, ends) = self.locks.lock(at).grants.synced(fence)?.unconfirmed?;
        if now < ends {
            return None;
        }
        let id = self.locks.id(at);
        self.renewed(&id, fence);
        self.replication.remove(&Awaited::Renewal(id, fence));
        Some(moved)
    }

    /// Marks this session as over, since its connection has closed.
    pub(super) fn closed(&mut self, client: u64, id: &LockId, fence: Fence) {
        self.connections.remove_session(client, id, fence);
        let at = id.to_ref();
        self.locks.change(at, |entry| entry.grants.change_session(fence, |session| session.over = true));
        self.locks.look_by(at, 0);
    }
}
