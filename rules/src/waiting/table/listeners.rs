//! Listening holders: holders that get messages when their grants end, or when somebody waits for their locks.

use std::collections::VecDeque;

use super::grant_record::Listener;
use super::lock_id::{LockId, LockRef};
use super::locks::Locks;
use super::outgoing::{Message, Notice};
use super::waiter::Channel;
use crate::lock::{Fence, Owner};

/// The listening holders, and the list of messages to be sent.
pub(crate) struct Listeners<'a> {
    pub(super) locks: &'a mut Locks,
    pub(super) outgoing: &'a mut VecDeque<Notice>,
}

impl Listeners<'_> {
    /// From now on, the holder of this grant gets its messages about the grant on this channel, and on no other. If somebody waits, the
    /// holder is told so at once, even if it has been told before, because a holder asks again when it may have missed a message.
    pub(crate) fn watch(&mut self, at: LockRef<'_>, fence: Fence, owner: Owner<'static>, channel: Channel) {
        self.set(at, fence, Listener { owner, channel, claimed: true, told: false });
        self.tell_wanted(at);
    }

    /// Like `watch`, for a holder that has not claimed its grant yet. Until the holder claims the grant, it is not told that somebody
    /// waits, because it does not know yet what to release.
    pub(crate) fn watch_unclaimed(
        &mut self,
        at: LockRef<'_>,
        fence: Fence,
        owner: Owner<'static>,
        channel: Channel,
    ) {
        self.set(at, fence, Listener { owner, channel, claimed: false, told: false });
    }

    fn set(&mut self, at: LockRef<'_>, fence: Fence, mut listener: Listener) {
        listener.channel.start = None;
        let (_, entry) = self.locks.open(at);
        entry.grants.open(fence, |record| {
            // A holder that knew of its grant still knows of it.
            listener.claimed |= record.listener.as_ref().is_some_and(|known| known.claimed);
            record.listener = Some(Box::new(listener));
        });
    }

    /// Notes that the holder of this grant knows of it, and so can be told that somebody waits.
    pub(super) fn knows(&mut self, at: LockRef<'_>, fence: Fence) {
        self.locks.change(at, |entry| entry.grants.listener_knows(fence));
        self.tell_wanted(at);
    }

    /// If somebody waits, notes that the module has to tell this to the holders that have not been told since the queue was last empty.
    pub(crate) fn tell_wanted(&mut self, at: LockRef<'_>) {
        if let Some((id, entry)) = self.locks.entries.get_key_mut(at)
            && entry.want()
        {
            self.outgoing.push_back(Notice::Wanted(id.clone()));
        }
    }

    /// Returns the message that tells the next holder that somebody waits. The remaining holders are told afterwards.
    pub(super) fn next_wanted(&mut self, id: LockId) -> Option<Message> {
        let entry = self.locks.entries.get_mut(id.to_ref())?;
        let message = entry.next_wanted()?;
        if entry.wanted {
            self.outgoing.push_front(Notice::Wanted(id));
        }
        Some(message)
    }
}
