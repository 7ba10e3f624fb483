//! One stretch of ownership, from the moment a lock goes to an owner until it is free again.

use super::counts::Counts;
use super::{Deadline, Fence, Millis, Owner, Room};

/// A grant: who holds the lock, how often, with which fence, and how many it bears beside it.
///
/// Its lease is not here: `Value` says where. 24 bytes where the owner is a UUID, nothing unusual is asked and the fence says when
/// the grant was made, so that a held lock costs no more memory than a string with the same token; the rest is boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Grant(Repr);

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
enum Repr {
    Compact { counts: Counts, uuid: [u8; 16] },
    Full(Box<Full>),
}

/// A grant that is not `Compact`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Full {
    owner: Owner<'static>,
    fence: Fence,
    holds: u32,
    max_hold: Option<Millis>,
    made: Millis,
    room: Room,
}

impl Full {
    /// No number of holds makes it `Compact`.
    fn has_more_than_counts(&self) -> bool {
        self.max_hold.is_some()
            || self.made != self.fence.millis()
            || !self.room.is_exclusive()
            || matches!(self.owner, Owner::Name(_))
    }
}

/// By how many ms the clock of another server, which gave a fence, may be ahead of this one's.
const SKEW: Millis = 1000;

const _: () = assert!(size_of::<Grant>() == 24);

impl Grant {
    /// A grant with that many holds (at least 1), the greatest age in ms that it may reach, where it has one, and the
    /// millisecond in which it was made. That is the fence's, unless fences run ahead of the clock.
    #[inline]
    pub(crate) fn new(
        owner: Owner<'_>,
        fence: Fence,
        holds: u32,
        max_hold: Option<Millis>,
        made: Millis,
    ) -> Self {
        Self(match (owner, max_hold, Counts::new(fence, holds)) {
            (Owner::Uuid(uuid), None, Some(counts)) if made == fence.millis() => {
                Repr::Compact { counts, uuid }
            }
            (owner, max_hold, _) => {
                let (owner, room) = (owner.into_owned(), Room::ONE);
                Repr::Full(Box::new(Full { owner, fence, holds, max_hold, made, room }))
            }
        })
    }

    /// The grant with that room. Without this call, it has room for nobody else.
    pub(crate) fn with_room(self, room: Room) -> Self {
        if room == self.room() {
            return self;
        }
        let (owner, fence, holds) = (self.owner().into_owned(), self.fence(), self.holds());
        let (max_hold, made) = (self.max_hold(), self.made());
        if room.is_exclusive() {
            return Self::new(owner, fence, holds, max_hold, made);
        }
        Self(Repr::Full(Box::new(Full { owner, fence, holds, max_hold, made, room })))
    }

    /// A grant of which a primary or a file tells at that time, and when it was made where the fence does not say that. If
    /// that is ahead of this clock by more than clocks differ, it was made now, as far as is known here.
    pub(crate) fn told(
        owner: Owner<'_>,
        fence: Fence,
        holds: u32,
        max_hold: Option<Millis>,
        made: Option<Millis>,
        now: Millis,
    ) -> Self {
        let made = made.unwrap_or(fence.millis());
        Self::new(owner, fence, holds, max_hold, if made > now.saturating_add(SKEW) { now } else { made })
    }

    /// The grant, as old as `earlier` if both are about one grant.
    pub(crate) fn aged_as(self, earlier: &Self) -> Self {
        if self.fence() != earlier.fence() || self.made() == earlier.made() {
            return self;
        }
        let owner = self.owner().into_owned();
        Self::new(owner, self.fence(), self.holds(), self.max_hold(), earlier.made()).with_room(self.room())
    }

    pub(crate) fn owner(&self) -> Owner<'_> {
        match &self.0 {
            Repr::Compact { uuid, .. } => Owner::Uuid(*uuid),
            Repr::Full(full) => full.owner.borrowed(),
        }
    }

    pub(crate) fn fence(&self) -> Fence {
        match &self.0 {
            Repr::Compact { counts, .. } => counts.fence(),
            Repr::Full(full) => full.fence,
        }
    }

    pub(crate) fn holds(&self) -> u32 {
        match &self.0 {
            Repr::Compact { counts, .. } => counts.holds(),
            Repr::Full(full) => full.holds,
        }
    }

    pub(crate) fn set_holds(&mut self, count: u32) {
        match &mut self.0 {
            Repr::Full(full) if full.has_more_than_counts() => full.holds = count,
            _ => {
                let owner = self.owner().into_owned();
                *self = Self::new(owner, self.fence(), count, self.max_hold(), self.made());
            }
        }
    }

    pub(crate) fn set_room(&mut self, room: Room) {
        if room != self.room() {
            *self = self.clone().with_room(room);
        }
    }

    /// How many may hold the lock while it does.
    pub(crate) fn room(&self) -> Room {
        match &self.0 {
            Repr::Compact { .. } => Room::ONE,
            Repr::Full(full) => full.room,
        }
    }

    /// The greatest age in ms that the grant may reach, where it has one of its own.
    pub(crate) fn max_hold(&self) -> Option<Millis> {
        match &self.0 {
            Repr::Compact { .. } => None,
            Repr::Full(full) => full.max_hold,
        }
    }

    /// When the grant was made.
    fn made(&self) -> Millis {
        match &self.0 {
            Repr::Compact { counts, .. } => counts.fence().millis(),
            Repr::Full(full) => full.made,
        }
    }

    /// When the grant was made, where its fence does not say that.
    pub(crate) fn made_apart(&self) -> Option<Millis> {
        Some(self.made()).filter(|&made| made != self.fence().millis())
    }

    /// The end that no extension, re-entry or session moves: the age that the grant's own limit or `max_hold`, which is everybody's, allows it.
    pub(super) fn limit(&self, max_hold: Option<Millis>) -> Deadline {
        match self.max_hold().into_iter().chain(max_hold).min() {
            Some(age) => Deadline::after(self.made(), age),
            None => Deadline::Never,
        }
    }

    /// How long the grant has been held, in ms.
    pub(crate) fn age(&self, now: Millis) -> Millis {
        now.saturating_sub(self.made()).max(0)
    }

    /// Has what the grant has on the heap moved by `relocate`.
    pub(crate) fn relocate(&mut self, relocate: impl FnOnce(Box<Full>) -> Box<Full>) {
        // Something without a heap stands in for the moment.
        let stand_in = Repr::Compact { counts: Counts::NONE, uuid: [0; 16] };
        self.0 = match std::mem::replace(&mut self.0, stand_in) {
            Repr::Full(full) => Repr::Full(relocate(full)),
            compact => compact,
        };
    }

    /// Bytes on the heap beyond the grant's own.
    pub(crate) fn heap_size(&self) -> usize {
        match &self.0 {
            Repr::Compact { .. } => 0,
            Repr::Full(full) => size_of::<Full>() + full.owner.heap_size(),
        }
    }
}
