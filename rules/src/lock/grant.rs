//! A grant: one owner's period of ownership, from the acquire until the owner has released all holds or lost the lock.

use std::borrow::Cow;
use std::sync::Arc;

use super::fields::Extras;
use super::{Deadline, Fence, Millis, Owner, Room, Slot};

/// A grant: who holds the lock, how often, with which fence, and how many owners may hold the lock at the same time.
///
/// The lease is not in this type, but in `Value`. A grant is plain if it is exclusive, has no maximum age, no label, no number of a permit
/// (slot) and at most 7 holds, and was made at the time of its fence (see `Fence::granted_at`), as usual. A plain grant takes 24 bytes, and
/// also the bytes of its owner's name, unless the name is a UUID. So a held lock takes hardly more memory than a key with the owner's name
/// as a string. All other grants are boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Grant(Repr);

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

/// A fence and a number of holds, packed into 7 bytes. The fence takes 53 of the 56 bits, the holds take 3 bits. So an enum that contains
/// this type has room for its tag in the eighth byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
struct Counts([u8; 7]);

impl Counts {
    const MOST_HOLDS: u32 = (1 << (u64::BITS - 8 - Fence::BITS)) - 1;

    /// Stands for no grant: no grant has the fence 0.
    const NONE: Self = Self([0; 7]);

    /// Packs a fence and a number of holds. Returns `None` if there are more than 7 holds.
    fn new(fence: Fence, holds: u32) -> Option<Self> {
        if holds > Self::MOST_HOLDS {
            return None;
        }
        let [bytes @ .., _] = (u64::from(holds) << Fence::BITS | fence.0).to_le_bytes();
        Some(Self(bytes))
    }

    fn both(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }

    fn fence(self) -> Fence {
        Fence(self.both() & Fence::MAX.0)
    }

    fn holds(self) -> u32 {
        // The shift leaves at most 3 bits, so the cast loses nothing.
        (self.both() >> Fence::BITS) as u32
    }
}

/// All data of a grant. Grants that are not plain are kept in this form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Full {
    owner: Owner<'static>,
    fence: Fence,
    pub(super) holds: u32,
    pub(super) room: Room,
    /// The slot (the number of the permit), if it is stored. An exclusive grant without a stored slot has the first slot.
    pub(super) slot: Option<Slot>,
    pub(super) made: Millis,
    extras: Option<Arc<Extras>>,
}

impl Full {
    /// Makes a grant with one hold, and the usual value for each other field.
    pub fn new(owner: Owner<'static>, fence: Fence) -> Self {
        Self { owner, fence, holds: 1, room: Room::ONE, slot: None, made: fence.millis(), extras: None }
    }

    pub(super) fn change_extras(&mut self, change: impl FnOnce(&mut Extras)) {
        let mut extras = self.extras.as_deref().cloned().unwrap_or_default();
        change(&mut extras);
        self.extras = extras.shared();
    }

    /// Returns the fence and the holds in packed form; `None` if this grant is not plain.
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

    /// Makes the grant that a primary or a file describes; `None` if its slot does not fit its room (see `Slot::fits`). If `made` is more
    /// than `SKEW` ms after `now`, the grant counts as made at `now`.
    pub fn received(mut self, now: Millis) -> Option<Grant> {
        if self.made > now.saturating_add(SKEW) {
            self.made = now;
        }
        Some(self).filter(|full| full.slot.is_none_or(|slot| slot.fits(full.room))).map(Self::packed)
    }
}

/// A change of a grant, except for its lease. A field that is `None` stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct GrantChange<'a> {
    pub(crate) holds: Option<u32>,
    pub(crate) room: Option<Room>,
    pub(crate) slot: Option<Slot>,
    /// An empty label removes the label.
    pub(crate) label: Option<&'a [u8]>,
}

impl GrantChange<'_> {
    /// Leaves all fields as they are.
    pub(crate) const NONE: Self = Self { holds: None, room: None, slot: None, label: None };

    pub(crate) fn holds(holds: u32) -> Self {
        Self { holds: Some(holds), ..Self::NONE }
    }
}

/// Moves boxed values to another place in memory, against fragmentation.
pub trait Mover {
    fn moved<T>(&mut self, value: Box<T>) -> Box<T>;

    fn moved_bytes(&mut self, bytes: Box<[u8]>) -> Box<[u8]>;
}

/// By how many ms the clock of another server, which made a grant, is allowed to be ahead of this server's clock.
const SKEW: Millis = 1000;

const _: () = assert!(size_of::<Grant>() == 24);

impl Grant {
    /// Makes a grant with `holds` holds, which must be at least 1. `made` is when the grant was made, in ms since 1970. This is also the
    /// time of the fence (see `Fence::granted_at`), unless fences run ahead of the clock.
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

    /// Changes the grant, and then stores it in as little memory as possible.
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

    /// Sets the room of a grant. A new grant has room for its own owner only.
    pub fn with_room(self, room: Room) -> Self {
        if room == self.room() { self } else { self.with(|full| full.room = room) }
    }

