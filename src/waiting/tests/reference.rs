//! The simplest lock there is, by the pages of the commands: one list of who waits, and one holder. No code is shared with
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) who: usize,
    pub(super) holds: u32,
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

/// Somebody who waited, and has not been told yet.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) conn: Conn,
    pub(super) told: Told,
    /// As late may the end of the lease be that it is told, if a session was renewed before.
    pub(super) latest: Option<Millis>,
    /// The lease of the session that it asks for.
    session: Option<Millis>,
    /// By its number.
    grant: u64,
    /// One of its holds was made for that.
    own_hold: bool,
}

#[derive(Debug, Default)]
pub(super) struct Reference {
    pub(super) holder: Option<Holder>,
    /// First come first.
    pub(super) waiting: Vec<(Conn, Wish, Option<Millis>)>,
    pub(super) answered: Vec<Answered>,
    /// How many grants were made.
    pub(super) grants: u64,
    /// The last one's fence.
    pub(super) fence: u64,
    pub(super) max_hold: Option<Millis>,
    /// When the server last did by itself what was due, or tried to.
    pub(super) rang: Millis,
    /// Until when it was to be quiet.
    pub(super) quiet: Millis,
}

impl Reference {
    /// Time has come to that: a lease may be over, and somebody have waited for long enough.
    pub(super) fn look(&mut self, now: Millis) {
        self.lapse(now);
        self.renew(now);
        self.serve(now);
        self.look_in_vain(now);
    }

