//! When requests time out, and which requests for several locks are to be tried. This file knows only the numbers of requests.

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
    /// When requests time out. The server's own timeouts are not used, since some servers lose the answer to a client that times out in the
    /// same moment in which it is unblocked.
    pub(super) timeouts: Index<Ends, RequestId>,
    /// The request that is timing out, and how many of its locks have had their last look.
    timing_out: Option<(RequestId, usize)>,
    /// Requests for several locks that may be able to have them all now. They don't follow from the waiters: all are set aside at once.
    tries: BTreeSet<RequestId>,
    last_tried: RequestId,
}

impl RequestTimers {
    pub(super) const fn new() -> Self {
        Self { timeouts: Index::new(), timing_out: None, tries: BTreeSet::new(), last_tried: RequestId::MIN }
    }

    /// When the next request times out.
    pub(super) fn next_timeout(&self) -> Option<Millis> {
        self.timeouts.first().map(|(time, _)| time.get())
    }

    /// The request that timed out first, if any has by `now`.
    pub(super) fn first_timed_out(&self, now: Millis) -> Option<RequestId> {
        self.timeouts.first().filter(|(time, _)| time.get() <= now).map(|(_, request)| *request)
    }

    /// How many of the request's locks have had their last look, before the request is told that its time is up. These looks may take
    /// several turns.
    pub(super) fn last_looks(&self, request: RequestId) -> usize {
        self.timing_out.filter(|(last, _)| *last == request).map_or(0, |(_, seen)| seen)
    }

    pub(super) fn note_last_looks(&mut self, request: RequestId, seen: usize) {
        self.timing_out = Some((request, seen));
    }

    /// Has a request for several locks tried soon.
    pub(super) fn try_soon(&mut self, request: RequestId) {
        self.tries.insert(request);
    }

    /// Cancels a try. Returns whether the request was to be tried.
    pub(super) fn cancel_try(&mut self, request: RequestId) -> bool {
        self.tries.remove(&request)
    }

    /// Whether any request is to be tried.
    pub(super) fn has_tries(&self) -> bool {
        !self.tries.is_empty()
    }

    /// Takes the next request to be tried. Requests take turns, so a request that is tried again and again delays no other.
    pub(super) fn take_try(&mut self) -> Option<RequestId> {
        let next = self.tries.range((Bound::Excluded(self.last_tried), Bound::Unbounded)).next();
        let request = next.or(self.tries.first()).copied()?;
        self.tries.remove(&request);
        self.last_tried = if self.tries.is_empty() { RequestId::MIN } else { request };
        Some(request)
    }

    /// Sets aside the requests that are to be tried, while one of them is tried.
    pub(crate) fn set_tries_aside(&mut self) -> BTreeSet<RequestId> {
        std::mem::take(&mut self.tries)
    }

    /// Takes up the requests that were set aside. Requests that have been added since are kept only if a lock has `changed`; otherwise they
    /// have been tried with the locks as they are.
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
