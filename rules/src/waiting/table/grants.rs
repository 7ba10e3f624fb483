//! The records of one lock's grants.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::grant_record::{Counts, Expired, GrantRecord, Synced};
use super::outgoing::{Message, MessageKind};
use super::pending::PendingHold;
use super::queue::RequestId;
use super::waiter::Session;
use crate::lock::{Fence, Millis};

/// The records of one lock's grants, in the order of fences. All code changes records through these methods, which keep the counts right,
/// and drop a record with nothing left.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct GrantRecords {
    records: VecDeque<GrantRecord>,
    counts: Counts,
    /// The grants whose sessions are marked as over, because their connections have closed, and which the module has not ended yet.
    over: BTreeSet<Fence>,
}

impl GrantRecords {
    pub(super) const fn new() -> Self {
        let counts = Counts { undeliverable: 0, sessions: 0, listeners: 0, uninformed: 0, expired: 0 };
        Self { records: VecDeque::new(), counts, over: BTreeSet::new() }
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
        self.records.iter().inspect(|_| note_look())
    }

    pub(super) fn after(&self, seen: Option<Fence>) -> impl Iterator<Item = &GrantRecord> {
        let first = self.records.partition_point(|record| Some(record.fence) <= seen);
        self.records.range(first..).inspect(|_| note_look())
    }

    pub(super) fn session(&self, fence: Fence) -> Option<&Session> {
        if self.counts.sessions == 0 {
            return None;
        }
        self.get(fence)?.session.as_ref()
    }

    pub(super) fn address(&self, fence: Fence) -> Option<&Arc<[u8]>> {
        Some(&self.get(fence)?.listener.as_ref()?.channel.address)
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> {
        let records = if self.counts.sessions == 0 { 0 } else { self.records.len() };
        self.iter().take(records).filter_map(|record| record.session.as_ref())
    }

    /// Returns the grants after the fence `seen` whose sessions are marked as over.
    pub(super) fn over_after(&self, seen: Option<Fence>) -> impl Iterator<Item = Fence> {
        let after = seen.map_or(Bound::Unbounded, Bound::Excluded);
        self.over.range((after, Bound::Unbounded)).copied()
    }

    /// Returns the message to the first holder that knows of its grant, but has not been told that somebody waits. The holder then counts
    /// as told.
    pub(super) fn inform_next(&mut self) -> Option<Message> {
        if self.counts.uninformed == 0 {
            return None;
        }
        let number = self.records.iter().position(|record| record.counts().uninformed > 0)?;
        let inform = |record: &mut GrantRecord| {
            let listener = record.listener.as_deref_mut()?;
            listener.told = true;
            let (channel, owner) = (listener.channel.clone(), listener.owner.clone());
            Some(Message { channel, kind: MessageKind::Wanted(record.fence), owner })
        };
        self.change_at(number, inform).flatten()
    }

    /// Returns the first grant with holds that have to be taken back.
    pub(super) fn first_undeliverable(&self) -> Option<Fence> {
        if self.counts.undeliverable == 0 {
            return None;
        }
        self.records.iter().find(|record| record.undeliverable > 0).map(|record| record.fence)
    }

    /// Returns the pending holds of this grant, in order of arrival.
    pub(super) fn pending(&self, fence: Fence) -> impl Iterator<Item = &PendingHold> {
        self.get(fence).into_iter().flat_map(|record| record.pending.iter())
    }

    /// Returns the pending holds of this grant whose clients are blocked, in order of arrival. Each of these clients may have gone away
    /// unnoticed.
    pub(super) fn given(&self, fence: Fence) -> impl Iterator<Item = &PendingHold> {
        self.pending(fence).filter(|hold| !hold.to_claim)
    }

    /// Returns the places that have been given this grant and have not claimed it, in order of arrival.
    pub(super) fn unclaimed(&self, fence: Fence) -> impl Iterator<Item = RequestId> {
        self.pending(fence).filter(|hold| hold.to_claim).map(|hold| hold.request)
    }

    pub(super) fn hold(&self, fence: Fence, request: RequestId) -> Option<&PendingHold> {
        self.get(fence)?.pending.get(request)
    }

    /// Notes that a waiter is told of this grant. Returns whether the waiter's connection has to keep the grant alive. If this connection
    /// already keeps the grant alive, its session goes on even if the waiter turns out to be gone.
    pub(super) fn bind(&mut self, fence: Fence, request: RequestId, client: u64) -> bool {
        let goes_on = self.session(fence).is_none_or(|session| session.client != client);
        let bind = |record: &mut GrantRecord| {
            let binds = record.pending.get(request).is_some_and(|hold| hold.binds);
            record.pending.set_binds(request, binds && goes_on);
            binds
        };
        self.change(fence, bind).unwrap_or_default()
    }

    /// Returns how far replicas have confirmed the renewals of this grant's session; `None` if replicas need not confirm them.
    pub(super) fn synced(&self, fence: Fence) -> Option<&Synced> {
        self.get(fence)?.synced.as_deref()
    }

    /// Takes the grants that the module kept after the ends of their leases, because their sessions may outlive a freeze of this server.
    pub(super) fn take_expired(&mut self) -> Vec<Expired> {
        let mut all = Vec::new();
        if self.counts.expired > 0 {
            self.change_all(|record| all.extend(record.expired.take().map(|expired| *expired)));
        }
        all
    }

    /// Notes the change with this number to the lock's key. Grants that `Locks::keep_expired` kept before this change will not be restored.
    pub(super) fn touched_by(&mut self, number: u64) {
        if self.counts.expired > 0 {
            self.change_all(|record| {
                let earlier = record.expired.iter_mut().filter(|expired| expired.kept_at < number);
                earlier.for_each(|expired| expired.for_good = true);
            });
        }
    }

    /// Returns the grants that the module keeps after the ends of their leases, because their sessions may outlive a freeze of this server.
    pub(super) fn expired(&self) -> impl Iterator<Item = &Expired> {
        let records = if self.counts.expired > 0 { self.len() } else { 0 };
        self.iter().take(records).filter_map(|record| record.expired.as_deref())
    }

    /// Notes that the grant's holder, if it gets messages about the grant, knows of the grant.
    pub(super) fn listener_knows(&mut self, fence: Fence) {
        self.change(fence, |record| {
            record.listener.iter_mut().for_each(|listener| listener.claimed = true);
        });
    }

    /// Returns when the next session has to renew its lease, or when the next unconfirmed renewal has to be undone.
    pub(super) fn next_renewal(&self) -> Option<Millis> {
        let sessions = self.sessions().map(|session| session.renew_at);
        let records = if self.counts.sessions == 0 { 0 } else { self.records.len() };
        let synced = self.iter().take(records).filter_map(|record| record.synced.as_deref());
        sessions.chain(synced.filter_map(|synced| Some(synced.unconfirmed?.1))).min()
    }

    /// Changes the record of a grant, if there is one.
    pub(super) fn change<R>(&mut self, fence: Fence, body: impl FnOnce(&mut GrantRecord) -> R) -> Option<R> {
        let number = self.position(fence).ok()?;
        self.change_at(number, body)
    }

    /// Changes the record of a grant. Makes the record if there is none.
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
        let was_over = record.has_session_over();
        self.counts.remove(record.counts());
        let result = body(record);
        self.counts.add(record.counts());
        match (was_over, record.has_session_over()) {
            (false, true) => _ = self.over.insert(record.fence),
            (true, false) => _ = self.over.remove(&record.fence),
            _ => (),
        }
        if record.is_over() {
            self.records.remove(number);
        }
        Some(result)
    }

