//! The other holders of a lock, from the point of view of an owner that asks for the lock.

use super::{Room, UsedSlots};

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
