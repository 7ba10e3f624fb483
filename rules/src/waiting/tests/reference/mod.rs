//! The reference: the simplest lock that keeps to the pages of the commands, with a list of waiters and a list of holders. The reference
//! shares no code with `lock`.
//!
//! - `commands`: the commands of clients.
//! - `clients`: answers to clients, and clients that go away.
//! - `time`: what happens to the lock when time passes, and to its key.

mod clients;
mod commands;
mod time;

use super::server::Conn;
use crate::lock::Millis;

/// The request of an acquire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) who: usize,
    pub(super) lease: Millis,
    pub(super) max_hold: Option<Millis>,
    pub(super) once: bool,
    pub(super) session: bool,
    /// How many holders the grant has room for, its own owner included.
    pub(super) room: usize,
    /// With `LIMIT`: the requested slot, or `None` for any slot.
    pub(super) slot: Option<Option<u32>>,
    /// The label; `None`: the grant keeps its label.
    pub(super) label: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) who: usize,
    pub(super) fence: u64,
    pub(super) holds: u32,
    room: usize,
    pub(super) slot: Option<u32>,
    pub(super) until: Millis,
    /// When the grant reaches its maximum age.
    pub(super) latest: Option<Millis>,
    /// The connection that keeps the grant alive, if there is a session.
    pub(super) session: Option<Session>,
    /// The longest lease of the sessions that have kept the grant alive.
    kept_for: Millis,
    pub(super) label: &'static str,
}

/// A connection that keeps a grant alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    conn: Conn,
    lease: Millis,
    /// When the lease is to be renewed.
    pub(super) renew_at: Millis,
}

/// The answer to a client: the holds, the end of the lease, and the slot if it asked with `LIMIT`; or null.
pub(super) type Told = Option<(u32, Millis, Option<u32>)>;

/// The result of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Granted(u32, Millis, Option<u32>),
    /// The client can't have the lock now. It waits if it asked with `BLOCK`.
    Null,
    /// The client is refused, because another owner already waits for an upgrade.
    Deadlock,
    /// The owner already holds the lock, and can't have the requested slot.
    OtherSlot,
}

/// A client whose wait has ended, and that has not been answered yet.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) conn: Conn,
    pub(super) told: Told,
    /// The latest end of the lease that the answer may have: a session may have renewed the lease before.
    pub(super) latest: Option<Millis>,
    /// The lease of the session, if the client asked for one.
    session: Option<Millis>,
    /// The fence of the client's grant.
    grant: u64,
    /// Whether one hold of the grant was made for this client.
    own_hold: bool,
}

#[derive(Debug, Default)]
pub(super) struct Reference {
    /// The holders, the oldest grant first.
    pub(super) holders: Vec<Holder>,
    /// The waiters in order of arrival, each with the time at which it times out.
    pub(super) waiting: Vec<(Conn, Wish, Option<Millis>)>,
    /// The grant whose owner waits for an upgrade, ahead of the queue.
    pub(super) upgrader: Option<u64>,
    pub(super) answered: Vec<Answered>,
    /// The grants whose sessions' connections have closed, and that go on only because clients that are still to be told will keep them
    /// alive.
    pub(super) orphans: Vec<u64>,
    /// The last fence.
    pub(super) fence: u64,
    pub(super) max_hold: Option<Millis>,
}

