//! The grants of one lock, taken out of its key for one step, what is decided about a request for the lock (`Verdict`), and what the step
//! does with the grants.

use smallvec::SmallVec;

use crate::lock::{Deadline, Fence, Grant, GrantChange, Held, Millis, Others, Owner, Room, Slot, Value};

/// An event at a lock, to be counted or published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// A client got a new grant without waiting.
    Acquired,
    /// The lock went to a waiter.
    HandedOver,
    /// A wait of this many ms has ended in a grant.
    Waited(Millis),
    Reentered,
    /// An owner re-entered in such a way that its grant now allows fewer holders, or has got its first slot (the number of a permit).
    Upgraded,
    /// A grant with room for several holders was made.
    Shared,
    /// An acquire got no grant, and was answered at once: with null or with an error.
    Refused,
    /// The owner has released its last hold.
    Released,
    /// The module took a grant back, because the client went away before it was told of the grant.
    TakenBack,
    /// A grant has ended because the connection of its session closed.
    SessionEnded,
    /// A grant has lapsed that was one of several grants of its lock, or whose last renewal replicas have not confirmed. (The server itself
    /// reports other lapses, as expired keys.)
    Lapsed,
    /// The module refused or ended a wait that would never have led to a grant.
    Deadlocked,
    Broken,
    Extended,
}

/// What a step does to the key, and its events, in order. The server does this when the step is over and the table is given back, because
/// writing a key may call other modules, and these may call this one. A grant's fence stands for the grant, as it is after the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This is the only grant.
    Alone(Fence),
    Among(Fence),
    /// The lease of the only grant has moved, and nothing else has changed.
    Lease(Fence),
    Ended(Fence),
    /// The grants whose leases ended before this time have ended.
    Lapsed(Millis),
    Free,
    Event(LockEvent),
    /// The lease of this grant, which was one of several, has ended. The number is that of the waiters.
    Lapse(Box<Grant>, usize),
}

/// The effects of a step. Those of a handover need no allocation.
pub type Effects = SmallVec<[Effect; 6]>;

/// What the key of a lock has.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub struct Grants {
    pub value: Option<Value>,
    /// The end of the lease that ends last.
    pub until: Deadline,
    /// The last grant, if the step has ended it. The key still has this value until it is deleted.
    pub ended: Option<Value>,
}

impl Grants {
    pub const fn new(value: Option<Value>, until: Deadline) -> Self {
        Self { value, until, ended: None }
    }

    pub(super) fn with_fence(&self, fence: Fence) -> Option<Held<'_>> {
        self.value.as_ref()?.with_fence(fence, || self.until)
    }

    pub(super) fn grant_of(&self, owner: &Owner<'_>) -> Option<&Grant> {
        self.value.as_ref()?.grant_of(owner)
    }

    pub(super) fn seen_by(&self, owner: &Owner<'_>) -> (Option<Held<'_>>, Others<'_>) {
        self.value.as_ref().map_or((None, Others::NONE), |value| value.seen_by(owner, || self.until))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Held<'_>> {
        self.value.iter().flat_map(|value| value.all(self.until))
    }

    pub(super) fn are_several(&self) -> bool {
        self.value.as_ref().is_some_and(|value| !value.is_one())
    }

    /// The end of the lease that ends first.
    pub(super) fn first_end(&self) -> Option<Deadline> {
        Some(self.value.as_ref()?.first_deadline(self.until))
    }

    pub(super) fn put(&mut self, grant: Grant, until: Deadline) -> Effect {
        let fence = grant.fence();
        match &mut self.value {
            None => {
                (self.value, self.until) = (Some(Value::One(grant)), until);
                Effect::Alone(fence)
            }
            Some(value) => {
                self.until = value.put(grant, until, self.until);
                Effect::Among(fence)
            }
        }
    }

    pub(super) fn update(
        &mut self,
        fence: Fence,
        change: GrantChange<'_>,
        until: Deadline,
    ) -> Option<Effect> {
        let held = self.with_fence(fence)?;
        let same = held.grant.is_already(change);
        if same && held.deadline == until {
            return None;
        }
        let value = self.value.as_mut()?;
        let effect = match value.is_one() {
            true if same => Effect::Lease(fence),
            true => Effect::Alone(fence),
            false => Effect::Among(fence),
        };
        self.until = value.update(fence, change, until, self.until);
        Some(effect)
    }

    /// Ends a grant. The end of the only grant has its effect when the step is over, unless another grant takes its place.
    pub(super) fn end(&mut self, fence: Fence) -> Option<Effect> {
        match self.value.as_mut()?.end(fence, self.until) {
            None => {
                self.ended = self.value.take();
                None
            }
            Some(until) => {
                self.until = until;
                Some(Effect::Ended(fence))
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Holder {
    pub grant: Grant,
    pub deadline: Deadline,
}

/// Returns the holders of a lock whose leases have not ended, but at most `most` of them, the oldest grants first.
pub fn holders(value: Option<&Value>, until: Deadline, now: Millis, most: usize) -> Vec<Holder> {
    let alive = value.into_iter().flat_map(|value| value.alive(until, now));
    alive.take(most).map(|held| Holder { grant: held.grant.clone(), deadline: held.deadline }).collect()
}

/// How a lock is to be granted.
#[derive(Clone, Copy)]
pub(super) struct Decision {
    pub(super) kind: Kind,
    pub(super) holds: u32,
    pub(super) room: Room,
    pub(super) slot: Option<Slot>,
    pub(super) until: Deadline,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    Reentry(Fence),
    /// A re-entry with less room, or with the grant's first slot.
    Upgrade(Fence),
}

/// How a lock is to be granted, or why it can't be granted now.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Fits(Decision),
    Taken {
        /// If the request is for an upgrade, the grant that its owner has. Waiters for an upgrade go ahead of the queue.
        upgrade: Option<Fence>,
        /// Whether the request fits, but has to wait for the end of the grace.
        grace: bool,
    },
}

impl Verdict {
    pub(super) const TAKEN: Self = Self::Taken { upgrade: None, grace: false };

    pub(super) fn is_new(&self) -> bool {
        matches!(self, Self::Fits(decision) if decision.kind == Kind::New)
    }

    /// Returns the verdict while not all that is over at the lock has been ended: owners may re-enter, but for others, the lock is taken.
    pub(super) fn unless_settled(self) -> Self {
        match self {
            Self::Taken { upgrade, grace } => {
                Self::Taken { upgrade: None, grace: grace && upgrade.is_some() }
            }
            verdict if verdict.is_new() => Self::TAKEN,
            verdict => verdict,
        }
    }

    /// The grant that is to be re-entered.
    pub(super) fn reentered(&self) -> Option<Fence> {
        match self {
            Self::Fits(Decision { kind: Kind::Reentry(fence) | Kind::Upgrade(fence), .. }) => Some(*fence),
            _ => None,
        }
    }

    pub(super) fn upgrade(&self) -> Option<Fence> {
        if let Self::Taken { upgrade, .. } = self { *upgrade } else { None }
    }
}
