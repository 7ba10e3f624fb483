//! When timers have to look at locks (bring them up to date), and when sessions have to renew leases. This file knows only the names of
//! locks.

use super::index::Index;
use super::lock_id::LockId;
use crate::lock::Millis;

/// Why a timer has to look at a lock. The timers of each kind of reason form a lane. Lanes take turns, so that no lane delays another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A session has to renew a lease.
    Renewal,
    /// Any other reason, at a certain time.
    Look,
    /// Any other reason, at once.
    Now,
}

/// The timers of one lock: when a timer has to look at the lock next (bring it up to date), and when a session has to renew a lease next,
/// in ms since 1970. A timer may be too early, if the lease was made longer after the timer was set. In that case, the look costs little,
/// and sets the next timer.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct LockTimers {
    look: Option<Millis>,
    renewal: Option<Millis>,
}

/// A timer that is due at once has a number in place of a time. These numbers begin here, are below all times, and rise in the order in
/// which the timers are set.
const AT_ONCE: Millis = Millis::MIN;

/// All locks with timers, by time.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone, Hash))]
pub(super) struct Lanes {
    /// The timers that are due at once.
    now: Index<Millis, LockId>,
    looks: Index<Millis, LockId>,
    renewals: Index<Millis, LockId>,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Timers {
    pub(super) lanes: Lanes,
    /// The last number of a timer that is due at once.
    last_number: Millis,
    /// The kind of work with which the next turn of the event loop begins: see `run_due`.
    pub(crate) next_kind: u8,
    /// No timer looks at a lock before this time, in ms since 1970, because the server's data must not change until then
    /// (`Deferral::Until`).
    pub(crate) paused_until: Millis,
    /// Timers have looked at all sessions whose renewals were due by this time, in ms since 1970.
    last_run: Millis,
}

impl LockTimers {
    pub(super) const fn new() -> Self {
        Self { look: None, renewal: None }
    }

    fn of(&mut self, lane: Lane) -> &mut Option<Millis> {
        match lane {
            Lane::Renewal => &mut self.renewal,
            Lane::Look | Lane::Now => &mut self.look,
        }
    }

    pub(super) fn is_due(&self, now: Millis) -> bool {
        [self.look, self.renewal].into_iter().flatten().any(|time| time <= now)
    }

    /// Whether a renewal is due. The timer of a renewal is cleared before the renewal is made, so a renewal also counts as due if it has no
    /// timer.
    pub(super) fn is_renewal_due(&self, now: Millis) -> bool {
        self.renewal.is_none_or(|time| time <= now)
    }
}

impl Lanes {
    const fn new() -> Self {
        Self { now: Index::new(), looks: Index::new(), renewals: Index::new() }
    }

    #[inline(always)]
    pub(super) fn write(&mut self, id: &LockId, from: LockTimers, to: LockTimers) {
        let look = |timers: LockTimers, now: bool| timers.look.filter(|time| (*time < 0) == now);
        self.now.set(id, look(from, true), look(to, true));
        self.looks.set(id, look(from, false), look(to, false));
        self.renewals.set(id, from.renewal, to.renewal);
    }
}

impl Timers {
    pub(super) const fn new() -> Self {
        Self { lanes: Lanes::new(), last_number: 0, next_kind: 0, paused_until: 0, last_run: 0 }
    }

    /// Changes the timers of a lock. No other code changes timers.
    #[inline(always)]
    fn change(&mut self, own: &mut LockTimers, id: &LockId, body: impl FnOnce(&mut LockTimers)) {
        let from = *own;
        body(own);
        self.lanes.write(id, from, *own);
    }

    /// Sets a timer of a lock, for `time` at the latest; 0: at once.
    pub(super) fn set(&mut self, own: &mut LockTimers, lane: Lane, id: &LockId, time: Millis) {
        let time = match time {
            1.. => time,
            _ => {
                self.last_number += 1;
                AT_ONCE.saturating_add(self.last_number)
            }
        };
        if own.of(lane).is_none_or(|earlier| time < earlier) {
            self.change(own, id, |own| *own.of(lane) = Some(time));
        }
    }

    /// Cancels the timers of a lock that are due, because the lock is being settled.
    pub(super) fn cancel_due(&mut self, own: &mut LockTimers, id: &LockId, now: Millis) {
        if own.is_due(now) {
            self.change(own, id, |own| {
                own.look.take_if(|time| *time <= now);
                own.renewal.take_if(|time| *time <= now);
            });
        }
    }

    pub(super) fn cancel_all(&mut self, own: &mut LockTimers, id: &LockId) {
        self.cancel_due(own, id, Millis::MAX);
    }

