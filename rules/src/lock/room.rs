//! How many owners may hold a lock at the same time (its room), the other holders from the point of view of an owner that asks, and the
//! numbers of permits, called slots. Each holder with `LIMIT n` has a slot from 1 to n, and no two holders have the same slot. An exclusive
//! grant has slot 1, unless the grant had another slot before it became exclusive.

use std::num::NonZeroU32;

use super::map::Map;

/// How many holders a request or a grant allows, counting its own owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub struct Room(NonZeroU32);

impl Room {
    /// The room of a request without options, which allows only its own owner.
    pub const ONE: Self = Self(NonZeroU32::MIN);
    /// The room of `SHARED`: any number of holders.
    pub const ANY: Self = Self(NonZeroU32::MAX);
    /// The greatest `LIMIT`.
    pub const MOST: u32 = u32::MAX - 1;

    /// Returns the room of `LIMIT n`; `None` if n is 0 or above [`Self::MOST`].
    pub fn limit(most: u32) -> Option<Self> {
        NonZeroU32::new(most).map(Self).filter(|room| *room != Self::ANY)
    }

    /// Returns the most holders; `None` if their number is not limited.
    pub fn most(self) -> Option<u32> {
        Some(self.0.get()).filter(|_| self != Self::ANY)
    }

    /// Returns the most holders. If their number is not limited, the result is greater than the number of holders that a lock ever has.
    pub(super) fn holders(self) -> usize {
        self.0.get() as usize
    }

    pub fn is_exclusive(self) -> bool {
        self == Self::ONE
    }
}

/// The holders of a lock, without the owner that asks for the lock.
#[derive(Clone, Copy, Debug)]
pub struct Others<'a> {
    pub(crate) count: usize,
    /// The least number of holders that any grant of these holders allows.
    pub(crate) room: Room,
    pub(crate) slots: UsedSlots<'a>,
}

impl Others<'_> {
    pub(crate) const NONE: Self = Self { count: 0, room: Room::ANY, slots: UsedSlots::NONE };

    /// Whether a new holder, whose grant allows this many holders (`room`), fits beside these holders. With the new holder, there must not
    /// be more holders than the new grant allows, or than any grant of these holders allows.
    pub(crate) fn have_room_for(self, room: Room) -> bool {
        self.count < room.min(self.room).holders()
    }
}

/// The number of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(test, derive(Hash))]
pub struct Slot(NonZeroU32);

impl Slot {
    pub(crate) const FIRST: Self = Self(NonZeroU32::MIN);

    /// Returns the slot with this number; `None` if the number is 0 or above the greatest `LIMIT`.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).filter(|number| number.get() <= Room::MOST).map(Self)
    }

    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// Whether a grant that allows this many holders may have this slot. An exclusive grant may have any slot, because a grant that becomes
    /// exclusive keeps its slot.
    pub fn fits(self, room: Room) -> bool {
        room.is_exclusive() || room.most().is_some_and(|most| self.get() <= most)
    }

    fn next(self) -> Option<Self> {
        Self::new(self.get() + 1)
    }

    fn previous(self) -> Option<Self> {
        Self::new(self.get() - 1)
    }
}

/// The slot for which an acquire with `LIMIT` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub enum SlotRequest {
    /// The least free slot.
    Least,
    This(Slot),
}

impl SlotRequest {
    /// Returns the slot that the request gets if nobody holds the lock.
    pub(crate) fn alone(self) -> Slot {
        match self {
            Self::Least => Slot::FIRST,
            Self::This(slot) => slot,
        }
    }

    /// Returns the slot that the request gets beside holders with these slots; `None` if another holder has the requested slot, or no slot
    /// is free.
    pub(crate) fn find(self, used: UsedSlots<'_>) -> Option<Slot> {
        match self {
            Self::Least => used.least_free(),
            Self::This(slot) => Some(slot).filter(|slot| !used.has(*slot)),
        }
    }
}

/// The slots of the holders of a lock.
#[derive(Clone, Copy, Debug)]
pub enum UsedSlots<'a> {
    /// The slot of the only holder, if it has one. `DETECT`, which asks about one slot only, also uses this for several holders: that slot,
    /// if one of them has it.
    One(Option<Slot>),
    Several(&'a Slots),
}

