//! The simplest lock there is, by the pages of the commands: one list of who waits, and one of who holds it. No code is shared with
//! `lock`.

use super::server::Conn;
use crate::lock::Millis;

/// What an acquire asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) who: usize,
    pub(super) lease: Millis,
    pub(super) max_hold: Option<Millis>,
    pub(super) once: bool,
    pub(super) session: bool,
    /// How many may hold the lock with it, itself included.
    pub(super) room: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) who: usize,
    pub(super) fence: u64,
    pub(super) holds: u32,
    room: usize,
    pub(super) until: Millis,
    /// The greatest age ends then.
    pub(super) latest: Option<Millis>,
    /// What keeps the grant alive.
    pub(super) session: Option<Session>,
    /// The longest lease of those that kept it alive.
    kept_for: Millis,
}

/// A connection that keeps a grant alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    conn: Conn,
    lease: Millis,
    /// When the lease is to be renewed.
    pub(super) renew_at: Millis,
}

/// What somebody is told: the holds and the end of the lease, or null.
pub(super) type Told = Option<(u32, Millis)>;

/// What comes of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comes {
    Granted(u32, Millis),
    /// It waits, where it wants to.
    Null,
    /// It does not, since it would wait for one who waits for it.
    Deadlock,
}

/// Somebody who waited, and has not been told yet.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) conn: Conn,
    pub(super) told: Told,
    /// As late may the end of the lease be that it is told, if a session was renewed before.
    pub(super) latest: Option<Millis>,
    /// The lease of the session that it asks for.
    session: Option<Millis>,
    /// By its fence.
    grant: u64,
    /// One of its holds was made for that.
    own_hold: bool,
}

#[derive(Debug, Default)]
pub(super) struct Reference {
    /// The oldest first.
    pub(super) holders: Vec<Holder>,
    /// First come first.
    pub(super) waiting: Vec<(Conn, Wish, Option<Millis>)>,
    /// The grant whose owner waits in front of all others.
    pub(super) upgrader: Option<u64>,
    pub(super) answered: Vec<Answered>,
    /// The last one's.
    pub(super) fence: u64,
    pub(super) max_hold: Option<Millis>,
    /// When the server last did by itself what was due, or tried to.
    pub(super) rang: Millis,
    /// Until when it was to be quiet.
    pub(super) quiet: Millis,
}