    /// A lease is renewed when that is due, and in its last millisecond at the latest.
    fn renew(&mut self, now: Millis) {
        let Some(holder) = &mut self.holder else { return };
        let Some(session) = holder.session else { return };
        if session.renew_at <= now || holder.until <= now {
            holder.until = holder.until.max(holder.longest(session.lease, now));
            holder.session = Some(Session { renew_at: now + third(session.lease), ..session });
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
        let late = self.waiting.extract_if(.., |(_, _, gives_up)| gives_up.is_some_and(|at| at <= now));
        for (conn, wish, _) in late.collect::<Vec<_>>() {
            self.answer(conn, wish, None, false, now);
        }
    }

    /// A lease may be over. What a connection keeps alive is given another one, if it goes on.
    pub(super) fn lapse(&mut self, now: Millis) {
        let Some(holder) = self.holder.filter(|holder| holder.until < now) else { return };
        let session = holder.session.filter(|session| self.goes_on(&holder, session, now));
        self.holder = session.map(|session| Holder { until: holder.longest(session.lease, now), ..holder });
    }

    /// Whether a session goes on though the lease is over: the server was to renew it, and has done nothing at all from then
    /// until now. What it might have renewed, and has not, is over.
    fn goes_on(&self, holder: &Holder, session: &Session, now: Millis) -> bool {
        let stood_still_from = self.quiet.max(self.rang + 1);
        let may_last = holder.latest.is_none_or(|latest| now <= latest);
        may_last && (stood_still_from..=now).contains(&session.renew_at)
    }

    /// No connection keeps the grant alive any more.
    pub(super) fn end_session(&mut self) {
        self.holder.iter_mut().for_each(|holder| holder.session = None);
    }

    /// The key holds something else, and then nothing.
    pub(super) fn overwrite(&mut self, now: Millis) {
        self.holder = None;
        self.rang = now;
        for (conn, wish, _) in std::mem::take(&mut self.waiting) {
            self.answer(conn, wish, None, false, now);
        }
    }

    /// Another lock is put in its place: no connection keeps that alive.
    pub(super) fn replace(&mut self, who: usize, lease: Millis, now: Millis) {
        self.grant(Wish { who, lease, max_hold: None, once: false, session: false }, now);
    }

    /// Those who are to be told are told.
    pub(super) fn tell(&mut self, now: Millis) -> Vec<Answered> {
        let answered = std::mem::take(&mut self.answered);
        for Answered { conn, told, session, grant, .. } in &answered {
            if let (Some(_), Some(lease), true) = (told, session, *grant == self.grants) {
                self.keep_alive(*conn, *lease, now);
            }
        }
        answered
    }

    /// An operator has one told who waits.
    pub(super) fn unblock(&mut self, conn: Conn, now: Millis) -> Vec<Answered> {
        if let Some(place) = self.waiting.iter().position(|(waits, ..)| *waits == conn) {
            let (_, wish, _) = self.waiting.remove(place);
            self.answer(conn, wish, None, false, now);
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
        match self.holder {
            Some(holder) if now <= holder.until => {
                if grant == self.grants {
                    self.keep_alive(conn, lease, now);
                }
            }
            Some(holder) if holder.session.is_some_and(|session| self.goes_on(&holder, &session, now)) => (),
            _ => self.holder = None,
        }
    }

    /// A third of the lease later it is renewed.
    fn keep_alive(&mut self, conn: Conn, lease: Millis, now: Millis) {
        if let Some(holder) = &mut self.holder {
            holder.session = Some(Session { conn, lease, renew_at: now + third(lease) });
            holder.kept_for = holder.kept_for.max(lease);
        }
    }

    /// A free lock goes to the first who waits; the holder's own waiters re-enter.
    fn serve(&mut self, now: Millis) {
        if self.holder.is_none() && !self.waiting.is_empty() {
            let (conn, wish, _) = self.waiting.remove(0);
            let told = self.grant(wish, now);
            self.answer(conn, wish, told, true, now);
        }
        while let Some(holder) = self.holder
            && let Some(place) = self.waiting.iter().position(|(_, wish, _)| wish.who == holder.who)
        {
            let (conn, wish, _) = self.waiting.remove(place);
            let told = self.reenter(wish, now);
            self.answer(conn, wish, told, !wish.once, now);
        }
    }

    fn answer(&mut self, conn: Conn, wish: Wish, told: Told, own_hold: bool, now: Millis) {
        let latest = self.holder.and_then(|holder| holder.renewed(now));
        let session = wish.session.then_some(wish.lease);
        self.answered.push(Answered { conn, told, latest, session, grant: self.grants, own_hold });
    }

    fn grant(&mut self, wish: Wish, now: Millis) -> Told {
        self.fence = (self.fence + 1).max(now.unsigned_abs() * 1000);
        let age = wish.max_hold.into_iter().chain(self.max_hold).min();
        let until = now + age.map_or(wish.lease, |age| age.min(wish.lease));
        let latest = age.map(|age| now + age);
        self.holder = Some(Holder { who: wish.who, holds: 1, until, latest, session: None, kept_for: 0 });
        self.grants += 1;
        Some((1, until))
    }

    fn reenter(&mut self, wish: Wish, now: Millis) -> Told {
        let holder = self.holder.as_mut()?;
        holder.holds += u32::from(!wish.once);
        holder.until = holder.until.max(holder.longest(wish.lease, now));
        Some((holder.holds, holder.until))
    }

    /// None: it waits, where it wants to.
    pub(super) fn acquire(&mut self, conn: Conn, wish: Wish, now: Millis) -> Told {
        self.lapse(now);
        self.serve(now);
        let told = self.take(wish, now);
        if wish.session && told.is_some() {
            // Those who are still to be told keep alive what is another's by then.
            for answered in self.answered.iter_mut().filter(|answered| answered.grant == self.grants) {
                answered.session = None;
            }
            self.keep_alive(conn, wish.lease, now);
        }
        told
    }

    fn take(&mut self, wish: Wish, now: Millis) -> Told {
        match self.holder {
            None => self.grant(wish, now),
            Some(holder) if holder.who == wish.who => {
                if wish.once {
                    self.share_hold();
                }
                self.reenter(wish, now)
            }
            Some(_) => None,
        }
    }

    /// The owner has been told of the grant by a way of its own: it is not taken back with those who are still to be told.
    fn share_hold(&mut self) {
        for answered in self.answered.iter_mut().filter(|answered| answered.grant == self.grants) {
            answered.own_hold = false;
        }
    }

    pub(super) fn release(&mut self, who: usize, all: bool, now: Millis) -> Option<u32> {
        self.lapse(now);
        let holder = self.holder.as_mut().filter(|holder| holder.who == who)?;
        holder.holds = if all { 0 } else { holder.holds - 1 };
        let left = holder.holds;
        if left == 0 {
            self.end(now);
        }
        Some(left)
    }

    /// The grant is over.
    pub(super) fn end(&mut self, now: Millis) {
        self.holder = None;
        self.serve(now);
    }

    pub(super) fn extend(&mut self, who: usize, lease: Millis, now: Millis) -> Option<Millis> {
        self.look_for_holder(now);
        let holder = self.holder.as_mut().filter(|holder| holder.who == who)?;
        let until = holder.longest(lease, now);
        let extends = until >= now;
        if extends {
            holder.until = until;
            self.share_hold();
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
        if self.holder.is_some_and(|holder| kept(&holder) && holder.until < now) {
            self.end(now);
        }
        self.send_away(conn, now);
        if self.holder.as_ref().is_some_and(kept) {
            let heir = |other: &Answered| {
                other.told.is_some() && other.session.is_some() && other.grant == self.grants
            };
            if self.answered.iter().any(heir) { self.end_session() } else { self.end(now) }
        }
    }

    /// A client that waits is told nothing. What it was granted is taken back, one hold of it, unless another was told of that
    /// same hold later.
    pub(super) fn send_away(&mut self, conn: Conn, now: Millis) {
        self.waiting.retain(|(waits, _, _)| *waits != conn);
        let Some(place) = self.answered.iter().position(|answered| answered.conn == conn) else { return };
        let gone = self.answered.remove(place);
        if gone.told.is_none() || !gone.own_hold {
            return;
        }
        let heir =
            |other: &&mut Answered| other.told.is_some() && other.grant == gone.grant && !other.own_hold;
        if let Some(heir) = self.answered.iter_mut().skip(place).find(heir) {
            heir.own_hold = true;
        } else if let Some(holder) = self.holder.filter(|_| gone.grant == self.grants) {
            self.release(holder.who, false, now);
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