    /// Cancels the timer that a lock has in this lane, because the caller has to do now the work for which the timer was set.
    pub(super) fn taken(&mut self, own: &mut LockTimers, lane: Lane, id: &LockId) {
        self.change(own, id, |own| *own.of(lane) = None);
    }

    /// Returns the lock whose timer in this lane is due first, if its time has come.
    pub(super) fn first_due(&self, lane: Lane, now: Millis) -> Option<&LockId> {
        let Lanes { now: at_once, looks, renewals } = &self.lanes;
        let lane = match lane {
            Lane::Now => at_once,
            Lane::Look => looks,
            Lane::Renewal => renewals,
        };
        lane.first().filter(|(time, _)| *time <= now).map(|(_, id)| id)
    }

    /// Returns the locks with timers that are due at once.
    pub(super) fn due_at_once(&self) -> impl Iterator<Item = &LockId> {
        self.lanes.now.iter().map(|(_, id)| id)
    }

    /// If a timer is still due after its lock has been brought up to date, moves the timer to the next millisecond. Otherwise, the timer
    /// would stay due forever on a server that does not let keys expire. (A timer that is due at once is not moved, so that the work on the
    /// lock goes on.)
    pub(super) fn put_off(&mut self, own: &mut LockTimers, lane: Lane, id: &LockId, now: Millis) {
        self.change(own, id, |own| {
            let due = own.of(lane).iter_mut().filter(|time| (1..=now).contains(*time));
            due.for_each(|time| *time = now.saturating_add(1));
        });
    }

    /// Sets `last_run` at the end of a turn of the event loop in which timers could look at locks.
    pub(crate) fn end_run(&mut self, now: Millis) {
        let left = self.lanes.renewals.first().map_or(now, |(time, _)| time.saturating_sub(1));
        self.last_run = left.min(now);
    }

    /// Whether this server has missed the time `renew_at` of a renewal, because it was frozen or busy: no timer has been able to look at
    /// locks since that time. A renewal whose time came during a pause (see `paused_until`) does not count.
    pub(super) fn is_overdue(&self, renew_at: Millis, now: Millis) -> bool {
        renew_at <= now && self.last_run < renew_at && self.paused_until <= renew_at
    }

    /// Returns the earliest time at which work that is due at `time` can be done.
    pub(super) fn not_paused(&self, time: Millis) -> Millis {
        time.max(self.paused_until).max(0)
    }

    /// Returns when a timer has to look at a lock next; 0: now.
    pub(super) fn next_due(&self) -> Option<Millis> {
        let Lanes { now, looks, renewals } = &self.lanes;
        let first = [now.first(), looks.first(), renewals.first()].into_iter().flatten();
        first.map(|(time, _)| self.not_paused(*time)).min()
    }
}

#[cfg(test)]
impl Timers {
    /// From now on, numbers the timers that are due at once from the beginning again. The caller must have taken all such timers.
    pub(super) fn restart_numbers(&mut self) {
        self.last_number = 0;
    }

    /// Moves `last_run` back to the greatest of these times that is not after it, or to 0. No result changes, because `last_run` is
    /// compared only with the times of renewals.
    pub(super) fn forget_last_run(&mut self, renewals: &[Millis]) {
        let seen = renewals.iter().copied().filter(|renew_at| *renew_at <= self.last_run);
        self.last_run = seen.max().unwrap_or(0);
    }
}

#[cfg(test)]
impl LockTimers {
    pub(super) fn is_at_once(&self) -> bool {
        self.look.is_some_and(|time| time < 0)
    }

    pub(super) fn is_set(&self) -> bool {
        self.look.is_some() || self.renewal.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::LockRef;
    use super::*;

    /// When a lock is brought up to date, its timers that are due in this millisecond are cancelled, and later timers are not.
    #[test]
    fn a_look_ends_the_timers_that_are_due_and_no_others() {
        for (time, is_over) in [(0, true), (4, true), (5, true), (6, false)] {
            for lane in [Lane::Look, Lane::Renewal] {
                let (mut timers, mut own) = (Timers::new(), LockTimers::new());
                let id = LockRef { db: 0, key: b"k" }.to_id();
                timers.set(&mut own, lane, &id, time);
                timers.cancel_due(&mut own, &id, 5);
                assert_eq!((own.is_set(), timers.next_due().is_some()), (!is_over, !is_over), "{time}");
                let mut lanes = Lanes::new();
                lanes.write(&id, LockTimers::new(), own);
                assert_eq!(timers.lanes, lanes);
                timers.cancel_all(&mut own, &id);
                assert_eq!((own.is_set(), timers.next_due()), (false, None));
            }
        }
    }
}
