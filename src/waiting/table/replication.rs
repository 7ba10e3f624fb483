//! The grants, extensions and renewals that replicas are to confirm.
//!
//! A change is confirmed once enough replicas have come to its offset in the stream of replication. The offset is known only when the step
//! is over. Then the replicas are asked how far they are.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::index::Index;
use super::lock_id::LockId;
use super::queue::RequestId;
use crate::lock::{Deadline, Fence, Millis};

/// An offset in the stream of replication, in bytes.
pub(crate) type Offset = i64;

/// How many replicas are to confirm a change, and for how long, in ms, the client waits for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Confirm {
    pub(crate) replicas: NonZeroU32,
    pub(crate) within: u32,
}

/// A change that replicas are to confirm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub(super) enum Awaited {
    /// The answer to a blocked client.
    Answer(RequestId),
    /// A lease that a session has renewed.
    Renewal(LockId, Fence),
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
struct Pending {
    replicas: NonZeroU32,
    /// The offset that replicas have to reach; `None` until the replicas have been asked.
    offset: Option<Offset>,
}

impl Pending {
    fn target(self) -> Target {
        Some((self.replicas, self.offset?))
    }
}

/// How many replicas have to confirm a change, and its offset; `None`, which comes first: replicas have not been asked about it yet.
type Target = Option<(NonZeroU32, Offset)>;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Replication {
    pending: BTreeMap<Awaited, Pending>,
    by_target: Index<Target, Awaited>,
    /// A question to the replicas is open. Changes that come meanwhile are covered by the next question.
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
    /// When it is too late to confirm a change: when `within` is over, or in the last millisecond of `lease`, which is the lease without
    /// the change.
    pub(super) fn ends(self, lease: Deadline, now: Millis) -> Millis {
        let by = now.saturating_add(self.within.into()).saturating_add(1);
        match lease {
            Deadline::At(last) => by.min(last),
            Deadline::Never => by,
        }
    }
}

impl Replication {
    pub(super) const fn new() -> Self {
        Self { pending: BTreeMap::new(), by_target: Index::new(), question: false }
    }

    /// Whether replicas have nothing to confirm.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The number of answers and renewals that replicas are to confirm.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether replicas are to be asked now.
    pub(crate) fn is_to_ask(&self) -> bool {
        !self.question && self.by_target.first().is_some_and(|(target, _)| target.is_none())
    }

    /// Notes that replicas have been asked. All changes so far are before this offset.
    pub(crate) fn asked(&mut self, offset: Offset) {
        self.question = true;
        while let Some((None, awaited)) = self.by_target.first() {
            let (awaited, pending) = (awaited.clone(), self.pending.get(awaited).copied());
            debug_assert!(pending.is_some(), "{awaited:?}");
            let Some(Pending { replicas, .. }) = pending else { break };
            self.write(&awaited, Some(Pending { replicas, offset: Some(offset) }));
        }
    }

    /// Notes that a replica has answered, or that the question is not waited for any longer.
    pub(crate) fn heard(&mut self) {
        self.question = false;
    }

    /// Writes what is pending, with the index. No other code does so.
    fn write(&mut self, awaited: &Awaited, pending: Option<Pending>) {
        let earlier = match pending {
            Some(pending) => self.pending.insert(awaited.clone(), pending),
            None => self.pending.remove(awaited),
        };
        self.by_target.set(awaited, earlier.map(Pending::target), pending.map(Pending::target));
    }

    /// Sets how many replicas are to confirm a change; `None`: the change need not be confirmed.
    #[inline(always)]
    pub(super) fn set(
        &mut self,
        awaited: impl FnOnce() -> Awaited,
        from: Option<NonZeroU32>,
        to: Option<NonZeroU32>,
    ) {
        // On most servers, there is never anything to confirm.
        if from != to {
            self.write(&awaited(), to.map(|replicas| Pending { replicas, offset: None }));
        }
    }

    /// A change that enough replicas have confirmed. `acks`: how far each replica is, the farthest first.
    pub(super) fn confirmed(&self, acks: &[Offset]) -> Option<&Awaited> {
        let mut replicas = NonZeroU32::MIN;
        loop {
            // For each number of replicas, only the change that comes first in the stream has to be checked.
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
    pub(super) fn check(&self, indexed: &Self) {
        let replicas = |all: &Self| -> BTreeMap<Awaited, NonZeroU32> {
            all.pending.iter().map(|(awaited, pending)| (awaited.clone(), pending.replicas)).collect()
        };
        assert_eq!(replicas(self), replicas(indexed));
        let mut again = Self::new();
        self.pending.iter().for_each(|(awaited, pending)| again.write(awaited, Some(*pending)));
        assert_eq!(again.by_target, self.by_target);
    }
}

#[cfg(test)]
impl Replication {
    fn change_all(&mut self, change: impl Fn(Awaited, Option<Offset>) -> (Awaited, Option<Offset>)) {
        let earlier = std::mem::replace(self, Self { question: self.question, ..Self::new() });
        for (awaited, Pending { replicas, offset }) in earlier.pending {
            let (awaited, offset) = change(awaited, offset);
            self.write(&awaited, Some(Pending { replicas, offset }));
        }
    }

    pub(super) fn renumber_requests(&mut self, requests: &BTreeMap<RequestId, RequestId>) {
        self.change_all(|awaited, offset| match awaited {
            Awaited::Answer(old) => (Awaited::Answer(requests[&old]), offset),
            renewal @ Awaited::Renewal(..) => (renewal, offset),
        });
    }

    /// Makes offsets relative to `by`. Offsets before it become equal, and so do those from `most` on.
    pub(super) fn shift_offsets(&mut self, by: Offset, most: Offset) {
        self.change_all(|awaited, offset| (awaited, offset.map(|offset| (offset - by).clamp(1, most))));
    }
}
