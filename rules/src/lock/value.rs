//! The grants of a lock: one, or several at the same time.

use super::several::Several;
use super::{Deadline, Fence, Grant, GrantChange, Held, Millis, Mover, Others, Owner, Room, UsedSlots};

/// The value of a held lock's key: one grant, whose lease is the TTL of the key, or several grants.
///
/// With several grants, the TTL is the lease that ends last. Each other lease ends as long before this lease as its stored end is before
/// the latest stored end. So a command that moves the TTL (`PEXPIRE`, `PERSIST`, `RESTORE`) moves the ends of all leases by the same
/// amount. In the methods here, `until` is the end of the present TTL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub enum Value {
    One(Grant),
    Several(Box<Several>),
}

// A value takes no more memory than a grant.
const _: () = assert!(size_of::<Value>() == 24);

impl Value {
    pub fn is_one(&self) -> bool {
        self.several().is_none()
    }

    /// Takes the grants out for a step, at whose end they are put back.
    #[inline(always)]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::One(Grant::STAND_IN))
    }

    fn several(&self) -> Option<&Several> {
        match self {
            Self::One(_) => None,
            Self::Several(several) => Some(several),
        }
    }

    /// Returns the number of holders, including those whose leases have ended.
    pub fn count(&self) -> usize {
        self.several().map_or(1, Several::count)
    }

    /// Returns all grants, the oldest first, each with the end of its lease.
    pub fn all(&self, until: Deadline) -> impl Iterator<Item = Held<'_>> {
        let (one, several) = match self {
            Self::One(grant) => (Some(Held { grant, deadline: until }), None),
            Self::Several(several) => (None, Some(several.all(until))),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Returns the grants whose leases have not ended, the oldest first.
    pub(crate) fn alive(&self, until: Deadline, now: Millis) -> impl Iterator<Item = Held<'_>> {
        // A single grant is always alive, because the server deletes a key whose TTL has ended.
        let one = self.is_one();
        self.all(until).filter(move |held| one || held.deadline >= Deadline::At(now))
    }

    /// Returns the owner's grant, if the owner has one, and the other holders. Calls `until` only if the end of the TTL is needed.
    #[inline(always)]
    pub(crate) fn seen_by(
        &self,
        owner: &Owner<'_>,
        until: impl FnOnce() -> Deadline,
    ) -> (Option<Held<'_>>, Others<'_>) {
        match self {
            Self::One(grant) if grant.owner() == *owner => {
                (Some(Held { grant, deadline: until() }), Others::NONE)
            }
            Self::One(_) => (None, self.others()),
            Self::Several(several) => several.seen_by(owner, until()),
        }
    }

    /// Returns all holders, as an owner that holds nothing sees them.
    #[inline(always)]
    pub(crate) fn others(&self) -> Others<'_> {
        Others { count: self.count(), room: self.room(), slots: self.slots() }
    }

    /// Returns the owner's grant, if the owner has one.
    #[inline(always)]
    pub(crate) fn grant_of(&self, owner: &Owner<'_>) -> Option<&Grant> {
        match self {
            Self::One(grant) => Some(grant).filter(|grant| grant.owner() == *owner),
            Self::Several(several) => several.grant_of(owner),
        }
    }

    /// Returns the grant with this fence, if there is one.
    pub fn with_fence(&self, fence: Fence, until: impl FnOnce() -> Deadline) -> Option<Held<'_>> {
        match self {
            Self::One(grant) if grant.fence() == fence => Some(Held { grant, deadline: until() }),
            Self::One(_) => None,
            Self::Several(several) => several.with_fence(fence, until()),
        }
    }

    /// Returns the holds and the end of the lease of the grant with this fence; `None` if there is no such grant, or if it is one of several
    /// and its lease ended before `now`. (The server itself ends the lease of a single grant.)
    pub fn alive_with(&self, fence: Fence, until: Deadline, now: Millis) -> Option<(u32, Deadline)> {
        let Held { grant, deadline } = self.with_fence(fence, || until)?;
        (self.is_one() || deadline >= Deadline::At(now)).then(|| (grant.holds(), deadline))
    }

    /// Returns the end of the lease that ends first.
    pub(crate) fn first_deadline(&self, until: Deadline) -> Deadline {
        self.several().map_or(until, |several| several.first_deadline(until))
    }

    /// Whether the lock has several grants, and at least one stored end of a lease is `Never`. The key may have a TTL all the same, because
    /// `PEXPIRE` does not change the stored ends.
    pub fn is_endless(&self) -> bool {
        self.several().is_some_and(|several| several.until() == Deadline::Never)
    }

    /// If there are several grants, returns the fences of the grants whose leases ended before `now`, in the order of these ends. (The
    /// server itself ends the lease of a single grant.)
    pub fn lapsed(&self, until: Deadline, now: Millis) -> impl Iterator<Item = Fence> {
        self.several().into_iter().flat_map(move |several| several.lapsed(until, now))
    }

    /// Returns how many owners may hold the lock now: the least room of all grants.
    pub fn room(&self) -> Room {
        match self {
            Self::One(grant) => grant.room(),
            Self::Several(several) => several.room(),
        }
    }

    pub fn slots(&self) -> UsedSlots<'_> {
        match self {
            Self::One(grant) => UsedSlots::One(grant.slot()),
            Self::Several(several) => several.slots(),
        }
    }

    /// Adds a grant beside the other grants. If its owner already has a grant, replaces that grant. Returns the end to which the TTL is to
    /// be set.
    pub fn put(&mut self, grant: Grant, deadline: Deadline, until: Deadline) -> Deadline {
        match self {
            Self::One(held) if held.owner() == grant.owner() => {
                *held = grant.with_age_of(held);
                deadline
            }
            Self::One(held) => {
                let mut several = Several::of(held.clone(), until);
                several.put(grant, deadline);
                let until = several.until();
                *self = Self::Several(Box::new(several));
                until
            }
            Self::Several(several) => {
                several.align(until);
                several.put(grant, deadline);
                several.until()
            }
        }
    }

    /// Changes the grant with this fence, if there is one, and sets the end of its lease to `deadline`. Returns the end to which the TTL is
    /// to be set.
    pub fn update(
        &mut self,
        fence: Fence,
        change: GrantChange<'_>,
        deadline: Deadline,
        until: Deadline,
    ) -> Deadline {
        match self {
            Self::One(grant) if grant.fence() == fence => {
                grant.change(change);
                deadline
            }
            Self::One(_) => until,
            Self::Several(several) => {
                several.align(until);
                several.update(fence, change, deadline);
                several.until()
            }
        }
    }

    /// Ends the grant with this fence, if there is one. Returns the end to which the TTL is to be set; `None` if this was the only grant.
    pub fn end(&mut self, fence: Fence, until: Deadline) -> Option<Deadline> {
        match self {
            Self::One(grant) => Some(until).filter(|_| grant.fence() != fence),
            Self::Several(several) => {
                several.align(until);
                several.end(fence);
                let until = several.until();
                if let Some(last) = several.last_one() {
                    *self = Self::One(last);
                }
                Some(until)
            }
        }
    }

    /// Lets `mover` move the memory to which the value points. If this is a `Several`, the memory of its maps is not moved.
    pub fn relocate(&mut self, mover: &mut impl Mover) {
        match self {
            Self::One(grant) => grant.relocate(mover),
            Self::Several(several) => {
                let stand_in = Box::new(Several::default());
                *several = mover.moved(std::mem::replace(several, stand_in));
            }
        }
    }

    /// Returns the number of bytes on the heap, without the value's own 24 bytes.
    pub fn heap_size(&self) -> usize {
        match self {
            Self::One(grant) => grant.heap_size(),
            Self::Several(several) => size_of::<Several>() + several.heap_size(),
        }
    }
}
