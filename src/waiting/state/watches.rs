//! Holders that want to hear what becomes of their grant.

use super::line::Line;
use super::message::{Due, Message, Wanted, Watch, Word};
use super::waiter::Channel;
use super::{At, State};
use crate::lock::{Fence, Owner};

impl<C: Copy> State<C> {
    /// The holder of that grant hears on that channel what becomes of it, and on no other. If somebody waits it is told so, again
    /// if need be: it may ask since it doubts that it heard.
    pub(crate) fn watch(&mut self, at: At<'_>, fence: Fence, owner: Owner<'static>, channel: Channel) {
        self.set_watch(at, Watch { fence, owner, channel, claimed: true, wanted: Wanted::No });
        self.tell_wanted(at);
    }

    /// The same from a grant that is to be claimed: until then its owner can't know what it is to give up.
    pub(super) fn watch_place(&mut self, at: At<'_>, fence: Fence, owner: Owner<'static>, channel: Channel) {
        self.set_watch(at, Watch { fence, owner, channel, claimed: false, wanted: Wanted::No });
    }

    fn set_watch(&mut self, at: At<'_>, mut watch: Watch) {
        let (_, line) = self.open_line(at);
        // What is due already is told once.
        if line.watch.as_ref().is_some_and(|watch| watch.wanted == Wanted::Due) {
            watch.wanted = Wanted::Due;
        }
        line.watch = Some(Box::new(watch));
    }

    /// The owner has claimed that grant, or goes on with it by other holds.
    pub(super) fn watch_claimed(&mut self, at: At<'_>, claimed: Fence) {
        let claim = |line: &mut Line| {
            let same = line.watch.iter_mut().filter(|watch| watch.fence == claimed);
            same.for_each(|watch| watch.claimed = true);
        };
        self.with_line(at, claim);
    }

    /// The grant is over: its holder hears no more than that word.
    pub(crate) fn end_watch(&mut self, at: At<'_>, word: Option<fn(Fence) -> Word>) {
        let Some(watch) = self.with_line(at, |line| line.watch.take()).flatten() else { return };
        if let Some(word) = word {
            let Watch { fence, owner, channel, .. } = *watch;
            self.answered.push_back(Due::Message(Message { channel, word: word(fence), owner }));
        }
    }

    /// Has the holder told that somebody waits, once for each queue that forms behind it.
    pub(crate) fn tell_wanted(&mut self, at: At<'_>) {
        let Some(line) = self.lines.get_mut(at).filter(|line| !line.queue.is_empty()) else { return };
        let untold = |watch: &&mut Box<Watch>| watch.claimed && watch.wanted == Wanted::No;
        let Some(watch) = line.watch.as_mut().filter(untold) else { return };
        watch.wanted = Wanted::Due;
        self.answered.extend(self.lines.place(at).map(Due::Wanted));
    }

    /// What the holder is told then, unless its queue has dissolved meanwhile.
    pub(super) fn wanted(&mut self, at: At<'_>) -> Option<Message> {
        let line = self.lines.get_mut(at)?;
        let watch = line.watch.as_mut().filter(|watch| watch.wanted == Wanted::Due)?;
        if line.queue.is_empty() {
            watch.wanted = Wanted::No;
            return None;
        }
        watch.wanted = Wanted::Told;
        let Watch { fence, owner, channel, .. } = watch.as_ref();
        Some(Message { channel: channel.clone(), word: Word::Wanted(*fence), owner: owner.clone() })
    }
}
