//! The grants, extensions and renewals that replicas have to confirm.
//!
//! A change is confirmed once enough replicas have acknowledged the replication stream up to the offset of the change. The module learns
//! this offset only after the step, and then asks the replicas how much of the stream they have.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use super::lock_id::LockId;
use super::queue::RequestId;
use crate::lock::{Deadline, Fence, Millis};

/// An offset in the replication stream, in bytes.
pub(crate) type Offset = i64;

/// How many replicas have to confirm a change, and within how many ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Confirm {
    pub replicas: NonZeroU32,
    pub within: u32,
}

/// A change that replicas have to confirm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Awaited {
    /// The answer to a blocked client.
    Answer(RequestId),
    /// A lease that a session has renewed.
    Renewal(LockId, Fence),
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
struct Quorum {
    replicas: NonZeroU32,
    /// The offset that replicas have to reach; `None` until the replicas have been asked.
    offset: Option<Offset>,
}

impl Quorum {
    fn target(self) -> Target {
        Some((self.replicas, self.offset?))
    }
}

/// How many replicas have to confirm a change, and its offset. `None`, which comes first in the order, says that the replicas have not been
/// asked about this change yet.
type Target = Option<(NonZeroU32, Offset)>;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub struct Replication {
    pending: BTreeMap<Awaited, Quorum>,
    by_target: BTreeSet<(Target, Awaited)>,
    /// Whether a question to the replicas is open. The next question covers the changes that are made meanwhile.
    question: bool,
}

/// A change of a lease's end.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Moved {
    pub(crate) from: Deadline,
    pub(crate) to: Deadline,
}

impl Confirm {
    /// Returns when it is too late to confirm a change, in ms since 1970: when `within` is over, or in the last millisecond of the lease as
    /// it was before the change. `lease` is the end of that lease.
    pub(crate) fn too_late(self, lease: Deadline, now: Millis) -> Millis {
        let by = now.saturating_add(self.within.into()).saturating_add(1);
        match lease {
            Deadline::At(last) => by.min(last),
            Deadline::Never => by,
        }
    }
}

impl Replication {
    pub(crate) const fn new() -> Self {
        Self { pending: BTreeMap::new(), by_target: BTreeSet::new(), question: false }
    }

    /// Whether replicas have nothing to confirm.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the requests whose answers replicas have to confirm.
    pub(crate) fn answers(&self) -> impl Iterator<Item = RequestId> {
        self.pending.keys().filter_map(|awaited| match awaited {
            Awaited::Answer(request) => Some(*request),
            Awaited::Renewal(..) => None,
        })
    }

    /// Returns the number of answers and renewals that replicas have to confirm.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether the module has to ask the replicas now.
    pub fn is_to_ask(&self) -> bool {
        !self.question && self.by_target.first().is_some_and(|(target, _)| target.is_none())
    }

    /// Notes that the module has asked the replicas. All changes so far are before this offset.
    pub(crate) fn asked(&mut self, offset: Offset) {
        self.question = true;
        while let Some((None, awaited)) = self.by_target.first() {
            let (awaited, pending) = (awaited.clone(), self.pending.get(awaited).copied());
            debug_assert!(pending.is_some(), "{awaited:?}");
            let Some(Quorum { replicas, .. }) = pending else { break };
            self.write(&awaited, Some(Quorum { replicas, offset: Some(offset) }));
        }
    }

    /// Notes that a replica has answered, or that the module no longer waits for an answer.
    pub(crate) fn heard(&mut self) {
        self.question = false;
    }

    /// Writes a pending change, or removes it, also in the index. No other code does this.
    fn write(&mut self, awaited: &Awaited, pending: Option<Quorum>) {
        let earlier = match pending {
            Some(pending) => self.pending.insert(awaited.clone(), pending),
            None => self.pending.remove(awaited),
        };
        let (from, to) = (earlier.map(Quorum::target), pending.map(Quorum::target));
        if from != to {
            from.map(|target| self.by_target.remove(&(target, awaited.clone())));
            to.map(|target| self.by_target.insert((target, awaited.clone())));
        }
    }

    /// From now on, so many replicas have to confirm a change.
    #[cold]
    pub(crate) fn add(&mut self, awaited: Awaited, replicas: NonZeroU32) {
        self.write(&awaited, Some(Quorum { replicas, offset: None }));
    }

    /// A change has been confirmed, or does not have to be any more.
    #[cold]
    pub(crate) fn remove(&mut self, awaited: &Awaited) {
        self.write(awaited, None);
    }

    /// Returns a change that enough replicas have confirmed. `acks` has the offset that each replica has acknowledged, the highest offset
    /// first.
    pub(crate) fn next_confirmed(&self, acks: &[Offset]) -> Option<&Awaited> {
        let mut replicas = NonZeroU32::MIN;
        loop {
            // Among changes that need the same number of replicas, only the first in the stream has to be checked.
            let from = (Some((replicas, Offset::MIN)), Awaited::Answer(RequestId::MIN));
            let (target, awaited) = self.by_target.range(from..).next()?;
            let (needed, offset) = (*target)?;
            let last = (needed.get() - 1) as usize;
            // A replica that has not reported anything yet is at 0.
            if acks.get(last).is_some_and(|ack| *ack > 0 && *ack >= offset) {
                return Some(awaited);
            }
            replicas = needed.checked_add(1)?;
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl Replication {
    /// Returns all changes that replicas have to confirm.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = &Awaited> {
        self.pending.keys()
    }
}

#[cfg(test)]
impl Replication {
    fn change_all(&mut self, change: impl Fn(Awaited, Option<Offset>) -> (Awaited, Option<Offset>)) {
        let earlier = std::mem::replace(self, Self { question: self.question, ..Self::new() });
        for (awaited, Quorum { replicas, offset }) in earlier.pending {
            let (awaited, offset) = change(awaited, offset);
            self.write(&awaited, Some(Quorum { replicas, offset }));
        }
    }

    pub(crate) fn renumber_requests(&mut self, requests: &BTreeMap<RequestId, RequestId>) {
        self.change_all(|awaited, offset| match awaited {
            Awaited::Answer(old) => (Awaited::Answer(requests[&old]), offset),
            renewal @ Awaited::Renewal(..) => (renewal, offset),
        });
    }

    /// Subtracts `by` from all offsets. Results below 1 become 1, and results above `most` become `most`.
    pub(crate) fn shift_offsets(&mut self, by: Offset, most: Offset) {
        self.change_all(|awaited, offset| (awaited, offset.map(|offset| (offset - by).clamp(1, most))));
    }
}
