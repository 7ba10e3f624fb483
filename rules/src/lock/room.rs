//! How many owners may hold a lock at the same time, and the other holders, from the point of view of an owner that asks.

use std::num::NonZeroU32;

use super::UsedSlots;

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