impl UsedSlots<'_> {
    pub(crate) const NONE: Self = Self::One(None);

    pub fn has(self, slot: Slot) -> bool {
        match self {
            Self::One(used) => used == Some(slot),
            Self::Several(slots) => slots.has(slot),
        }
    }

    fn least_free(self) -> Option<Slot> {
        match self {
            Self::One(Some(Slot::FIRST)) => Slot::FIRST.next(),
            Self::One(_) => Some(Slot::FIRST),
            Self::Several(slots) => slots.least_free(),
        }
    }
}

/// The slots of several holders, stored as runs of successive numbers. In the map, the key is the first slot of a run, and the value is the
/// last slot. So the least free slot is found at once, however many slots are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Slots(Map<Slot, Slot>);

impl Slots {
    fn run_of(&self, slot: Slot) -> Option<(Slot, Slot)> {
        let (first, last) = self.0.last_up_to(&slot)?;
        (slot <= *last).then_some((*first, *last))
    }

    pub(super) fn has(&self, slot: Slot) -> bool {
        self.run_of(slot).is_some()
    }

    fn least_free(&self) -> Option<Slot> {
        match self.0.get(&Slot::FIRST) {
            Some(last) => last.next(),
            None => Some(Slot::FIRST),
        }
    }

    /// Marks a slot as used. The slot must be free.
    pub(super) fn add(&mut self, slot: Slot) {
        let before = slot.previous().and_then(|previous| self.run_of(previous));
        let last = slot.next().and_then(|next| self.0.remove(&next));
        self.0.insert(before.map_or(slot, |(first, _)| first), last.unwrap_or(slot));
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let Some((first, last)) = self.run_of(slot) else { return };
        self.0.remove(&first);
        if let Some(previous) = slot.previous().filter(|previous| *previous >= first) {
            self.0.insert(first, previous);
        }
        if let Some(next) = slot.next().filter(|next| *next <= last) {
            self.0.insert(next, last);
        }
    }

    pub(super) fn heap_size(&self) -> usize {
        self.0.heap_size()
    }

    /// Returns the number of used slots.
    #[cfg(any(test, fuzzing))]
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|(first, last)| (last.get() - first.get()) as usize + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::counted::allocated_by;

    fn slot(number: u32) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn the_ends_of_what_there_can_be() {
        assert_eq!((Slot::new(0), Slot::new(u32::MAX)), (None, None));
        let last = slot(Room::MOST);
        let mut slots = Slots::default();
        slots.add(last);
        assert!(slots.has(last) && last.next().is_none());
        assert_eq!(SlotRequest::Least.find(UsedSlots::Several(&slots)), Some(slot(1)));
        assert_eq!(SlotRequest::This(last).find(UsedSlots::Several(&slots)), None);
        slots.remove(last);
        assert_eq!(slots, Slots::default());
    }

    /// `heap_size`, which `MEMORY USAGE` shows, counts the memory of the runs of slots.
    #[test]
    fn each_run_takes_memory() {
        let (slots, used) = allocated_by(|| {
            let mut slots = Slots::default();
            (1..20).step_by(2).for_each(|number| slots.add(slot(number)));
            slots
        });
        assert!(slots.heap_size().abs_diff(used) <= used / 8, "{}, not {used}", slots.heap_size());
    }

    proptest! {
        /// Runs behave like a set of numbers.
        #[test]
        fn runs_are_a_set(numbers in vec(1..12u32, 0..60)) {
            let (mut slots, mut set) = (Slots::default(), BTreeSet::new());
            for number in numbers {
                match set.remove(&number) {
                    true => slots.remove(slot(number)),
                    false => {
                        set.insert(number);
                        slots.add(slot(number));
                    }
                }
                prop_assert!((1..13).all(|number| slots.has(slot(number)) == set.contains(&number)));
                prop_assert_eq!(slots.count(), set.len());
                let least = (1..).find(|number| !set.contains(number)).unwrap();
                prop_assert_eq!(SlotRequest::Least.find(UsedSlots::Several(&slots)), Some(slot(least)));
            }
        }
    }
}
