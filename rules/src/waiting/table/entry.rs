//! The entry of one lock: its queue, and records of its grants.

use std::collections::BTreeSet;

use super::grant_record::GrantRecord;
use super::grants::GrantRecords;
use super::outgoing::Message;
use super::pending::PendingHold;
use super::queue::{Queue, RequestId};
use super::timers::LockTimers;
use crate::lock::{Fence, Owner};

/// All that the module knows of one lock beyond what the lock's key says. Grants are identified by their fences: no two grants of a lock
/// have the same fence.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub struct LockEntry {
    pub(super) queue: Queue,
    pub(super) grants: GrantRecords,
    pub(super) timers: LockTimers,
    /// The places that still have to claim a grant of this lock have asked for this many locks in total. One place may have asked for
    /// several locks.
    pub(super) unclaimed_locks: u32,
    /// Whether the module has put off the re-entry of a place, because `unclaimed_locks` was too great. The module tries again when this
    /// number gets smaller.
    pub(super) put_off: bool,
    /// Whether holders have to be told that somebody waits.
    pub(super) wanted: bool,
    /// The holder that waits for an upgrade: its grant is to allow fewer holders (a reader becomes a writer). The holder's waiters for this
    /// go ahead of all other waiters.
    pub(super) upgrader: Option<Box<Upgrader>>,
    /// Whether the module has to compare all that it knows of the lock with the lock's key, when it next brings the lock up to date. This
    /// is so if, for example, a command such as `DEL` may have changed the key.
    pub(super) recheck: bool,
}

/// A holder that waits to reduce how many holders its grant allows (the room of the grant).
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Upgrader {
    pub(super) fence: Fence,
    /// The holder's own waiters that ask for less room than the grant has.
    pub(super) requests: BTreeSet<RequestId>,
}

/// Which parts of a lock have to be settled, that is, brought up to date.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unsettled {
    /// Whether the module keeps grants of the lock although their leases ended while this server was frozen.
    pub(crate) expired: bool,
    /// Whether there is a hold whose waiter went away before it was told.
    pub(crate) undeliverable: bool,
    pub(crate) session: bool,
    /// Whether to look at all sessions, and not only at sessions whose connections have closed.
    pub(crate) sessions: bool,
    /// Whether there is a holder that gets messages about its grant.
    pub(crate) watched: bool,
    /// Whether to check that all grants with a record still exist.
    pub(crate) records: bool,
    /// Whether to compare all that the module knows of the lock with the lock's key.
    pub(crate) recheck: bool,
}

impl Default for LockEntry {
    fn default() -> Self {
        Self::new()
    }
}

impl LockEntry {
    pub(super) const fn new() -> Self {
        Self {
            queue: Queue::new(),
            grants: GrantRecords::new(),
            timers: LockTimers::new(),
            unclaimed_locks: 0,
            put_off: false,
            wanted: false,
            upgrader: None,
            recheck: false,
        }
    }

