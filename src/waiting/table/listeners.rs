//! Holders that want to hear what becomes of their grant.

use super::grants::{GrantRecord, Listener};
use super::outgoing::{Message, MessageKind, Notice};
use super::waiter::Channel;
use super::{LockId, LockRef, WaitTable};
use crate::lock::{Fence, Owner};

impl<C: Copy> WaitTable<C> {
    /// The holder of that grant hears on that channel what becomes of it, and on no other. If somebody waits it is told so, again
    /// if need be: it may ask since it doubts that it heard.
    pub(crate) fn watch(&mut self, at: LockRef<'_>, fence: Fence, owner: Owner<'static>, channel: Channel) {
        self.set_listener(at, fence, Listener { owner, channel, claimed: true, told: false });
        self.tell_wanted(at);
    }

    /// The holder hears what becomes of a grant of which it does not know yet. Until it does, it is not told that somebody waits: it can't
    /// know what it is to give up.
    pub(crate) fn watch_untold(
        &mut self,
        at: LockRef<'_>,
        fence: Fence,
        owner: Owner<'static>,
        channel: Channel,
    ) {
        self.set_listener(at, fence, Listener { owner, channel, claimed: false, told: false });
    }

    fn set_listener(&mut self, at: LockRef<'_>, fence: Fence, mut listener: Listener) {
        let (_, entry) = self.open_entry(at);
        entry.grants.open(fence, |record| {
            // A holder that knew of its grant still knows of it.
            listener.claimed |= record.listener.as_ref().is_some_and(|known| known.claimed);
            record.listener = Some(Box::new(listener));
        });
    }

    /// Has the holders told that somebody waits, once for each queue that forms behind them.
    pub(crate) fn tell_wanted(&mut self, at: LockRef<'_>) {
        let Some((id, entry)) = self.entries.get_key_mut(at) else { return };
        if entry.wanted || entry.queue.is_empty() || entry.grants.counts().uninformed == 0 {
            return;
        }
        entry.wanted = true;
        self.outgoing.push_back(Notice::Wanted(id.clone()));
    }

    /// The message to the next holder that somebody waits, unless the queue has dissolved meanwhile; the others are told after it.
    pub(super) fn wanted(&mut self, id: LockId) -> Option<Message> {
        let entry = self.entries.get_mut(id.to_ref())?;
        entry.wanted = false;
        if entry.queue.is_empty() {
            return None;
        }
        let fence = entry.grants.first_uninformed()?;
        let inform = |record: &mut GrantRecord| {
            let listener = record.listener.as_deref_mut()?;
            listener.told = true;
            Some((listener.channel.clone(), listener.owner.clone()))
        };
        let (channel, owner) = entry.grants.change(fence, inform).flatten()?;
        entry.wanted = entry.grants.counts().uninformed > 0;
        if entry.wanted {
            self.outgoing.push_front(Notice::Wanted(id));
        }
        Some(Message { channel, kind: MessageKind::Wanted(fence), owner })
    }
}
