//! Holders that want to hear what becomes of their grant.

use super::line::Line;
use super::message::{Due, Message, Watch, Word};
use super::waiter::Channel;
use super::{At, Place, State};
use crate::lock::{Fence, Owner};

impl Line {
    /// A holder that knows of its grant, and not of the queue behind it.
    fn next_untold(&mut self) -> Option<&mut Watch> {
        self.watches.iter_mut().find(|watch| watch.claimed && !watch.told)
    }

    fn watch(&mut self, fence: Fence) -> Option<&mut Watch> {
        let place = self.watches.binary_search_by_key(&fence, |watch| watch.fence).ok()?;
        self.watches.get_mut(place)
    }
}

impl<C: Copy> State<C> {
    /// The holder of that grant hears on that channel what becomes of it, and on no other. If somebody waits it is told so, again
    /// if need be: it may ask since it doubts that it heard.
    pub(crate) fn watch(&mut self, at: At<'_>, fence: Fence, owner: Owner<'static>, channel: Channel) {
        self.set_watch(at, Watch { fence, owner, channel, claimed: true, told: false });
        self.tell_wanted(at);
    }

    /// The same from a grant of which its owner does not know yet: until then it can't know what it is to give up.
    pub(crate) fn watch_untold(&mut self, at: At<'_>, fence: Fence, owner: Owner<'static>, channel: Channel) {
        self.set_watch(at, Watch { fence, owner, channel, claimed: false, told: false });
    }

    fn set_watch(&mut self, at: At<'_>, mut watch: Watch) {
        let (_, line) = self.open_line(at);
        match line.watches.binary_search_by_key(&watch.fence, |watch| watch.fence) {
            Ok(known) => {
                let Some(known) = line.watches.get_mut(known) else { return };
                // Who knows of its grant knows of it still.
                watch.claimed |= known.claimed;
                *known = watch;
            }
            Err(next) => line.watches.insert(next, watch),
        }
    }

    /// The owner has claimed that grant, or goes on with it by other holds.
    pub(super) fn watch_claimed(&mut self, at: At<'_>, claimed: Fence) {
        self.with_line(at, |line| {
            if let Some(watch) = line.watch(claimed) {
                watch.claimed = true;
            }
        });
    }

    /// The next grant of a lock, by its fence, whose holder hears what becomes of it.
    pub(crate) fn next_watched(&self, at: At<'_>, seen: Option<Fence>) -> Option<Fence> {
        let watches = &self.line(at)?.watches;
        let unseen = watches.partition_point(|watch| Some(watch.fence) <= seen);
        watches.get(unseen).map(|watch| watch.fence)
    }

    /// The grant is over: its holder hears no more than that word, and nobody has to claim it.
    pub(crate) fn end_watch(&mut self, at: At<'_>, fence: Fence, word: Option<fn(Fence) -> Word>) {
        let ended = self.with_line(at, |line| {
            let place = line.watches.binary_search_by_key(&fence, |watch| watch.fence).ok()?;
            Some(line.watches.remove(place))
        });
        let Some(watch) = ended.flatten() else { return };
        self.end_claims(at, fence);
        if let Some(word) = word {
            self.tell_of(watch, word);
        }
    }

    /// The same for all grants of a lock.
    pub(super) fn end_watches(&mut self, at: At<'_>, word: fn(Fence) -> Word) {
        for watch in self.with_line(at, |line| std::mem::take(&mut line.watches)).unwrap_or_default() {
            self.end_claims(at, watch.fence);
            self.tell_of(watch, word);
        }
    }

    fn tell_of(&mut self, watch: Watch, word: fn(Fence) -> Word) {
        let Watch { fence, owner, channel, .. } = watch;
        self.answered.push_back(Due::Message(Message { channel, word: word(fence), owner }));
    }

    /// Has the holders told that somebody waits, once for each queue that forms behind them.
    pub(crate) fn tell_wanted(&mut self, at: At<'_>) {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return };
        if line.wanted || line.queue.is_empty() || line.next_untold().is_none() {
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
        let watch = line.next_untold()?;
        watch.told = true;
        let Watch { fence, owner, channel, .. } = watch;
        let message = Message { channel: channel.clone(), word: Word::Wanted(*fence), owner: owner.clone() };
        line.wanted = line.next_untold().is_some();
        if line.wanted {
            self.answered.push_front(Due::Wanted(place));
        }
        Some(message)
    }
}
