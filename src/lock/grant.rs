//! One stretch of ownership, from the moment a lock goes to an owner until it is free again.

use super::counts::Counts;
use super::{Deadline, Fence, Millis, Owner, Room, Slot};

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
    /// Where the room does not say it.
    slot: Option<Slot>,
    /// None where it is empty.
    label: Option<Box<[u8]>>,
}

impl Full {
    /// No number of holds makes it `Compact`.
    fn has_more_than_counts(&self) -> bool {
        self.max_hold.is_some()
            || self.made != self.fence.millis()
            || !self.room.is_exclusive()
            || self.slot.is_some()
            || self.label.is_some()
            || matches!(self.owner, Owner::Name(_))
    }
}

/// What a step makes of a grant, beside its lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) holds: u32,
    pub(crate) room: Room,
    /// None: as it was.
    pub(crate) slot: Option<Slot>,
    /// None: as it was. Empty: none.
    pub(crate) label: Option<&'a [u8]>,
}

/// The longest label, in bytes.
pub(crate) const LONGEST_LABEL: usize = 128;

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
                Repr::Full(Box::new(Full {
                    owner,
                    fence,
                    holds,
                    max_hold,
                    made,
                    room,
                    slot: None,
                    label: None,
                }))
            }
        })
    }

    /// The grant with something else than the owner, the fence and the holds changed.
    fn with(mut self, change: impl FnOnce(&mut Full)) -> Self {
        match &mut self.0 {
            Repr::Full(full) => change(full),
            Repr::Compact { counts, uuid } => {
                let (fence, holds) = (counts.fence(), counts.holds());
                let (owner, made) = (Owner::Uuid(*uuid), fence.millis());
                let (max_hold, room) = (None, Room::ONE);
                let mut full = Full { owner, fence, holds, max_hold, made, room, slot: None, label: None };
                change(&mut full);
                self.0 = Repr::Full(Box::new(full));
            }
        }
        if let Repr::Full(full) = &mut self.0 {
            full.slot = full.slot.filter(|slot| !full.room.is_exclusive() || *slot != Slot::FIRST);
        }
        self.set_holds(self.holds());
        self
    }

    /// The grant with that room. Without this call, it has room for nobody else.
    pub(crate) fn with_room(self, room: Room) -> Self {
        if room == self.room() { self } else { self.with(|full| full.room = room) }
    }

    /// The grant with that slot. Without this call, it has none, unless it is exclusive.
    pub(crate) fn with_slot(self, slot: Slot) -> Self {
        self.with(|full| full.slot = Some(slot))
    }

    /// The grant with that label. Without this call, it has none.
    pub(crate) fn with_label(self, label: &[u8]) -> Self {
        let label = Some(label).filter(|label| !label.is_empty()).map(Into::into);
        self.with(|full| full.label = label)
    }

    pub(super) fn without_slot(self) -> Self {
        self.with(|full| full.slot = None)
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
        self.with(|full| full.made = earlier.made())
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

    fn set_holds(&mut self, count: u32) {
        match &mut self.0 {
            Repr::Full(full) if full.has_more_than_counts() => full.holds = count,
            _ => {
                let owner = self.owner().into_owned();
                *self = Self::new(owner, self.fence(), count, self.max_hold(), self.made());
            }
        }
    }

    pub(super) fn change(&mut self, change: Change<'_>) {
        let Change { holds, room, slot, label } = change;
        if let Some(label) = label.filter(|label| *label != self.label()) {
            *self = self.clone().with_label(label);
        }
        if room != self.room() || slot.is_some() && slot != self.slot() {
            let with = |full: &mut Full| (full.room, full.slot) = (room, slot.or(full.slot));
            *self = self.clone().with(with);
        }
        self.set_holds(holds);
    }

    /// Whether that changes nothing.
    pub(crate) fn is_already(&self, change: Change<'_>) -> bool {
        let Change { holds, room, slot, label } = change;
        let named =
            (slot.is_none() || slot == self.slot()) && label.is_none_or(|label| label == self.label());
        named && self.holds() == holds && self.room() == room
    }

    /// How many may hold the lock while it does.
    pub(crate) fn room(&self) -> Room {
        match &self.0 {
            Repr::Compact { .. } => Room::ONE,
            Repr::Full(full) => full.room,
        }
    }

    /// The number of its permit. A reader has none, nor has a grant that was made before there were such numbers.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot_apart().or(if self.room().is_exclusive() { Some(Slot::FIRST) } else { None })
    }

    /// The number of its permit, where its room does not say that.
    pub(crate) fn slot_apart(&self) -> Option<Slot> {
        match &self.0 {
            Repr::Compact { .. } => None,
            Repr::Full(full) => full.slot,
        }
    }

    /// What its owner says of itself, for people and other programs; empty where it says nothing.
    pub(crate) fn label(&self) -> &[u8] {
        match &self.0 {
            Repr::Compact { .. } => &[],
            Repr::Full(full) => full.label.as_deref().unwrap_or_default(),
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
            Repr::Full(full) => size_of::<Full>() + full.owner.heap_size() + self.label().len(),
        }
    }
}
