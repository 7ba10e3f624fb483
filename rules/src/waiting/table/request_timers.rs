//! When requests time out, and which requests for several locks may be able to have them all now. This file knows only the numbers of
//! requests.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Bound;

use super::index::Index;
use super::queue::RequestId;
use super::waiter::Ends;
use crate::lock::Millis;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct RequestTimers {
    /// When requests time out. The module does not use the server's own timeouts, because some servers lose the answer to a client that
    /// times out in the same moment in which the module unblocks it.
    pub(super) timeouts: Index<Ends, RequestId>,
    /// The request that is timing out, and how many of its locks have been checked once more, because work that is due at a lock might
    /// still grant the lock to this request. When all have been checked, the client is told that its time is up.
    timing_out: Option<(RequestId, usize)>,
    /// The requests for several locks that may be able to have them all now. This is no index of the waiters (see `index`), because
    /// `set_tries_aside` takes all these requests out at once.
    tries: BTreeSet<RequestId>,
    last_tried: RequestId,
}

impl RequestTimers {
    pub(super) const fn new() -> Self {
        Self { timeouts: Index::new(), timing_out: None, tries: BTreeSet::new(), last_tried: RequestId::MIN }
    }

    /// Returns when the next request times out, in ms since 1970.
    pub(super) fn next_timeout(&self) -> Option<Millis> {
        self.timeouts.first().map(|(time, _)| time.get())
    }

    /// Returns the request that timed out first, if any request has timed out by `now`.
    pub(super) fn first_timed_out(&self, now: Millis) -> Option<RequestId> {
        self.timeouts.first().filter(|(time, _)| time.get() <= now).map(|(_, request)| *request)
    }

    /// Returns how many locks of the request have been checked once more (see `timing_out`). Checking all of them may take several turns of
    /// the event loop.
    pub(super) fn last_looks(&self, request: RequestId) -> usize {
        self.timing_out.filter(|(last, _)| *last == request).map_or(0, |(_, seen)| seen)
    }

    pub(super) fn note_last_looks(&mut self, request: RequestId, seen: usize) {
        self.timing_out = Some((request, seen));
    }

    /// Notes that a timer has to try soon to grant a request all its locks.
    pub(super) fn try_soon(&mut self, request: RequestId) {
        self.tries.insert(request);
    }

    /// Notes that a request need not be tried any more (see `try_soon`). Returns whether the request had to be tried.
    pub(super) fn cancel_try(&mut self, request: RequestId) -> bool {
        self.tries.remove(&request)
    }

    /// Whether any request has to be tried.
    pub(super) fn has_tries(&self) -> bool {
        !self.tries.is_empty()
    }

    /// Takes the next request that has to be tried. Requests take turns, so a request that is tried again and again delays no other.
    pub(super) fn take_try(&mut self) -> Option<RequestId> {
        let next = self.tries.range((Bound::Excluded(self.last_tried), Bound::Unbounded)).next();
        let request = next.or(self.tries.first()).copied()?;
        self.tries.remove(&request);
        self.last_tried = if self.tries.is_empty() { RequestId::MIN } else { request };
        Some(request)
    }

    /// Sets aside the requests that have to be tried, while the module tries one of them.
    pub(crate) fn set_tries_aside(&mut self) -> BTreeSet<RequestId> {
        std::mem::take(&mut self.tries)
    }

    /// Puts back the requests that were set aside. Keeps the requests that were added since then only if a lock has `changed`. Otherwise,
    /// these requests have already been tried with the locks as they are.
    pub(crate) fn take_tries_up(&mut self, aside: BTreeSet<RequestId>, changed: bool) {
        let since = std::mem::replace(&mut self.tries, aside);
        if changed {
            self.tries.extend(since);
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl RequestTimers {
    pub(super) fn tries(&self) -> impl Iterator<Item = &RequestId> {
        self.tries.iter()
    }
}

#[cfg(test)]
impl RequestTimers {
    pub(super) fn renumber_requests(&mut self, new: &BTreeMap<RequestId, RequestId>) {
        self.timeouts.renumber(|time, request| (time, new[&request]));
        self.tries = self.tries.iter().map(|request| new[request]).collect();
        self.last_tried = new.get(&self.last_tried).copied().unwrap_or(RequestId::MIN);
        self.timing_out = self.timing_out.and_then(|(request, seen)| Some((*new.get(&request)?, seen)));
    }
}
