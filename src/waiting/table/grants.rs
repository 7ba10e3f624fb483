//! Records of the grants of one lock, for all that its key does not hold: who has not been told yet, who keeps a grant alive, who hears
//! what becomes of it.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::queue::RequestId;
use super::replication::{Confirm, Moved};
use super::untold::{UntoldHold, UntoldHolds};
use super::waiter::{Channel, Session};
use crate::lock::{Fence, Grant, Owner};

/// One grant, and all that its key does not say of it. There is a record for each grant that somebody is yet to be told of, that a
/// connection keeps alive, or whose holder hears what becomes of it.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct GrantRecord {
    /// Grants are told apart by their fences: on one lock no two have the same.
    pub(super) fence: Fence,
    pub(super) untold: UntoldHolds,
    /// Holds whose client went away before it was told: they are to be taken back.
    pub(super) undeliverable: u32,
    /// The connection that keeps the grant alive.
    pub(super) session: Option<Session>,
    /// That session goes on only as long as replicas confirm its renewals. A box, since that is rare.
    pub(super) synced: Option<Box<Synced>>,
    /// The holder, where it hears what becomes of the grant.
    pub(super) listener: Option<Box<Listener>>,
    /// The grant, where its lease ended while this server stood still, and its session may outlive that.
    pub(super) expired: Option<Box<Expired>>,
}

/// How far replicas have confirmed a session's renewals.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Synced {
    pub(super) confirm: Confirm,
    /// Under this number a renewal is to be confirmed.
    pub(super) pending: Option<RequestId>,
    /// A renewal that was not confirmed in time, and is to be undone.
    pub(super) failed: Option<Moved>,
}

/// A holder that hears what becomes of its grant.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Listener {
    pub(super) owner: Owner<'static>,
    pub(super) channel: Channel,
    /// It knows that it has the lock.
    pub(super) claimed: bool,
    /// It has been told of the queue behind it.
    pub(super) told: bool,
}

/// A grant that the server has deleted with its key, since its lease was over.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Expired {
    pub(crate) grant: Grant,
    /// Something has been done to the key since: the grant is not given back.
    pub(crate) for_good: bool,
    /// How much had happened to keys when the grant was kept.
    pub(super) kept_at: u64,
}

/// How many records there are with something to be looked for, so that nobody looks where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(super) struct Counts {
    pub(super) undeliverable: u32,
    pub(super) sessions: u32,
    pub(super) listeners: u32,
    /// Listeners that know of their grant, and not of the queue behind it, of which they want to hear.
    pub(super) uninformed: u32,
    pub(super) expired: u32,
}

/// The records of one lock, by fence. Whatever changes one goes through here: so the counts are right, and a record of which nothing is
/// left is dropped.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct GrantRecords {
    records: VecDeque<GrantRecord>,
    counts: Counts,
}

impl GrantRecord {
    fn new(fence: Fence) -> Self {
        Self {
            fence,
            untold: UntoldHolds::default(),
            undeliverable: 0,
            session: None,
            synced: None,
            listener: None,
            expired: None,
        }
    }

    fn is_over(&self) -> bool {
        self.untold.is_empty()
            && self.undeliverable == 0
            && self.session.is_none()
            && self.listener.is_none()
            && self.expired.is_none()
    }

    /// A waiter is gone that was yet to be told of a hold, or to claim it: it is to be taken back, unless another has it now.
    pub(super) fn lose_untold(&mut self, request: RequestId) -> Option<UntoldHold> {
        let hold = self.untold.remove(request)?;
        self.undeliverable += u32::from(hold.own && !self.untold.transfer(&hold));
        Some(hold)
    }

