//! Those who hold a lock, as somebody finds them who asks for it.

use super::{Room, UsedSlots};

/// Those who hold a lock beside the one who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others<'a> {
    pub(crate) count: usize,
    /// The least room of all their grants.
    pub(crate) room: Room,
    pub(crate) slots: UsedSlots<'a>,
}

impl Others<'_> {
    pub(crate) const NONE: Self = Self { count: 0, room: Room::ANY, slots: UsedSlots::NONE };

    /// Whether another holder with that room may join them: each of them and the newcomer has room for all.
    pub(crate) fn bear(self, room: Room) -> bool {
        self.count < room.min(self.room).holders()
    }
}
