//! What happens to the reference's lock when time passes, and to its key.

use super::{Reference, Session, Wish, third};
use crate::lock::Millis;

impl Reference {
    /// Does the work that is due at `now`: leases may end, and waits may time out.
    pub(crate) fn look(&mut self, now: Millis) {
        self.lapse(now);
        self.renew(now);
        self.serve(now);
        while self.time_out_first(now) {
            self.serve(now);
        }
    }

    /// Renews the leases of sessions when they are due, and at the latest in their last millisecond.
    pub(super) fn renew(&mut self, now: Millis) {
        for holder in &mut self.holders {
            let Some(session) = holder.session else { continue };
            if session.renew_at <= now || holder.until <= now {
                holder.until = holder.until.max(holder.longest(session.lease, now));
                holder.session = Some(Session { renew_at: now + third(session.lease), ..session });
            }
        }
    }

    /// Looks at the lock while the server refuses all writes: only waits time out.
    pub(crate) fn look_in_vain(&mut self, now: Millis) {
        self.time_out(now);
    }

    /// Looks at the lock during a pause: only waits time out, and nothing else is looked at for a while.
    pub(crate) fn look_in_a_pause(&mut self, now: Millis) {
        self.time_out(now);
    }

    pub(super) fn time_out(&mut self, now: Millis) {
        while self.time_out_first(now) {}
    }

    /// Ends the wait whose time was up first. Returns whether there was one.
    pub(super) fn time_out_first(&mut self, now: Millis) -> bool {
        let late = (0..)
            .zip(&self.waiting)
            .filter_map(|(place, (_, _, at))| Some((at.filter(|at| *at <= now)?, place)));
        let Some((_, place)) = late.min() else { return false };
        let (conn, wish, _) = self.waiting.remove(place);
        self.answer(conn, wish, None, None, false, now);
        true
    }

    /// Ends lapsed grants.
    pub(crate) fn lapse(&mut self, now: Millis) {
        self.end_grants(|holder| holder.until < now);
    }

    /// Ends all sessions.
    pub(crate) fn end_sessions(&mut self) {
        self.holders.iter_mut().for_each(|holder| holder.session = None);
    }

    /// Overwrites the key with another type, and then deletes it.
    pub(crate) fn overwrite(&mut self, now: Millis) {
        self.end_grants(|_| true);
        for (conn, wish, _) in std::mem::take(&mut self.waiting) {
            self.answer(conn, wish, None, None, false, now);
        }
    }

    /// Replaces this lock by another lock, which has no session.
    pub(crate) fn replace(&mut self, who: usize, lease: Millis, now: Millis) {
        self.end_grants(|_| true);
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

    /// Settles the lock before an extension.
    pub(crate) fn look_for_holder(&mut self, now: Millis) {
        self.lapse(now);
        self.serve(now);
    }
}
