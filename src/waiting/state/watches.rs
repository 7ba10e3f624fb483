//! Holders that want to hear what becomes of their grant.

use super::grants::{GrantRecord, Listener};
use super::message::{Due, Message, Word};
use super::waiter::Channel;
use super::{At, Place, State};
use crate::lock::{Fence, Owner};

impl<C: Copy> State<C> {
    /// The holder of that grant hears on that channel what becomes of it, and on no other. If somebody waits it is told so, again
    /// if need be: it may ask since it doubts that it heard.
    pub(crate) fn watch(&mut self, at: At<'_>, fence: Fence, owner: Owner<'static>, channel: Channel) {
        self.set_listener(at, fence, Listener { owner, channel, claimed: true, told: false });
        self.tell_wanted(at);
    }

    /// The same from a grant of which its owner does not know yet: until then it can't know what it is to give up.
    pub(crate) fn watch_untold(&mut self, at: At<'_>, fence: Fence, owner: Owner<'static>, channel: Channel) {
        self.set_listener(at, fence, Listener { owner, channel, claimed: false, told: false });
    }

    fn set_listener(&mut self, at: At<'_>, fence: Fence, mut listener: Listener) {
        let (_, line) = self.open_line(at);
        line.grants.open(fence, |record| {
            // Who knows of its grant knows of it still.
            listener.claimed |= record.listener.as_ref().is_some_and(|known| known.claimed);
            record.listener = Some(Box::new(listener));
        });
    }

    /// The owner has claimed that grant, or goes on with it by other holds.
    pub(super) fn watch_claimed(&mut self, at: At<'_>, claimed: Fence) {
        self.with_line(at, |line| {
            line.grants.change(claimed, |record| {
                record.listener.iter_mut().for_each(|listener| listener.claimed = true);
            })
        });
    }

    /// Has the holders told that somebody waits, once for each queue that forms behind them.
    pub(crate) fn tell_wanted(&mut self, at: At<'_>) {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return };
        if line.wanted || line.queue.is_empty() || line.grants.counts().uninformed == 0 {
            return;
        }
        line.wanted = true;
        self.answered.push_back(Due::Wanted(place.clone()));
    }

    /// What the next holder is told then, unless the queue has dissolved meanwhile; the others after it.
    pub(super) fn wanted(&mut self, place: Place) -> Option<Message> {
        let line = self.lines.get_mut(place.at())?;
        line.wanted = false;
        if line.queue.is_empty() {
            return None;
        }
        let fence = line.grants.first_uninformed()?;
        let inform = |record: &mut GrantRecord| {
            let listener = record.listener.as_deref_mut()?;
            listener.told = true;
            Some((listener.channel.clone(), listener.owner.clone()))
        };
        let (channel, owner) = line.grants.change(fence, inform).flatten()?;
        line.wanted = line.grants.counts().uninformed > 0;
        if line.wanted {
            self.answered.push_front(Due::Wanted(place));
        }
        Some(Message { channel, word: Word::Wanted(fence), owner })
    }
}
