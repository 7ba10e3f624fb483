//! The record of one grant: all that the module knows of the grant beyond what the lock's key says.

use std::num::NonZeroU32;

use super::pending::{PendingHold, PendingHolds};
use super::queue::RequestId;
use super::replication::{Confirm, Moved};
use super::waiter::{Channel, Session};
use crate::lock::{Fence, Grant, Millis, Owner};

/// The record of one grant. A grant has a record only while there is something to note: pending holds (ones that their waiters may not know
/// of yet), holds to be taken back, a connection that keeps the grant alive, a holder that gets messages about the grant, or a copy of the
/// grant after the end of its lease.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct GrantRecord {
    /// The fence, which identifies the grant: no two grants of a lock have the same fence.
    pub(super) fence: Fence,
    pub(super) pending: PendingHolds,
    /// The number of holds that have to be taken back, because their clients went away before they were told.
    pub(super) undeliverable: u32,
    /// The session that keeps the grant alive.
    pub(super) session: Option<Session>,
    /// How replicas confirm the renewals of the session, if they have to. This is in a box, because few sessions ask for it.
    pub(super) synced: Option<Box<Synced>>,
    /// The holder, if it gets messages about the grant.
    pub(super) listener: Option<Box<Listener>>,
    /// A copy of the grant, if its lease ended while this server was frozen. The module then restores the grant if its session can go on.
    pub(super) expired: Option<Box<Expired>>,
}

/// The keys of a grant in the indexes of sessions (see `index`).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SessionKeys {
    /// The connection that keeps the grant alive; `None` if there is none, or if it has closed.
    pub(super) client: Option<u64>,
    /// How many replicas have to confirm a renewal; `None` if no renewal has to be confirmed now.
    pub(super) awaits: Option<NonZeroU32>,
}

/// How far replicas have confirmed a session's renewals.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Synced {
    pub(super) confirm: Confirm,
    /// A renewal that replicas have not confirmed yet, and when the module undoes the renewal if they still have not, in ms since 1970.
    pub(super) unconfirmed: Option<(Moved, Millis)>,
}

/// A holder that gets messages when its grant ends, or when somebody waits for its lock.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Listener {
    pub(super) owner: Owner<'static>,
    pub(super) channel: Channel,
    /// Whether the holder knows that it has the lock.
    pub(super) claimed: bool,
    /// Whether the holder has been told that somebody waits, since the queue was last empty.
    pub(super) told: bool,
}

/// A grant that the server has deleted together with the lock's key, because the lease was over, and that the module may restore.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Expired {
    pub(crate) grant: Grant,
    /// Whether somebody has changed the key since then, so that the grant must not be restored.
    pub(crate) for_good: bool,
    /// The number of the last change to keys (see `Sweeps`) before the module kept the grant.
    pub(super) kept_at: u64,
}

/// The number of records with each of these properties. If a number is 0, no code has to search the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Counts {
    pub(super) undeliverable: u32,
    pub(super) sessions: u32,
    pub(super) listeners: u32,
    /// The listeners that know of their grants, and want to be told when somebody waits, but have not been told since the queue was last
    /// empty.
    pub(super) uninformed: u32,
    pub(super) expired: u32,
}

impl GrantRecord {
    pub(super) fn new(fence: Fence) -> Self {
        Self {
            fence,
            pending: PendingHolds::default(),
            undeliverable: 0,
            session: None,
            synced: None,
            listener: None,
            expired: None,
        }
    }

    pub(super) fn session_keys(&self) -> SessionKeys {
        let session = self.session.as_ref().filter(|session| !session.over);
        let synced = self.synced.as_deref().filter(|synced| synced.unconfirmed.is_some());
        SessionKeys {
            client: session.map(|session| session.client),
            awaits: synced.map(|synced| synced.confirm.replicas),
        }
    }

    /// Changes the record. Returns its keys before and after.
    pub(super) fn change(&mut self, body: impl FnOnce(&mut Self)) -> [SessionKeys; 2] {
        let from = self.session_keys();
        body(self);
        [from, self.session_keys()]
    }

    pub(super) fn is_over(&self) -> bool {
        self.pending.is_empty()
            && self.undeliverable == 0
            && self.session.is_none()
            && self.listener.is_none()
            && self.expired.is_none()
    }

    /// Handles the loss of a waiter that had not been told of its hold, or had not claimed it. This hold has to be taken back, unless
    /// another waiter shares the hold and so has it now.
    pub(super) fn lose_pending(&mut self, request: RequestId) -> Option<PendingHold> {
        let hold = self.pending.remove(request)?;
        self.undeliverable += u32::from(hold.own && !self.pending.transfer(&hold));
        Some(hold)
    }

    /// Whether the connection that kept the grant alive is known to have closed.
    pub(super) fn has_session_over(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.over)
    }

    pub(super) fn counts(&self) -> Counts {
        let listener = self.listener.as_deref();
        Counts {
            undeliverable: u32::from(self.undeliverable > 0),
            sessions: u32::from(self.session.is_some()),
            listeners: u32::from(listener.is_some()),
            uninformed: u32::from(listener.is_some_and(Listener::is_uninformed)),
            expired: u32::from(self.expired.is_some()),
        }
    }
}

impl Listener {
    fn is_uninformed(&self) -> bool {
        self.channel.wanted && self.claimed && !self.told
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.undeliverable += other.undeliverable;
        self.sessions += other.sessions;
        self.listeners += other.listeners;
        self.uninformed += other.uninformed;
        self.expired += other.expired;
    }

    pub(super) fn remove(&mut self, other: Self) {
        self.undeliverable -= other.undeliverable;
        self.sessions -= other.sessions;
        self.listeners -= other.listeners;
        self.uninformed -= other.uninformed;
        self.expired -= other.expired;
    }
}
