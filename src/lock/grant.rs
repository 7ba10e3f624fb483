//! One stretch of ownership, from the moment a lock goes to an owner until it is free again.

use std::borrow::Cow;
use std::sync::Arc;

use super::counts::Counts;
use super::extras::Extras;
use super::{Deadline, Fence, Millis, Owner, Room, Slot};

/// A grant: who holds the lock, how often, with which fence, and how many it bears beside it.
///
/// Its lease is not here: `Value` says where. A plain grant takes 24 bytes, and the bytes of its owner's name where that is no UUID:
/// so a held lock costs hardly more memory than a string with the same token. A grant is plain if nothing unusual is asked and its
/// fence says when it was made. The others are boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Grant(Repr);

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
enum Repr {
    Uuid { counts: Counts, uuid: [u8; 16] },
    Named { counts: Counts, name: Box<[u8]> },
    Full(Box<Full>),
}

impl Repr {
    fn plain(owner: Owner<'_>, counts: Counts) -> Self {
        match owner {
            Owner::Uuid(uuid) => Self::Uuid { counts, uuid },
            Owner::Name(name) => Self::Named { counts, name: name.into() },
        }
    }
}

/// All that a grant has; kept like this where the grant is not plain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) struct Full {
    owner: Owner<'static>,
    fence: Fence,
    pub(super) holds: u32,
    pub(super) room: Room,
    /// The slot, if it does not follow from the room.
    pub(super) slot: Option<Slot>,
    pub(super) made: Millis,
    extras: Option<Arc<Extras>>,
}

impl Full {
    /// A grant with one hold, and as usual otherwise.
    pub(crate) fn new(owner: Owner<'static>, fence: Fence) -> Self {
        Self { owner, fence, holds: 1, room: Room::ONE, slot: None, made: fence.millis(), extras: None }
    }

    pub(super) fn change_extras(&mut self, change: impl FnOnce(&mut Extras)) {
        let mut extras = self.extras.as_deref().cloned().unwrap_or_default();
        change(&mut extras);
        self.extras = extras.shared();
    }

    /// The counts of a plain grant, if this one is plain.
    fn plain_counts(&self) -> Option<Counts> {
        let is_plain = self.extras.is_none()
            && self.made == self.fence.millis()
            && self.room.is_exclusive()
            && self.slot.is_none();
        Counts::new(self.fence, self.holds).filter(|_| is_plain)
    }

    fn packed(self) -> Grant {
        Grant(match self.plain_counts() {
            Some(counts) => Repr::plain(self.owner, counts),
            None => Repr::Full(Box::new(self)),
        })
    }

    /// The grant of which a primary or a file tells at that time; none where the room does not bear the slot. If it was made ahead of
    /// this clock by more than clocks differ, it was made now, as far as is known here.
    pub(crate) fn told(mut self, now: Millis) -> Option<Grant> {
        if self.made > now.saturating_add(SKEW) {
            self.made = now;
        }
        Some(self).filter(|full| full.slot.is_none_or(|slot| slot.fits(full.room))).map(Self::packed)
    }
}

/// What a step makes of a grant, beside its lease. None: as it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantChange<'a> {
    pub(crate) holds: Option<u32>,
    pub(crate) room: Option<Room>,
    pub(crate) slot: Option<Slot>,
    /// Empty: none any more.
    pub(crate) label: Option<&'a [u8]>,
}

impl GrantChange<'_> {
    /// The lease changes, and nothing else.
    pub(crate) const NONE: Self = Self { holds: None, room: None, slot: None, label: None };

    pub(crate) fn holds(holds: u32) -> Self {
        Self { holds: Some(holds), ..Self::NONE }
    }
}

/// Moves what is in a box to another place.
pub(crate) trait Mover {
    fn moved<T>(&mut self, value: Box<T>) -> Box<T>;

    fn moved_bytes(&mut self, bytes: Box<[u8]>) -> Box<[u8]>;
}

/// The number of ms by which the clock of another server, which gave a fence, may be ahead of this server's.
const SKEW: Millis = 1000;

const _: () = assert!(size_of::<Grant>() == 24);

impl Grant {
    /// A grant with so many holds (at least 1), its extras, and the millisecond in which it was made. As a rule the fence tells that
    /// millisecond; if fences run ahead of the clock, it does not.
    #[inline]
    pub(crate) fn new(
        owner: Owner<'_>,
        fence: Fence,
        holds: u32,
        extras: Option<Arc<Extras>>,
        made: Millis,
    ) -> Self {
        Self(match (extras, Counts::new(fence, holds)) {
            (None, Some(counts)) if made == fence.millis() => Repr::plain(owner, counts),
            (extras, _) => {
                let full = Full { holds, made, extras, ..Full::new(owner.into_owned(), fence) };
                Repr::Full(Box::new(full))
            }
        })
    }

    /// The grant, changed, in as little memory as it then needs.
    fn with(self, change: impl FnOnce(&mut Full)) -> Self {
        let (owner, counts) = match self.0 {
            Repr::Full(mut full) => {
                change(&mut full);
                return match full.plain_counts() {
                    Some(counts) => Self(Repr::plain(full.owner, counts)),
                    None => Self(Repr::Full(full)),
                };
            }
            Repr::Uuid { counts, uuid } => (Owner::Uuid(uuid), counts),
            Repr::Named { counts, name } => (Owner::Name(Cow::Owned(name.into())), counts),
        };
        let mut full = Full { holds: counts.holds(), ..Full::new(owner, counts.fence()) };
        change(&mut full);
        full.packed()
    }