impl Reference {
    pub(crate) fn holder(&self, who: usize) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.who == who)
    }

    pub(crate) fn holder_mut(&mut self, who: usize) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.who == who)
    }

    /// Ends the grants for which `ends` is true. Clients that are still to be told of them are told that the lease has ended.
    pub(super) fn end_grants(&mut self, mut ends: impl FnMut(&Holder) -> bool) {
        for holder in self.holders.extract_if(.., |holder| ends(holder)) {
            for answered in self.answered.iter_mut().filter(|answered| answered.grant == holder.fence) {
                let lease_of = |told: &mut (u32, Millis, Option<u32>)| (told.1, answered.latest) = (0, None);
                answered.told.iter_mut().for_each(lease_of);
            }
        }
    }

    fn grant_mut(&mut self, fence: u64) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.fence == fence)
    }

    /// Whether this request fits beside the other holders.
    fn fits(&self, wish: Wish) -> bool {
        let others = self.holders.iter().filter(|holder| holder.who != wish.who);
        let rooms = others.clone().map(|holder| holder.room);
        let fits = rooms.chain([wish.room]).all(|room| others.clone().count() < room);
        // No other holder may have the requested slot.
        fits && wish.slot.flatten().is_none_or(|slot| others.clone().all(|holder| holder.slot != Some(slot)))
    }

    /// Whether a holder asks for another slot than its own.
    fn wants_another_slot(holder: &Holder, wish: Wish) -> bool {
        match (wish.slot, holder.slot) {
            (Some(None), Some(slot)) => slot as usize > wish.room,
            (Some(Some(asked)), Some(slot)) => asked != slot,
            _ => false,
        }
    }

    fn slot_for(&self, wish: Wish) -> Option<u32> {
        let is_free = |slot: &u32| self.holders.iter().all(|holder| holder.slot != Some(*slot));
        match wish.slot {
            // An exclusive grant is the only permit.
            None => (wish.room == 1).then_some(1),
            Some(slot) => slot.or_else(|| (1..).find(is_free)),
        }
    }

    /// Grants the lock to the next waiters that fit, and lets the holders' own waiters re-enter.
    fn serve(&mut self, now: Millis) {
        for holder in self.holders.clone() {
            self.serve_own(holder.who, now);
        }
        while let Some(place) = self.next() {
            let (conn, wish, _) = self.waiting[place];
            if self.holder(wish.who).is_some() || !self.fits(wish) {
                break;
            }
            self.waiting.remove(place);
            let told = self.grant(wish, now);
            self.answer(conn, wish, told, Some(self.fence), true, now);
            self.serve_own(wish.who, now);
        }
    }

    /// Returns the index of the next waiter, if there is one.
    fn next(&mut self) -> Option<usize> {
        let upgrader = self.upgrader.and_then(|fence| self.grant_mut(fence)).map(|holder| holder.who);
        let own = |who: usize| self.waiting.iter().position(|(_, wish, _)| wish.who == who);
        upgrader.and_then(own).or((!self.waiting.is_empty()).then_some(0))
    }

    /// Lets a holder's own waiters re-enter, or wait ahead of the queue. After two waiters that can't re-enter yet, the owner's others wait
    /// for these two.
    fn serve_own(&mut self, who: usize, now: Millis) {
        let (mut seen, mut passed) = (0, 0);
        while passed < 2
            && let Some(holder) = self.holder(who).copied()
            && let Some(place) = self.waiting.iter().skip(seen).position(|(_, wish, _)| wish.who == who)
        {
            let place = seen + place;
            let (conn, wish, _) = self.waiting[place];
            if Self::wants_another_slot(&holder, wish) {
                self.waiting.remove(place);
                self.answer(conn, wish, None, None, false, now);
            } else if wish.room >= holder.room || self.fits(wish) {
                self.waiting.remove(place);
                let told = self.reenter(wish, now);
                self.answer(conn, wish, told, Some(holder.fence), !wish.once, now);
                (seen, passed) = (0, 0);
            } else if self.another_upgrades(holder.fence) {
                self.waiting.remove(place);
                self.answer(conn, wish, None, None, false, now);
            } else {
                self.upgrader = Some(holder.fence);
                seen = place + 1;
                passed += 1;
            }
        }
    }

    /// Whether another holder waits for an upgrade.
    fn another_upgrades(&mut self, fence: u64) -> bool {
        let Some(upgrader) = self.upgrader.filter(|upgrader| *upgrader != fence) else { return false };
        let Some(holder) = self.grant_mut(upgrader).copied() else { return false };
        self.waiting.iter().any(|(_, wish, _)| wish.who == holder.who)
    }

    fn grant(&mut self, wish: Wish, now: Millis) -> Told {
        self.fence = (self.fence + 1).max(now.unsigned_abs() * 1000);
        let age = wish.max_hold.into_iter().chain(self.max_hold).min();
        let until = now + age.map_or(wish.lease, |age| age.min(wish.lease));
        let latest = age.map(|age| now + age);
        let Wish { who, room, label, .. } = wish;
        let (fence, slot, label) = (self.fence, self.slot_for(wish), label.unwrap_or_default());
        let (session, kept_for) = (None, 0);
        self.holders.push(Holder {
            who,
            fence,
            holds: 1,
            room,
            slot,
            until,
            latest,
            session,
            kept_for,
            label,
        });
        Some((1, until, wish.slot.and(slot)))
    }

    fn reenter(&mut self, wish: Wish, now: Millis) -> Told {
        let slot = self.holder(wish.who)?.slot.or_else(|| self.slot_for(wish));
        let holder = self.holder_mut(wish.who)?;
        holder.slot = slot;
        holder.holds += u32::from(!wish.once);
        holder.room = holder.room.min(wish.room);
        holder.label = wish.label.unwrap_or(holder.label);
        holder.until = holder.until.max(holder.longest(wish.lease, now));
        Some((holder.holds, holder.until, wish.slot.and(slot)))
    }
}

impl Outcome {
    fn of((holds, until, slot): (u32, Millis, Option<u32>)) -> Self {
        Self::Granted(holds, until, slot)
    }

    pub(crate) fn told(self) -> Told {
        match self {
            Self::Granted(holds, until, slot) => Some((holds, until, slot)),
            Self::Null | Self::Deadlock | Self::OtherSlot => None,
        }
    }
}

impl Holder {
    /// Returns the latest end that the lease can have if there is a session.
    pub(crate) fn renewed(&self, now: Millis) -> Option<Millis> {
        self.session.map(|_| self.longest(self.kept_for, now).max(self.until))
    }

    /// Returns the latest time at which the next renewal may be.
    pub(crate) fn renews_by(&self, now: Millis) -> Millis {
        self.session.map_or(now, |session| session.renew_at).max(now + third(self.kept_for))
    }

    fn longest(&self, lease: Millis, now: Millis) -> Millis {
        self.latest.map_or(now + lease, |latest| latest.min(now + lease))
    }
}

fn third(lease: Millis) -> Millis {
    (lease / 3).max(1)
}
