//! What `LOCK.WAITS`, `INFO` and the log show about waiters, for one lock or for all. No decision depends on what is shown.
//!
//! The waiter with the lowest request number has waited longest, because these numbers rise with the time of arrival. `Observers` notes the
//! last waiter that `long_waits` has looked at. So each long wait is logged once, and no call looks at all waiters.

#[cfg(test)]
mod tests;

use std::ops::Bound;

use super::busiest::{Busiest, Busy};
use super::lock_id::{LockId, LockRef};
use super::locks::Locks;
use super::queue::RequestId;
use super::waiter::{Phase, Waiter, WaiterInfo};
use super::waiters::Waiters;
use crate::lock::{Micros, Millis, Now};

/// Counts and marks that are kept only for `LOCK.WAITS`, `INFO` and the log.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub(super) struct Observers {
    /// No request with a lower number is in a queue.
    first: RequestId,
    /// The last waiter that `long_waits` has looked at.
    long_waits: RequestId,
    /// How many waits have ended without a grant.
    pub(super) ungranted: u64,
    pub(super) busiest: Busiest,
}

impl Observers {
    pub(super) const fn new() -> Self {
        Self { first: RequestId::MIN, long_waits: RequestId::MIN, ungranted: 0, busiest: Busiest::new() }
    }
}

/// The table of waiters, as operators see it.
pub struct Shown<'a, C> {
    pub(super) locks: &'a Locks,
    pub(super) waiters: &'a Waiters<C>,
    pub(super) observers: &'a mut Observers,
}

/// What operators are shown of a waiter and its locks.
pub struct WaitInfo {
    /// All locks that the waiter waits for.
    pub ids: Vec<LockId>,
    /// The index of the lock that keeps the waiter waiting.
    pub(crate) stuck: usize,
    pub waiter: WaiterInfo,
}

impl WaitInfo {
    pub(super) fn new<C>(waiter: &Waiter<C>, now: Now) -> Self {
        Self {
            ids: waiter.locks.all().iter().map(|lock| lock.id.clone()).collect(),
            stuck: waiter.locks.stuck(),
            waiter: WaiterInfo::new(waiter, now),
        }
    }

    /// Returns the lock that keeps the waiter waiting.
    pub fn id(&self) -> Option<&LockId> {
        self.ids.get(self.stuck)
    }
}

/// Some of the waiters, in order.
pub struct Page {
    pub waits: Vec<WaitInfo>,
    /// The last waiter that was looked at, if there may be more waiters after it.
    pub last: Option<RequestId>,
}

/// The most waiters and names of locks that are looked at for one page. The number of waiters on a page does not limit this work: waiters
/// that are not in a queue any more are passed over, and one waiter may wait for a thousand locks. Long names count more: see
/// `LockRef::weight`.
const PAGE: usize = 5_000;

/// The most waiters that one call of `long_waits` looks at.
const LOOKS: usize = 5_000;

/// The waits that have become long since the last call of `long_waits`.
#[derive(Default)]
pub struct LongWaits {
    pub waits: Vec<WaitInfo>,
    /// The number of long waits that are not in `waits`.
    pub others: u64,
}

impl<C: Copy> Shown<'_, C> {
    /// Returns at most `count` waiters, for any lock, that came after the request `after`: fewer if too many other waiters or names had to
    /// be looked at.
    pub fn page(&mut self, after: Option<RequestId>, count: usize, now: Now) -> Page {
        self.find_first();
        let after = after.map_or(Bound::Included(self.observers.first), Bound::Excluded);
        let waiters = self.waiters.range((after, Bound::Unbounded));
        page(waiters, count, now)
    }

    pub fn page_of(&self, at: LockRef<'_>, after: Option<RequestId>, count: usize, now: Now) -> Page {
        let requests = self.locks.lock(at).queue.after(after);
        page(requests.filter_map(|request| Some((request, self.waiters.get(request)?))), count, now)
    }

    /// Returns how long the oldest wait has lasted, in ms; 0 if nobody waits.
    pub fn oldest_wait(&mut self, now: Micros) -> Millis {
        let first = self.find_first().and_then(|request| self.waiters.get(request));
        first.map_or(0, |waiter| waiter.waited(now))
    }

    /// Returns how many waits have ended without a grant: they timed out, the client went away, and the like.
    pub fn ungranted(&self) -> u64 {
        self.observers.ungranted
    }

    /// Returns a page of the locks for which clients wait most often: the next `count` locks after the first `after` locks, each with the
    /// number of its present waiters. Also returns whether there are more.
    pub fn busiest(&self, after: usize, count: usize) -> (Vec<(LockId, Busy, usize)>, bool) {
        let mut rest = self.observers.busiest.all().skip(after);
        let waiters = |at: LockRef<'_>| self.locks.lock(at).waiters();
        let some =
            rest.by_ref().take(count).map(|(id, busy)| (id.clone(), busy.clone(), waiters(id.to_ref())));
        (some.collect(), rest.next().is_some())
    }

    /// Returns the waiter that has waited longest. Later calls begin there, so they do not look again at waiters that have left their
    /// queues.
    fn find_first(&mut self) -> Option<RequestId> {
        let mut waiters = self.waiters.range(self.observers.first..);
        let first = waiters.find(|(_, waiter)| waiter.phase == Phase::Queued).map(|(request, _)| request);
        self.observers.first = first.unwrap_or(self.waiters.last_request());
        first
    }

    /// Returns the waiters that have waited for `limit` ms or longer, and were not found before: at most `most` of them. The others are
    /// only counted.
    pub fn long_waits(&mut self, limit: Millis, most: usize, now: Now) -> LongWaits {
        let mut found = LongWaits::default();
        let seen = self.observers.long_waits;
        for (request, waiter) in self.waiters.range((Bound::Excluded(seen), Bound::Unbounded)).take(LOOKS) {
            if waiter.phase == Phase::Queued {
                // `waited` is below 0 if the waiter came before the clock was set back. Such a waiter is left out. If the loop stopped at
                // it, the waiters behind it would be found only later.
                let waited = now.micros.saturating_sub(waiter.since) / 1000;
                if (0..limit).contains(&waited) {
                    break;
                }
                match waited {
                    ..0 => (),
                    _ if found.waits.len() < most => found.waits.push(WaitInfo::new(waiter, now)),
                    _ => found.others += 1,
                }
            }
            self.observers.long_waits = request;
        }
        found
    }

    /// Returns the first waiters for a lock, `most` at most, in the order in which they are served.
    pub fn queue_of(&self, at: LockRef<'_>, most: usize, now: Now) -> Vec<WaiterInfo> {
        let waiters = self.locks.lock(at).in_order().filter_map(|request| self.waiters.get(request));
        waiters.take(most).map(|waiter| WaiterInfo::new(waiter, now)).collect()
    }
}

fn page<'a, C: 'a>(
    waiters: impl Iterator<Item = (RequestId, &'a Waiter<C>)>,
    count: usize,
    now: Now,
) -> Page {
    let (mut waits, mut last, mut left) = (Vec::new(), None, PAGE);
    for (request, waiter) in waiters {
        if waits.len() == count || left == 0 {
            return Page { waits, last };
        }
        last = Some(request);
        if waiter.phase == Phase::Queued {
            left = left.saturating_sub(waiter.locks.weight());
            waits.push(WaitInfo::new(waiter, now));
        } else {
            left -= 1;
        }
    }
    Page { waits, last: None }
}
