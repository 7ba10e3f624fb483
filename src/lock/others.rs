//! The other holders of a lock, from the point of view of an owner that asks for the lock.

use super::{Room, UsedSlots};

/// The holders of a lock, without the owner that asks for the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others<'a> {
    pub(crate) count: usize,
    /// The least room of these holders' grants.
    pub(crate) room: Room,
    pub(crate) slots: UsedSlots<'a>,
}

impl Others<'_> {
    pub(crate) const NONE: Self = Self { count: 0, room: Room::ANY, slots: UsedSlots::NONE };

    /// Whether a new holder with this room fits beside these holders. The new grant and the grants of these holders must all have room for
    /// every holder.
    pub(crate) fn have_room_for(self, room: Room) -> bool {
        self.count < room.min(self.room).holders()
    }
}
