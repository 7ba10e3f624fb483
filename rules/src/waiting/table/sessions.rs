//! Sessions: which connection keeps which grants alive, and which renewals of their leases replicas have to confirm.
//!
//! The module makes a renewal before replicas confirm it. If they do not confirm the renewal in time, `settle` undoes the renewal, because
//! only code that has the lock's key open can change the lease.

use super::connections::Connections;
use super::grant_record::{GrantRecord, SessionKeys, Synced};
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
    /// Changes the record of a grant. No code outside this file changes which connection keeps a grant alive, or which renewal replicas
    /// have to confirm.
    fn change(&mut self, at: LockRef<'_>, fence: Fence, body: impl FnOnce(&mut GrantRecord)) {
        let keys = self.locks.change(at, |entry| entry.grants.change(fence, |record| record.change(body)));
        if let Some(keys) = keys.flatten().filter(|[from, to]| from != to) {
            self.write(&self.locks.id(at), fence, keys);
        }
    }

    fn write(&mut self, id: &LockId, fence: Fence, [from, to]: [SessionKeys; 2]) {
        self.connections.set_session(id, fence, from.client, to.client);
        self.replication.set(|| Awaited::Renewal(id.clone(), fence), from.awaits, to.awaits);
    }

    /// Adds to the indexes the rows that follow from a record.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn index(&mut self, id: &LockId, record: &GrantRecord) {
        self.write(id, record.fence, [SessionKeys::default(), record.session_keys()]);
    }

    /// Starts a session: a connection keeps a grant alive from now on, in place of any other connection.
    pub(crate) fn start(&mut self, at: LockRef<'_>, session: Session) {
        let (id, entry) = self.locks.open(at);
        let start = |record: &mut GrantRecord| record.change(|record| record.session = Some(session));
        if let Some(keys) = entry.grants.open(session.fence, start) {
            self.write(&id, session.fence, keys);
        }
        self.locks.renew_by(at, session.renew_at);
    }

    /// Ends the session of this grant. The grant goes on without a session.
    pub(super) fn end(&mut self, at: LockRef<'_>, fence: Fence) {
        self.change(at, fence, |record| (record.session, record.synced) = (None, None));
    }

    /// Removes from the indexes the rows that follow from the record of an ended grant.
    pub(super) fn ended(&mut self, id: &LockId, record: &GrantRecord) {
        self.write(id, record.fence, [record.session_keys(), SessionKeys::default()]);
    }

    /// Sets how replicas have to confirm the renewals of this grant's session; `None`: renewals need no confirmation.
    pub(crate) fn confirm(&mut self, at: LockRef<'_>, fence: Fence, confirm: Option<Confirm>) {
        let synced = confirm.map(|confirm| Box::new(Synced { confirm, unconfirmed: None }));
        self.change(at, fence, |record| record.synced = synced.filter(|_| record.session.is_some()));
    }

    /// Notes that a session has renewed the lease of its grant. If replicas have to confirm the renewal, they have the time of `SYNC` for
    /// this, but no longer than the lease without the renewal.
    pub(crate) fn await_renewal(&mut self, at: LockRef<'_>, fence: Fence, moved: Moved, now: Millis) {
        let Some(confirm) = self.locks.lock(at).grants.synced(fence).map(|synced| synced.confirm) else {
            return;
        };
        let ends = confirm.ends(moved.from, now);
        self.set_renewal(at, fence, Some((moved, ends)));
        self.locks.renew_by(at, ends);
    }

    /// Sets the renewal of this grant that replicas have to confirm; `None`: there is no such renewal.
    pub(super) fn set_renewal(&mut self, at: LockRef<'_>, fence: Fence, renewal: Option<(Moved, Millis)>) {
        self.change(at, fence, |record| {
            record.synced.iter_mut().for_each(|synced| synced.unconfirmed = renewal);
        });
    }

    /// Takes the renewal of this grant that replicas have not confirmed in time, if there is one. The caller must undo this renewal.
    pub(crate) fn take_unconfirmed_renewal(
        &mut self,
        at: LockRef<'_>,
        fence: Fence,
        now: Millis,
    ) -> Option<Moved> {
        let (moved, _) =
            self.locks.lock(at).grants.synced(fence)?.unconfirmed.filter(|(_, ends)| *ends <= now)?;
        self.set_renewal(at, fence, None);
        Some(moved)
    }

    /// Marks this session as over, because its connection has closed, and sets a timer that settles the lock.
    pub(super) fn closed(&mut self, id: &LockId, fence: Fence) {
        self.change(id.to_ref(), fence, |record| {
            record.session.iter_mut().for_each(|session| session.over = true);
        });
        self.locks.look_by(id.to_ref(), 0);
    }
}
