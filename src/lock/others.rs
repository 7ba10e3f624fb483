//! Those who hold a lock, as somebody finds them who asks for it.

use super::{Room, UsedSlots};

/// Those who hold a lock beside the one who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others<'a> {
    pub(crate) count: usize,
    /// The least room that one of them has.
    pub(crate) room: Room,
    pub(crate) slots: UsedSlots<'a>,
}

impl Others<'_> {
    pub(crate) const NONE: Self = Self { count: 0, room: Room::ANY, slots: UsedSlots::NONE };

    /// Whether one with that room may hold the lock with them: they are fewer than its own room, and than the room of each of
    /// them.
    pub(crate) fn bear(self, room: Room) -> bool {
        self.count < room.min(self.room).holders()
    }
}