    /// Removes and returns the record of a grant that has ended. Only `expired` stays in the table: the copy from which the module can
    /// restore the grant.
    pub(super) fn end(&mut self, fence: Fence) -> Option<GrantRecord> {
        self.change(fence, |record| {
            let expired = record.expired.take();
            std::mem::replace(record, GrantRecord { expired, ..GrantRecord::new(fence) })
        })
    }

    pub(super) fn change_all(&mut self, mut body: impl FnMut(&mut GrantRecord)) {
        self.records.iter_mut().for_each(&mut body);
        self.records.retain(|record| !record.is_over());
        self.counts = Counts::default();
        for record in &self.records {
            self.counts.add(record.counts());
        }
        self.over = self.find_over().collect();
    }

    fn find_over(&self) -> impl Iterator<Item = Fence> {
        self.records.iter().filter(|record| record.has_session_over()).map(|record| record.fence)
    }
}

/// Counts, for tests, the records that `iter` and `after` visit.
#[inline(always)]
fn note_look() {
    #[cfg(test)]
    LOOKS.with(|looks| looks.set(looks.get() + 1));
}

#[cfg(test)]
thread_local! {
    /// How many records `iter` and `after` have visited.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(any(test, debug_assertions))]
impl GrantRecords {
    /// Checks that the counts agree with the records, and that the records are in order, and none is empty.
    pub(super) fn check(&self) {
        let mut counts = Counts::default();
        self.records.iter().for_each(|record| counts.add(record.counts()));
        assert_eq!(counts, self.counts);
        assert!(self.find_over().eq(self.over.iter().copied()));
        assert!(self.records.iter().is_sorted_by(|one, next| one.fence < next.fence));
        for record in &self.records {
            assert!(!record.is_over(), "{record:?}");
            assert!(record.synced.is_none() || record.session.is_some(), "{record:?}");
            record.pending.check();
        }
    }
}