    /// Whether the entry has nothing left, and can be dropped.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_empty() && self.grants.is_empty()
    }

    /// Whether anybody has to be told when a grant ends because its lease is over: a waiter, or a holder that gets messages.
    pub fn is_watched(&self) -> bool {
        !self.queue.is_empty() || self.grants.counts().listeners > 0
    }

    pub fn waiters(&self) -> usize {
        self.queue.len()
    }

    /// Returns the first waiter. The waiters for an upgrade come before all others.
    pub(super) fn head(&self) -> Option<RequestId> {
        let first = |upgrader: &Upgrader| upgrader.requests.first().copied();
        self.upgrader.as_deref().and_then(first).or_else(|| self.queue.head())
    }

    /// Returns all waiters, in the order in which they are served.
    pub(super) fn in_order(&self) -> impl Iterator<Item = RequestId> {
        let first = self.upgrader.as_deref().map(|upgrader| &upgrader.requests);
        let is_first = move |request: &RequestId| first.is_some_and(|first| first.contains(request));
        first
            .into_iter()
            .flatten()
            .copied()
            .chain(self.queue.iter().filter(move |request| !is_first(request)))
    }

    /// Returns the fence of the grant whose holder waits for an upgrade.
    pub(crate) fn upgrader(&self) -> Option<Fence> {
        self.upgrader.as_ref().map(|upgrader| upgrader.fence)
    }

    /// Puts a waiter for an upgrade of the grant with this fence ahead of the queue, until the waiter is served, or the grant has ended.
    pub(crate) fn upgrade_first(&mut self, fence: Fence, request: RequestId) {
        match &mut self.upgrader {
            Some(upgrader) if upgrader.fence == fence => _ = upgrader.requests.insert(request),
            other => *other = Some(Box::new(Upgrader { fence, requests: BTreeSet::from([request]) })),
        }
    }

    /// Ends the upgrade: no waiter goes ahead of the queue any more, and all are served in order of arrival.
    pub(crate) fn end_upgrade(&mut self) {
        self.upgrader = None;
    }

    /// Makes the next step on the lock compare all that the module knows of the lock with the lock's key.
    pub(crate) fn recheck_next(&mut self) {
        self.recheck = true;
    }

    /// Returns the parts of the lock that have to be settled (brought up to date). Clears `recheck`, so the caller has to settle these
    /// parts. `renewal` says whether the renewal of a session is due.
    pub(super) fn take_up(&mut self, renewal: bool) -> Unsettled {
        let (recheck, counts) = (std::mem::take(&mut self.recheck), self.grants.counts());
        Unsettled {
            expired: counts.expired > 0,
            undeliverable: counts.undeliverable > 0,
            session: counts.sessions > 0,
            sessions: recheck || renewal,
            watched: counts.listeners > 0,
            records: recheck || self.grants.len() == 1,
            recheck,
        }
    }

    /// Takes a waiter out of the queue. If the queue is then empty, notes that holders have to be told again when the next waiter comes.
    pub(super) fn leave(&mut self, request: RequestId, owner: &Owner<'static>) {
        self.queue.leave(request, owner);
        self.withdraw_upgrade(request);
        if self.queue.is_empty() && self.grants.counts().listeners > 0 {
            self.grants.change_all(|record| {
                record.listener.iter_mut().for_each(|listener| listener.told = false);
            });
        }
    }

    /// Notes that holders have to be told that somebody waits, unless this is already noted, nobody waits, or no holder is left to be told.
    /// Returns whether this call has noted it.
    pub(super) fn want(&mut self) -> bool {
        let tell = !self.wanted && !self.queue.is_empty() && self.grants.counts().uninformed > 0;
        self.wanted |= tell;
        tell
    }

    /// Returns the message that tells the next holder that somebody waits; `None` if the queue is empty by now, or no holder is left to be
    /// told. If `wanted` is still set afterwards, more holders have to be told.
    pub(super) fn next_wanted(&mut self) -> Option<Message> {
        self.wanted = false;
        if self.queue.is_empty() {
            return None;
        }
        let message = self.grants.inform_next()?;
        self.wanted = self.grants.counts().uninformed > 0;
        Some(message)
    }

    /// Whether a place may re-enter a grant that its owner already has. Returns `false`, and sets `put_off`, if the places that still have
    /// to claim a grant of this lock asked for `most` locks or more in all. The limit exists because one claim has to handle all places of
    /// an owner. The module tries the place again when other places have claimed grants of this lock, or given them up.
    pub(crate) fn may_be_given(&mut self, most: u32) -> bool {
        let full = self.unclaimed_locks >= most;
        self.put_off |= full;
        !full
    }

    /// Ends a waiter's privilege to go ahead of the queue, if the waiter has this privilege.
    pub(super) fn withdraw_upgrade(&mut self, request: RequestId) {
        if let Some(upgrader) = &mut self.upgrader {
            upgrader.requests.remove(&request);
        }
        self.upgrader.take_if(|upgrader| upgrader.requests.is_empty());
    }

    /// Notes a hold that a waiter has been given, but has not been told of, or has not claimed.
    pub(super) fn add_pending(&mut self, fence: Fence, hold: PendingHold) {
        if hold.to_claim {
            self.unclaimed_locks += hold.locks;
        }
        self.grants.open(fence, |record| record.pending.add(hold));
    }

    /// Removes the pending hold of a waiter that has been told of this hold, or has claimed it.
    pub(super) fn remove_pending(&mut self, fence: Fence, request: RequestId) -> Option<PendingHold> {
        let hold = self.grants.change(fence, |record| record.pending.remove(request)).flatten()?;
        self.pending_removed(&hold);
        Some(hold)
    }

    /// Removes the pending hold of a waiter that is gone. The hold has to be taken back, unless another waiter shares it.
    pub(super) fn lose_pending(&mut self, fence: Fence, request: RequestId) {
        let hold = self.grants.change(fence, |record| record.lose_pending(request)).flatten();
        hold.iter().for_each(|hold| self.pending_removed(hold));
    }

    /// Removes and returns the record of a grant that has ended.
    pub(super) fn end_grant(&mut self, fence: Fence) -> Option<GrantRecord> {
        self.upgrader.take_if(|upgrader| upgrader.fence == fence);
        let record = self.grants.end(fence)?;
        record.pending.iter().for_each(|hold| self.pending_removed(hold));
        Some(record)
    }

    /// Corrects `unclaimed_locks` for a hold that was claimed or given up, or whose grant has ended. If `may_be_given` has put off a
    /// re-entry, notes that the module has to try the re-entry again.
    fn pending_removed(&mut self, hold: &PendingHold) {
        if hold.to_claim {
            self.unclaimed_locks -= hold.locks;
            self.recheck |= std::mem::take(&mut self.put_off);
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl LockEntry {
    /// Checks that the counts agree with the records.
    pub(super) fn check(&self) {
        assert!(!self.is_over());
        self.queue.check();
        self.grants.check();
        let in_front = self.upgrader.iter().flat_map(|upgrader| &upgrader.requests);
        assert!(in_front.into_iter().all(|request| self.queue.iter().any(|other| other == *request)));
        let pending = self.grants.iter().flat_map(|record| record.pending.iter());
        let unclaimed: u32 = pending.filter(|hold| hold.to_claim).map(|hold| hold.locks).sum();
        assert_eq!(unclaimed, self.unclaimed_locks);
    }
}

/// Each lock with waiters or a session has an entry. For more than 256 bytes, allocators use blocks of 320 bytes.
const _: () = assert!(size_of::<LockEntry>() <= 256);
