//! What time does to a lock, and a server to its key.

use super::{Holder, Reference, Session, Wish, third};
use crate::lock::Millis;

impl Reference {
    /// Time has come to that: a lease may be over, and somebody have waited for long enough.
    pub(crate) fn look(&mut self, now: Millis) {
        self.lapse(now);
        self.renew(now);
        self.serve(now);
        // A waiter that gives up lets those behind it in.
        while self.time_out_first(now) {
            self.serve(now);
        }
        self.rang = now;
    }

    /// A lease is renewed when that is due, and in its last millisecond at the latest.
    pub(super) fn renew(&mut self, now: Millis) {
        for holder in &mut self.holders {
            let Some(session) = holder.session else { continue };
            if session.renew_at <= now || holder.until <= now {
                holder.until = holder.until.max(holder.longest(session.lease, now));
                holder.session = Some(Session { renew_at: now + third(session.lease), ..session });
            }
        }
    }

    /// The server looks, and refuses all writes: only waits end.
    pub(crate) fn look_in_vain(&mut self, now: Millis) {
        self.time_out(now);
        self.rang = now;
    }

    /// The server looks in a pause: only waits end, and nothing else is looked at for a while.
    pub(crate) fn look_in_a_pause(&mut self, now: Millis) {
        self.time_out(now);
        self.quiet = now + 1;
    }

    pub(super) fn time_out(&mut self, now: Millis) {
        while self.time_out_first(now) {}
    }

    /// Whether somebody has waited for long enough: the one whose time was up first.
    pub(super) fn time_out_first(&mut self, now: Millis) -> bool {
        let late = (0..)
            .zip(&self.waiting)
            .filter_map(|(place, (_, _, at))| Some((at.filter(|at| *at <= now)?, place)));
        let Some((_, place)) = late.min() else { return false };
        let (conn, wish, _) = self.waiting.remove(place);
        self.answer(conn, wish, None, None, false, now);
        true
    }

    /// A lease may be over. What a connection keeps alive is given another one, if it goes on.
    pub(crate) fn lapse(&mut self, now: Millis) {
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
    pub(super) fn goes_on(&self, holder: &Holder, session: &Session, now: Millis) -> bool {
        let stood_still_from = self.quiet.max(self.rang + 1);
        let may_last = holder.latest.is_none_or(|latest| now <= latest);
        may_last && (stood_still_from..=now).contains(&session.renew_at)
    }

    /// No connection keeps any grant alive any more.
    pub(crate) fn end_sessions(&mut self) {
        self.holders.iter_mut().for_each(|holder| holder.session = None);
    }

    /// The key holds something else, and then nothing.
    pub(crate) fn overwrite(&mut self, now: Millis) {
        self.holders.clear();
        self.rang = now;
        for (conn, wish, _) in std::mem::take(&mut self.waiting) {
            self.answer(conn, wish, None, None, false, now);
        }
    }

    /// Another lock is put in the place of this one. No connection keeps the new lock alive.
    pub(crate) fn replace(&mut self, who: usize, lease: Millis, now: Millis) {
        self.holders.clear();
        self.grant(
            Wish {
                who,
                lease,
                max_hold: None,
                once: false,
                session: false,
                room: 1,
                slot: None,
                label: None,
            },
            now,
        );
    }

    /// An extension finds the lock as a newcomer would.
    pub(crate) fn look_for_holder(&mut self, now: Millis) {
        self.lapse(now);
        self.serve(now);
    }
}