impl Reference {
    pub(super) fn holder(&self, who: usize) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.who == who)
    }

    pub(super) fn holder_mut(&mut self, who: usize) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.who == who)
    }

    fn grant_mut(&mut self, fence: u64) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.fence == fence)
    }

    /// Time has come to that: a lease may be over, and somebody have waited for long enough.
    pub(super) fn look(&mut self, now: Millis) {
        self.lapse(now);
        self.renew(now);
        self.serve(now);
        // Who gives up lets those behind it in.
        while self.time_out_first(now) {
            self.serve(now);
        }
        self.rang = now;
    }

    /// A lease is renewed when that is due, and in its last millisecond at the latest.
    fn renew(&mut self, now: Millis) {
        for holder in &mut self.holders {
            let Some(session) = holder.session else { continue };
            if session.renew_at <= now || holder.until <= now {
                holder.until = holder.until.max(holder.longest(session.lease, now));
                holder.session = Some(Session { renew_at: now + third(session.lease), ..session });
            }
        }
    }

    /// The same on a server that refuses all writes: only waits end.
    pub(super) fn look_in_vain(&mut self, now: Millis) {
        self.time_out(now);
        self.rang = now;
    }

    /// The same in a pause of the server: only waits end, and nothing else is looked at for a while.
    pub(super) fn look_in_a_pause(&mut self, now: Millis) {
        self.time_out(now);
        self.quiet = now + 1;
    }

    fn time_out(&mut self, now: Millis) {
        while self.time_out_first(now) {}
    }

    /// Whether somebody has waited for long enough: the one whose time was up first.
    fn time_out_first(&mut self, now: Millis) -> bool {
        let late = (0..)
            .zip(&self.waiting)
            .filter_map(|(place, (_, _, at))| Some((at.filter(|at| *at <= now)?, place)));
        let Some((_, place)) = late.min() else { return false };
        let (conn, wish, _) = self.waiting.remove(place);
        self.answer(conn, wish, None, None, false, now);
        true
    }

    /// A lease may be over. What a connection keeps alive is given another one, if it goes on.
    pub(super) fn lapse(&mut self, now: Millis) {
        for place in (0..self.holders.len()).rev() {
            let holder = self.holders[place];
            let session = holder.session.filter(|session| self.goes_on(&holder, session, now));
            match session {
                _ if holder.until >= now => {}
                Some(session) => self.holders[place].until = holder.longest(session.lease, now),
                None => _ = self.holders.remove(place),
            }
        }
    }

    /// Whether a session goes on though the lease is over: the server was to renew it, and has done nothing at all from then
    /// until now. What it might have renewed, and has not, is over.
    fn goes_on(&self, holder: &Holder, session: &Session, now: Millis) -> bool {
        let stood_still_from = self.quiet.max(self.rang + 1);
        let may_last = holder.latest.is_none_or(|latest| now <= latest);
        may_last && (stood_still_from..=now).contains(&session.renew_at)
    }

    /// No connection keeps any grant alive any more.
    pub(super) fn end_sessions(&mut self) {
        self.holders.iter_mut().for_each(|holder| holder.session = None);
    }

    /// The key holds something else, and then nothing.
    pub(super) fn overwrite(&mut self, now: Millis) {
        self.holders.clear();
        self.rang = now;
        for (conn, wish, _) in std::mem::take(&mut self.waiting) {
            self.answer(conn, wish, None, None, false, now);
        }
    }

    /// Another lock is put in its place: no connection keeps that alive.
    pub(super) fn replace(&mut self, who: usize, lease: Millis, now: Millis) {
        self.holders.clear();
        self.grant(Wish { who, lease, max_hold: None, once: false, session: false, room: 1 }, now);
    }

    /// Those who are to be told are told.
    pub(super) fn tell(&mut self, now: Millis) -> Vec<Answered> {
        let answered = std::mem::take(&mut self.answered);
        for Answered { conn, told, session, grant, .. } in &answered {
            if let (Some(_), Some(lease)) = (told, session) {
                self.keep_alive(*conn, *lease, *grant, now);
            }
        }
        answered
    }

    /// An operator has one told who waits.
    pub(super) fn unblock(&mut self, conn: Conn, now: Millis) -> Vec<Answered> {
        if let Some(place) = self.waiting.iter().position(|(waits, ..)| *waits == conn) {
            let (_, wish, _) = self.waiting.remove(place);
            self.answer(conn, wish, None, None, false, now);
        }
        let told: Vec<_> = self.answered.extract_if(.., |answered| answered.conn == conn).collect();
        for Answered { told, session, grant, .. } in &told {
            if let (Some(_), Some(lease)) = (told, session) {
                self.bind(conn, *lease, *grant, now);
            }
        }
        told
    }

    /// One that is told before the others finds the lock as it is. What goes on is given its lease later.
    fn bind(&mut self, conn: Conn, lease: Millis, grant: u64, now: Millis) {
        let over = |holder: &Holder| {
            let goes_on = holder.session.is_some_and(|session| self.goes_on(holder, &session, now));
            holder.until < now && !goes_on
        };
        // The server finds it out, where that is so of all.
        if self.holders.iter().all(over) {
            self.holders.clear();
        }
        if self.grant_mut(grant).is_some_and(|holder| now <= holder.until) {
            self.keep_alive(conn, lease, grant, now);
        }
    }

    /// A third of the lease later it is renewed.
    fn keep_alive(&mut self, conn: Conn, lease: Millis, grant: u64, now: Millis) {
        if let Some(holder) = self.grant_mut(grant) {
            holder.session = Some(Session { conn, lease, renew_at: now + third(lease) });
            holder.kept_for = holder.kept_for.max(lease);
        }
    }

    /// Whether that owner fits with the others who hold the lock.
    fn fits(&self, who: usize, room: usize) -> bool {
        let others = self.holders.iter().filter(|holder| holder.who != who);
        let rooms = others.clone().map(|holder| holder.room);
        rooms.chain([room]).all(|room| others.clone().count() < room)
    }

    /// Those who are next and fit have the lock, the holders' own waiters again.
    fn serve(&mut self, now: Millis) {
        for holder in self.holders.clone() {
            self.serve_own(holder.who, now);
        }
        while let Some(place) = self.next() {
            let (conn, wish, _) = self.waiting[place];
            if self.holder(wish.who).is_some() || !self.fits(wish.who, wish.room) {
                break;
            }
            self.waiting.remove(place);
            let told = self.grant(wish, now);
            self.answer(conn, wish, told, Some(self.fence), true, now);
            self.serve_own(wish.who, now);
        }
    }

    /// The place of the one who is next.
    fn next(&mut self) -> Option<usize> {
        let upgrader = self.upgrader.and_then(|fence| self.grant_mut(fence)).map(|holder| holder.who);
        let own = |who: usize| self.waiting.iter().position(|(_, wish, _)| wish.who == who);
        upgrader.and_then(own).or((!self.waiting.is_empty()).then_some(0))
    }

    /// A holder's own waiters re-enter, or wait in front.
    fn serve_own(&mut self, who: usize, now: Millis) {
        let mut seen = 0;
        while let Some(holder) = self.holder(who).copied()
            && let Some(place) = self.waiting.iter().skip(seen).position(|(_, wish, _)| wish.who == who)
        {
            let place = seen + place;
            let (conn, wish, _) = self.waiting[place];
            if wish.room >= holder.room || self.fits(who, wish.room) {
                self.waiting.remove(place);
                let told = self.reenter(wish, now);
                self.answer(conn, wish, told, Some(holder.fence), !wish.once, now);
            } else if self.another_upgrades(holder.fence) {
                self.waiting.remove(place);
                self.answer(conn, wish, None, None, false, now);
            } else {
                self.upgrader = Some(holder.fence);
                seen = place + 1;
            }
        }
    }

    /// Whether another holder waits to have its grant with less room.
    fn another_upgrades(&mut self, fence: u64) -> bool {
        let Some(upgrader) = self.upgrader.filter(|upgrader| *upgrader != fence) else { return false };
        let Some(holder) = self.grant_mut(upgrader).copied() else { return false };
        self.waiting.iter().any(|(_, wish, _)| wish.who == holder.who)
    }

    fn answer(
        &mut self,
        conn: Conn,
        wish: Wish,
        told: Told,
        grant: Option<u64>,
        own_hold: bool,
        now: Millis,
    ) {
        let latest = self.holder(wish.who).and_then(|holder| holder.renewed(now));
        let session = wish.session.then_some(wish.lease);
        self.answered.push(Answered { conn, told, latest, session, grant: grant.unwrap_or(0), own_hold });
    }

    fn grant(&mut self, wish: Wish, now: Millis) -> Told {
        self.fence = (self.fence + 1).max(now.unsigned_abs() * 1000);
        let age = wish.max_hold.into_iter().chain(self.max_hold).min();
        let until = now + age.map_or(wish.lease, |age| age.min(wish.lease));
        let latest = age.map(|age| now + age);
        let Wish { who, room, .. } = wish;
        let fence = self.fence;
        self.holders.push(Holder { who, fence, holds: 1, room, until, latest, session: None, kept_for: 0 });
        Some((1, until))
    }

    fn reenter(&mut self, wish: Wish, now: Millis) -> Told {
        let holder = self.holder_mut(wish.who)?;
        holder.holds += u32::from(!wish.once);
        holder.room = holder.room.min(wish.room);
        holder.until = holder.until.max(holder.longest(wish.lease, now));
        Some((holder.holds, holder.until))
    }

    pub(super) fn acquire(&mut self, conn: Conn, wish: Wish, block: bool, now: Millis) -> Comes {
        self.lapse(now);
        self.serve(now);
        let comes = self.take(wish, block, now);
        let holder = self.holder(wish.who).copied();
        if let (Comes::Granted(..), Some(holder), true) = (comes, holder, wish.session) {
            // Those who are still to be told keep alive what is another's by then.
            for answered in self.answered.iter_mut().filter(|answered| answered.grant == holder.fence) {
                answered.session = None;
            }
            self.keep_alive(conn, wish.lease, holder.fence, now);
        }
        comes
    }

    fn take(&mut self, wish: Wish, block: bool, now: Millis) -> Comes {
        let Some(holder) = self.holder(wish.who).copied() else {
            return match self.waiting.is_empty() && self.fits(wish.who, wish.room) {
                true => self.grant(wish, now).map_or(Comes::Null, Comes::of),
                false => Comes::Null,
            };
        };
        if wish.room < holder.room && !self.fits(wish.who, wish.room) {
            if block && self.another_upgrades(holder.fence) {
                return Comes::Deadlock;
            }
            if block {
                self.upgrader = Some(holder.fence);
            }
            return Comes::Null;
        }
        if wish.once {
            self.share_hold(holder.fence);
        }
        self.reenter(wish, now).map_or(Comes::Null, Comes::of)
    }

    /// The owner has been told of the grant by a way of its own: it is not taken back with those who are still to be told.
    fn share_hold(&mut self, grant: u64) {
        for answered in self.answered.iter_mut().filter(|answered| answered.grant == grant) {
            answered.own_hold = false;
        }
    }

    pub(super) fn release(&mut self, who: usize, all: bool, now: Millis) -> Option<u32> {
        let several = self.holders.len() > 1 && self.holders.iter().any(|holder| holder.until >= now);
        self.lapse(now);
        if several {
            // What has lapsed of several is looked for by every command.
            self.serve(now);
        }
        let left = self.give_back(who, all)?;
        if left == 0 {
            self.serve(now);
        }
        Some(left)
    }

    fn give_back(&mut self, who: usize, all: bool) -> Option<u32> {
        let holder = self.holder_mut(who)?;
        holder.holds = if all { 0 } else { holder.holds - 1 };
        let left = holder.holds;
        self.holders.retain(|holder| holder.holds > 0);
        Some(left)
    }

    /// Some grants are over, or all: how many.
    pub(super) fn end(&mut self, fence: Option<u64>, now: Millis) -> usize {
        let before = self.holders.len();
        self.holders.retain(|holder| fence.is_some_and(|fence| holder.fence != fence));
        self.serve(now);
        before - self.holders.len().min(before)
    }

    pub(super) fn extend(&mut self, who: usize, lease: Millis, now: Millis) -> Option<Millis> {
        self.look_for_holder(now);
        let holder = self.holder_mut(who)?;
        let until = holder.longest(lease, now);
        let fence = holder.fence;
        let extends = until >= now;
        if extends {
            holder.until = until;
            self.share_hold(fence);
        }
        extends.then_some(until)
    }

    /// An extension finds the lock as a newcomer would.
    pub(super) fn look_for_holder(&mut self, now: Millis) {
        self.lapse(now);
        self.serve(now);
    }

    /// A connection closes. What it kept alive ends, unless one who is still to be told will keep it alive.
    pub(super) fn close(&mut self, conn: Conn, now: Millis) {
        self.waiting.retain(|(waits, _, _)| *waits != conn);
        let kept = |holder: &Holder| holder.session.is_some_and(|session| session.conn == conn);
        self.holders.retain(|holder| !kept(holder) || holder.until >= now);
        self.leave(conn);
        let heirs: Vec<u64> = self
            .answered
            .iter()
            .filter(|other| other.told.is_some() && other.session.is_some())
            .map(|other| other.grant)
            .collect();
        self.holders.retain(|holder| !kept(holder) || heirs.contains(&holder.fence));
        for holder in self.holders.iter_mut().filter(|holder| kept(holder)) {
            holder.session = None;
        }
    }

    /// A client that waits is told nothing.
    pub(super) fn send_away(&mut self, conn: Conn) {
        self.waiting.retain(|(waits, _, _)| *waits != conn);
        self.leave(conn);
    }

    /// What it was granted is taken back, one hold of it, unless another was told of that same hold later.
    fn leave(&mut self, conn: Conn) {
        let Some(place) = self.answered.iter().position(|answered| answered.conn == conn) else { return };
        let gone = self.answered.remove(place);
        if gone.told.is_none() || !gone.own_hold {
            return;
        }
        let heir =
            |other: &&mut Answered| other.told.is_some() && other.grant == gone.grant && !other.own_hold;
        if let Some(heir) = self.answered.iter_mut().skip(place).find(heir) {
            heir.own_hold = true;
        } else if let Some(who) = self.grant_mut(gone.grant).map(|holder| holder.who) {
            self.give_back(who, false);
        }
    }
}

impl Comes {
    fn of((holds, until): (u32, Millis)) -> Self {
        Self::Granted(holds, until)
    }

    pub(super) fn told(self) -> Told {
        match self {
            Self::Granted(holds, until) => Some((holds, until)),
            Self::Null | Self::Deadlock => None,
        }
    }
}

impl Holder {
    /// The latest end of the lease, if the connection that keeps it alive has it renewed.
    pub(super) fn renewed(&self, now: Millis) -> Option<Millis> {
        self.session.map(|_| self.longest(self.kept_for, now).max(self.until))
    }

    /// The latest time of the next renewal.
    pub(super) fn renews_by(&self, now: Millis) -> Millis {
        self.session.map_or(now, |session| session.renew_at).max(now + third(self.kept_for))
    }

    fn longest(&self, lease: Millis, now: Millis) -> Millis {
        self.latest.map_or(now + lease, |latest| latest.min(now + lease))
    }
}

fn third(lease: Millis) -> Millis {
    (lease / 3).max(1)
}