    /// Sets the room of a grant. Without this call, the grant has room for nobody else.
    pub(crate) fn with_room(self, room: Room) -> Self {
        if room == self.room() { self } else { self.with(|full| full.room = room) }
    }

    /// Sets the slot of a grant. With `None`, the grant has the slot that follows from its room, if one does.
    pub(crate) fn with_slot(self, slot: Option<Slot>) -> Self {
        if slot.is_none() || slot == self.slot() { self } else { self.with(|full| full.slot = slot) }
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
        extras: Option<Arc<Extras>>,
        made: Option<Millis>,
        now: Millis,
    ) -> Self {
        let made = made.filter(|made| *made > 0).unwrap_or(fence.millis());
        Self::new(owner, fence, holds, extras, if made > now.saturating_add(SKEW) { now } else { made })
    }

    /// The grant, as old as `earlier` if both are about one grant.
    pub(crate) fn aged_as(self, earlier: &Self) -> Self {
        if self.fence() != earlier.fence() || self.made() == earlier.made() {
            return self;
        }
        self.made_at(earlier.made())
    }

    /// Notes when the grant was made. A function of its own, so that most grants, which don't need it, don't pay for it.
    #[cold]
    #[inline(never)]
    fn made_at(self, made: Millis) -> Self {
        self.with(|full| full.made = made)
    }

    /// What a plain grant counts; the error is a grant that is not plain.
    #[inline(always)]
    fn counts(&self) -> Result<Counts, &Full> {
        match &self.0 {
            Repr::Uuid { counts, .. } | Repr::Named { counts, .. } => Ok(*counts),
            Repr::Full(full) => Err(full),
        }
    }

    fn full(&self) -> Option<&Full> {
        self.counts().err()
    }

    pub(crate) fn owner(&self) -> Owner<'_> {
        match &self.0 {
            Repr::Uuid { uuid, .. } => Owner::Uuid(*uuid),
            Repr::Named { name, .. } => Owner::Name(Cow::Borrowed(name)),
            Repr::Full(full) => full.owner.borrowed(),
        }
    }

    pub(crate) fn fence(&self) -> Fence {
        self.counts().map_or_else(|full| full.fence, Counts::fence)
    }

    pub(crate) fn holds(&self) -> u32 {
        self.counts().map_or_else(|full| full.holds, Counts::holds)
    }

    /// Whether the change changes nothing.
    pub(crate) fn is_already(&self, change: GrantChange<'_>) -> bool {
        let GrantChange { holds, room, slot, label } = change;
        holds.is_none_or(|holds| holds == self.holds())
            && room.is_none_or(|room| room == self.room())
            && (slot.is_none() || slot == self.slot())
            && label.is_none_or(|label| label == self.label())
    }

    pub(super) fn change(&mut self, change: GrantChange<'_>) {
        if self.is_already(change) {
            return;
        }
        let GrantChange { holds, room, slot, label } = change;
        let slot = slot.filter(|_| slot != self.slot());
        *self = self.take().with(|full| {
            full.holds = holds.unwrap_or(full.holds);
            full.room = room.unwrap_or(full.room);
            full.slot = slot.or(full.slot);
            if let Some(label) = label {
                full.change_extras(|extras| extras.label = Some(label.into()).filter(|_| !label.is_empty()));
            }
        });
    }

    /// The grant; something without a heap stands in for it.
    fn take(&mut self) -> Self {
        let stand_in = Repr::Uuid { counts: Counts::NONE, uuid: [0; 16] };
        Self(std::mem::replace(&mut self.0, stand_in))
    }

    /// How many may hold the lock while it does.
    pub(crate) fn room(&self) -> Room {
        self.full().map_or(Room::ONE, |full| full.room)
    }

    /// The number of its permit, which no other holder has. Who holds the lock alone has the first, if it had no other before.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot_apart().or(self.room().is_exclusive().then_some(Slot::FIRST))
    }

    /// The number of the permit, if it does not follow from the room.
    pub(crate) fn slot_apart(&self) -> Option<Slot> {
        self.full()?.slot
    }

    fn extras(&self) -> Option<&Extras> {
        self.full()?.extras.as_deref()
    }

    /// The greatest age in ms that the grant may reach, if it has a limit of its own.
    pub(crate) fn max_hold(&self) -> Option<Millis> {
        self.extras()?.max_hold
    }

    /// The label: it says in words who holds the lock. It is empty where its owner has not said it.
    pub(crate) fn label(&self) -> &[u8] {
        self.extras().and_then(|extras| extras.label.as_deref()).unwrap_or_default()
    }

    /// When the grant was made.
    fn made(&self) -> Millis {
        self.counts().map_or_else(|full| full.made, |counts| counts.fence().millis())
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

    /// Has what the grant has on the heap moved by `mover`; of one that is not plain, all in one piece.
    pub(crate) fn relocate(&mut self, mover: &mut impl Mover) {
        self.0 = match self.take().0 {
            Repr::Full(full) => Repr::Full(mover.moved(full)),
            Repr::Named { counts, name } => Repr::Named { counts, name: mover.moved_bytes(name) },
            uuid => uuid,
        };
    }

    /// Bytes on the heap beyond the grant's own.
    pub(crate) fn heap_size(&self) -> usize {
        let full = self.full().map_or(0, |full| {
            size_of::<Full>() + full.extras.as_ref().map_or(0, |extras| extras.heap_size())
        });
        full + self.owner().heap_size()
    }
}