    fn counts(&self) -> Counts {
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
    fn add(&mut self, other: Self) {
        self.undeliverable += other.undeliverable;
        self.sessions += other.sessions;
        self.listeners += other.listeners;
        self.uninformed += other.uninformed;
        self.expired += other.expired;
    }

    fn remove(&mut self, other: Self) {
        self.undeliverable -= other.undeliverable;
        self.sessions -= other.sessions;
        self.listeners -= other.listeners;
        self.uninformed -= other.uninformed;
        self.expired -= other.expired;
    }
}

impl GrantRecords {
    pub(super) const fn new() -> Self {
        let counts = Counts { undeliverable: 0, sessions: 0, listeners: 0, uninformed: 0, expired: 0 };
        Self { records: VecDeque::new(), counts }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    fn position(&self, fence: Fence) -> Result<usize, usize> {
        self.records.binary_search_by_key(&fence, |record| record.fence)
    }

    pub(super) fn get(&self, fence: Fence) -> Option<&GrantRecord> {
        self.records.get(self.position(fence).ok()?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &GrantRecord> {
        self.records.iter()
    }

    /// Those with later fences.
    pub(super) fn after(&self, seen: Option<Fence>) -> impl Iterator<Item = &GrantRecord> {
        let first = self.records.partition_point(|record| Some(record.fence) <= seen);
        self.records.range(first..)
    }

    /// The session of that grant.
    pub(super) fn session(&self, fence: Fence) -> Option<&Session> {
        if self.counts.sessions == 0 {
            return None;
        }
        self.get(fence)?.session.as_ref()
    }

    /// The sessions of all grants.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> {
        let records = if self.counts.sessions == 0 { 0 } else { self.records.len() };
        self.records.iter().take(records).filter_map(|record| record.session.as_ref())
    }

    /// The first grant whose holder knows of it, and not of the queue behind it.
    pub(super) fn first_uninformed(&self) -> Option<Fence> {
        if self.counts.uninformed == 0 {
            return None;
        }
        let is_uninformed = |record: &&GrantRecord| record.counts().uninformed > 0;
        self.records.iter().find(is_uninformed).map(|record| record.fence)
    }

    /// The first grant of which holds are to be taken back.
    pub(super) fn first_undeliverable(&self) -> Option<Fence> {
        if self.counts.undeliverable == 0 {
            return None;
        }
        self.records.iter().find(|record| record.undeliverable > 0).map(|record| record.fence)
    }

    /// Changes the record of a grant, where there is one.
    pub(super) fn change<R>(&mut self, fence: Fence, body: impl FnOnce(&mut GrantRecord) -> R) -> Option<R> {
        let number = self.position(fence).ok()?;
        self.change_at(number, body)
    }

    /// Changes the record of a grant, made where there is none.
    pub(super) fn open<R>(&mut self, fence: Fence, body: impl FnOnce(&mut GrantRecord) -> R) -> Option<R> {
        let number = match self.position(fence) {
            Ok(known) => known,
            Err(next) => {
                if self.records.is_empty() {
                    self.records.reserve_exact(1);
                }
                self.records.insert(next, GrantRecord::new(fence));
                next
            }
        };
        self.change_at(number, body)
    }

    fn change_at<R>(&mut self, number: usize, body: impl FnOnce(&mut GrantRecord) -> R) -> Option<R> {
        let record = self.records.get_mut(number)?;
        self.counts.remove(record.counts());
        let result = body(record);
        self.counts.add(record.counts());
        if record.is_over() {
            self.records.remove(number);
        }
        Some(result)
    }

    /// A grant has ended: what was known of it. One that may be given back is kept.
    pub(super) fn end(&mut self, fence: Fence) -> Option<GrantRecord> {
        self.change(fence, |record| {
            let expired = record.expired.take();
            std::mem::replace(record, GrantRecord { expired, ..GrantRecord::new(fence) })
        })
    }

    /// Changes all.
    pub(super) fn change_all(&mut self, mut body: impl FnMut(&mut GrantRecord)) {
        self.records.iter_mut().for_each(&mut body);
        self.records.retain(|record| !record.is_over());
        self.counts = Counts::default();
        for record in &self.records {
            self.counts.add(record.counts());
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl GrantRecords {
    /// The counts are those of the records, which stand in order, and none of which is over.
    pub(super) fn check(&self) {
        let mut counts = Counts::default();
        self.records.iter().for_each(|record| counts.add(record.counts()));
        assert_eq!(counts, self.counts);
        assert!(self.records.iter().is_sorted_by(|one, next| one.fence < next.fence));
        for record in &self.records {
            assert!(!record.is_over(), "{record:?}");
            assert!(record.synced.is_none() || record.session.is_some(), "{record:?}");
            record.untold.check();
        }
    }
}

#[cfg(test)]
impl GrantRecord {
    pub(super) fn renumber_requests(&mut self, requests: &BTreeMap<RequestId, RequestId>) {
        self.untold.renumber_requests(requests);
        if let Some(synced) = &mut self.synced {
            synced.pending = synced.pending.map(|old| requests[&old]);
        }
    }
}
