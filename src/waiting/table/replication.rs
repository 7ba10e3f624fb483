//! The grants, extensions and renewals that replicas are to confirm.
//!
//! A change stands in the stream of replication, so an offset in that stream stands for it. The offset is known only when the step
//! is over. Then the replicas are asked how far they are; a change is confirmed once enough of them have come to its offset.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::lock_id::LockId;
use super::queue::RequestId;
use crate::lock::{Deadline, Fence, Millis};

/// A place in the stream of what replicas are sent, in bytes.
pub(crate) type Offset = i64;

/// How many replicas are to have a change, and for how long, in ms, that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Confirm {
    pub(crate) replicas: NonZeroU32,
    pub(crate) within: u32,
}

/// What replicas are to confirm.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) enum What {
    /// The answer of a client that is blocked.
    Answer,
    /// A lease that a session has set anew.
    Renewal { id: LockId, fence: Fence, moved: Moved },
}

#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Pending {
    pub(super) replicas: NonZeroU32,
    /// None: the replicas are still to be asked.
    pub(super) offset: Option<Offset>,
    pub(super) what: What,
    /// When it comes to its end without.
    pub(super) ends: Millis,
}

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Replication {
    pub(super) pending: BTreeMap<RequestId, Pending>,
    /// Those for which the replicas are still to be asked.
    pub(super) unasked: BTreeSet<RequestId>,
    /// The others: by the number of replicas, and the offset that they are to come to.
    pub(super) asked: BTreeSet<(NonZeroU32, Offset, RequestId)>,
    /// A question is on its way: those who come meanwhile share the next one.
    pub(super) question: bool,
}

/// A lease ended at one time, and ends at another now.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Moved {
    pub(crate) from: Deadline,
    pub(crate) to: Deadline,
}

impl Replication {
    pub(super) const fn new() -> Self {
        Self { pending: BTreeMap::new(), unasked: BTreeSet::new(), asked: BTreeSet::new(), question: false }
    }

    /// Whether replicas have nothing to confirm.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// How many answers and renewals replicas are to confirm.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether replicas are to be asked now.
    pub(crate) fn is_to_ask(&self) -> bool {
        !self.unasked.is_empty() && !self.question
    }

    /// Replicas are asked: what has changed so far is in front of that offset.
    pub(crate) fn asked(&mut self, offset: Offset) {
        self.question = true;
        for request in std::mem::take(&mut self.unasked) {
            let Some(pending) = self.pending.get_mut(&request) else { continue };
            pending.offset = Some(offset);
            self.asked.insert((pending.replicas, offset, request));
        }
    }

    /// A replica has answered, or none does.
    pub(crate) fn heard(&mut self) {
        self.question = false;
    }

    pub(super) fn add(&mut self, request: RequestId, pending: Pending) {
        self.unasked.insert(request);
        self.pending.insert(request, pending);
    }

    pub(super) fn remove(&mut self, request: RequestId) -> Option<Pending> {
        let pending = self.pending.remove(&request)?;
        match pending.offset {
            None => _ = self.unasked.remove(&request),
            Some(offset) => _ = self.asked.remove(&(pending.replicas, offset, request)),
        }
        Some(pending)
    }

    /// One that enough replicas have. `acks`: how far each is, the one that is farthest first.
    pub(super) fn confirmed(&self, acks: &[Offset]) -> Option<RequestId> {
        let mut from = (NonZeroU32::MIN, Offset::MIN, RequestId::MIN);
        // For each number of replicas, the one that comes first in the stream.
        while let Some(&(replicas, offset, request)) = self.asked.range(from..).next() {
            let last = (replicas.get() - 1) as usize;
            // One that has not said anything yet stands at 0.
            if acks.get(last).is_some_and(|&ack| ack > 0 && ack >= offset) {
                return Some(request);
            }
            from = (replicas.checked_add(1)?, Offset::MIN, RequestId::MIN);
        }
        None
    }
}

/// When it is too late to confirm something: when its time is up, or in the last millisecond of the lease that there is without it.
pub(super) fn confirmed_by(within: u32, lease: Deadline, now: Millis) -> Millis {
    let by = now.saturating_add(within.into()).saturating_add(1);
    match lease {
        Deadline::At(last) => by.min(last),
        Deadline::Never => by,
    }
}

#[cfg(any(test, debug_assertions))]
impl Replication {
    /// All that is pending is in one of the two indexes.
    pub(super) fn check(&self) {
        let (asked, unasked): (Vec<_>, Vec<_>) =
            self.pending.iter().partition(|(_, pending)| pending.offset.is_some());
        assert!(unasked.into_iter().map(|(request, _)| request).eq(&self.unasked));
        let asked = asked.into_iter();
        let asked: BTreeSet<_> = asked
            .filter_map(|(request, pending)| Some((pending.replicas, pending.offset?, *request)))
            .collect();
        assert_eq!(asked, self.asked);
    }
}

#[cfg(test)]
impl Replication {
    pub(super) fn renumber_requests(&mut self, requests: &BTreeMap<RequestId, RequestId>) {
        self.pending = std::mem::take(&mut self.pending)
            .into_iter()
            .map(|(old, pending)| (requests[&old], pending))
            .collect();
        self.unasked = self.unasked.iter().map(|old| requests[old]).collect();
        self.asked = self.asked.iter().map(|(count, offset, old)| (*count, *offset, requests[old])).collect();
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = RequestId> {
        self.pending.keys().copied()
    }

    /// Counts offsets from another one on; those before it are alike, and so are those from `most` on.
    pub(super) fn shift_offsets(&mut self, by: Offset, most: Offset) {
        let shift = |offset: Offset| (offset - by).clamp(1, most);
        for pending in self.pending.values_mut() {
            pending.offset = pending.offset.map(shift);
        }
        self.asked = self.asked.iter().map(|(count, offset, old)| (*count, shift(*offset), *old)).collect();
    }
}