    /// Sets the slot of a grant. With `None`, the grant keeps its slot.
    pub fn with_slot(self, slot: Option<Slot>) -> Self {
        if slot.is_none() || slot == self.slot() { self } else { self.with(|full| full.slot = slot) }
    }

    pub(super) fn without_slot(self) -> Self {
        self.with(|full| full.slot = None)
    }

    /// Makes the grant that a primary or a file describes. `made` is when the grant was made, in ms since 1970; `None` means at the time of
    /// its fence (see `Fence::granted_at`). If `made` is more than `SKEW` ms after `now`, the grant counts as made at `now`.
    pub fn received(
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

    /// Returns this grant. If `earlier` has the same fence, the result counts as made when `earlier` was made.
    pub fn with_age_of(self, earlier: &Self) -> Self {
        if self.fence() != earlier.fence() || self.made() == earlier.made() {
            return self;
        }
        self.made_at(earlier.made())
    }

    /// Sets when the grant was made, in ms since 1970. This function is not inlined, so that grants that don't need it do not pay for it.
    #[cold]
    #[inline(never)]
    fn made_at(self, made: Millis) -> Self {
        self.with(|full| full.made = made)
    }

    /// Returns the fence and the holds of a plain grant. For a grant that is not plain, returns all its data as the error.
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

    pub fn owner(&self) -> Owner<'_> {
        match &self.0 {
            Repr::Uuid { uuid, .. } => Owner::Uuid(*uuid),
            Repr::Named { name, .. } => Owner::Name(Cow::Borrowed(name)),
            Repr::Full(full) => full.owner.borrowed(),
        }
    }

    pub fn fence(&self) -> Fence {
        self.counts().map_or_else(|full| full.fence, Counts::fence)
    }

    pub fn holds(&self) -> u32 {
        self.counts().map_or_else(|full| full.holds, Counts::holds)
    }

    /// Whether the change would leave the grant as it is.
    pub fn is_already(&self, change: GrantChange<'_>) -> bool {
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

    /// Returns the grant, and leaves in its place a stand-in that owns no memory.
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::STAND_IN)
    }

    pub(super) const STAND_IN: Self = Self(Repr::Uuid { counts: Counts::NONE, uuid: [0; 16] });

    /// Returns how many owners may hold the lock at the same time, this owner included.
    pub fn room(&self) -> Room {
        self.full().map_or(Room::ONE, |full| full.room)
    }

    /// Returns the slot, which no other holder has; `None` if the grant has no slot. An exclusive grant has the first slot, unless the
    /// grant had another slot before it became exclusive.
    pub fn slot(&self) -> Option<Slot> {
        self.explicit_slot().or(self.room().is_exclusive().then_some(Slot::FIRST))
    }

    /// Returns the slot, if it is stored. An exclusive grant without a stored slot has the first slot.
    pub fn explicit_slot(&self) -> Option<Slot> {
        self.full()?.slot
    }

    fn extras(&self) -> Option<&Extras> {
        self.full()?.extras.as_deref()
    }

    /// Returns the greatest age in ms that the grant may reach, if it was acquired with `MAXHOLD`.
    pub fn max_hold(&self) -> Option<Millis> {
        self.extras()?.max_hold
    }

    /// Returns the label, which is empty if the grant has no label.
    pub fn label(&self) -> &[u8] {
        self.extras().and_then(|extras| extras.label.as_deref()).unwrap_or_default()
    }

    /// Returns when the grant was made, in ms since 1970.
    fn made(&self) -> Millis {
        self.counts().map_or_else(|full| full.made, |counts| counts.fence().millis())
    }

    /// Returns when the grant was made, in ms since 1970; `None` if this is the time of its fence (see `Fence::granted_at`).
    pub fn explicit_made(&self) -> Option<Millis> {
        Some(self.made()).filter(|&made| made != self.fence().millis())
    }

    /// Returns the latest deadline that an extension, a re-entry or a session may set. This is when the grant reaches its own maximum age,
    /// or the maximum age of all grants (`max_hold`, in ms), whichever is first; `Never` if there is neither.
    pub(super) fn limit(&self, max_hold: Option<Millis>) -> Deadline {
        match self.max_hold().into_iter().chain(max_hold).min() {
            Some(age) => Deadline::after(self.made(), age),
            None => Deadline::Never,
        }
    }

    /// Returns how long the grant has been held, in ms.
    pub fn age(&self, now: Millis) -> Millis {
        now.saturating_sub(self.made()).max(0)
    }

    /// Lets `mover` move the memory to which the grant points. If this is a `Full`, the name and the extras to which the `Full` points are
    /// not moved.
    pub(crate) fn relocate(&mut self, mover: &mut impl Mover) {
        self.0 = match self.take().0 {
            Repr::Full(full) => Repr::Full(mover.moved(full)),
            Repr::Named { counts, name } => Repr::Named { counts, name: mover.moved_bytes(name) },
            uuid => uuid,
        };
    }

    /// Returns the number of bytes on the heap, without the grant's own 24 bytes.
    pub(crate) fn heap_size(&self) -> usize {
        let full = self.full().map_or(0, |full| {
            size_of::<Full>() + full.extras.as_ref().map_or(0, |extras| extras.heap_size())
        });
        full + self.owner().heap_size()
    }
}
