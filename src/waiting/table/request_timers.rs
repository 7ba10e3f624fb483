//! When requests are given up, and which of those for several locks may have them all now. Requests are known by number, and nothing
//! else is.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Bound;

use super::queue::RequestId;
use crate::lock::Millis;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct RequestTimers {
    /// The times at which requests are given up. The server's own timeouts are not used, since some servers lose the answer of a client
    /// whose time is up in the very moment in which it is unblocked.
    timeouts: BTreeSet<(Millis, RequestId)>,
    /// The request whose time is up, and how many of its locks have been looked at for the last time.
    timing_out: Option<(RequestId, usize)>,
    /// Requests for several locks that may have them all now.
    tries: BTreeSet<RequestId>,
    last_tried: RequestId,
}

impl RequestTimers {
    pub(super) const fn new() -> Self {
        Self {
            timeouts: BTreeSet::new(),
            timing_out: None,
            tries: BTreeSet::new(),
            last_tried: RequestId::MIN,
        }
    }

    pub(super) fn set_timeout(&mut self, request: RequestId, time: Option<Millis>) {
        self.timeouts.extend(time.map(|time| (time, request)));
    }

    pub(super) fn cancel_timeout(&mut self, request: RequestId, time: Option<Millis>) {
        if let Some(time) = time {
            self.timeouts.remove(&(time, request));
        }
    }

    /// When the time of a request is up next.
    pub(super) fn next_timeout(&self) -> Option<Millis> {
        self.timeouts.first().map(|(time, _)| *time)
    }

    /// The request whose time was up first.
    pub(super) fn first_timed_out(&self, now: Millis) -> Option<RequestId> {
        self.timeouts.first().filter(|(time, _)| *time <= now).map(|(_, request)| *request)
    }

    /// Takes the request off whose time was up first.
    pub(super) fn take_timed_out(&mut self, now: Millis) -> Option<RequestId> {
        let request = self.first_timed_out(now)?;
        self.timeouts.pop_first();
        self.timing_out = None;
        Some(request)
    }

    /// How many of its locks this request has had looked at a last time before it is told that its time is up. The last look may take
    /// several turns.
    pub(super) fn last_looks(&self, request: RequestId) -> usize {
        self.timing_out.filter(|(last, _)| *last == request).map_or(0, |(_, seen)| seen)
    }

    pub(super) fn note_last_looks(&mut self, request: RequestId, seen: usize) {
        self.timing_out = Some((request, seen));
    }

    /// A request for several locks may have them all now.
    pub(super) fn try_soon(&mut self, request: RequestId) {
        self.tries.insert(request);
    }

    /// Takes a request off the tries. Whether it was there.
    pub(super) fn cancel_try(&mut self, request: RequestId) -> bool {
        self.tries.remove(&request)
    }

    /// Whether some are to be tried.
    pub(super) fn has_tries(&self) -> bool {
        !self.tries.is_empty()
    }

    /// The next one to be tried. By turns: one that is to be tried again and again keeps up nobody.
    pub(super) fn take_try(&mut self) -> Option<RequestId> {
        let next = self.tries.range((Bound::Excluded(self.last_tried), Bound::Unbounded)).next();
        let request = next.or(self.tries.first()).copied()?;
        self.tries.remove(&request);
        self.last_tried = if self.tries.is_empty() { RequestId::MIN } else { request };
        Some(request)
    }

    /// Sets aside who is to be tried, while one of them is.
    pub(crate) fn set_tries_aside(&mut self) -> BTreeSet<RequestId> {
        std::mem::take(&mut self.tries)
    }

    /// Takes up the tries that were set aside. Requests that have been noted since are kept only if something has `changed`: else they have
    /// been tried with the locks as they are.
    pub(crate) fn take_tries_up(&mut self, aside: BTreeSet<RequestId>, changed: bool) {
        let since = std::mem::replace(&mut self.tries, aside);
        if changed {
            self.tries.extend(since);
        }
    }
}

#[cfg(any(test, debug_assertions))]
impl RequestTimers {
    pub(super) fn timeouts(&self) -> impl Iterator<Item = &(Millis, RequestId)> {
        self.timeouts.iter()
    }

    pub(super) fn tries(&self) -> impl Iterator<Item = &RequestId> {
        self.tries.iter()
    }
}

#[cfg(test)]
impl RequestTimers {
    pub(super) fn renumber_requests(&mut self, new: &BTreeMap<RequestId, RequestId>) {
        self.timeouts = self.timeouts.iter().map(|(time, request)| (*time, new[request])).collect();
        self.tries = self.tries.iter().map(|request| new[request]).collect();
        self.last_tried = new.get(&self.last_tried).copied().unwrap_or(RequestId::MIN);
        self.timing_out = self.timing_out.and_then(|(request, seen)| Some((*new.get(&request)?, seen)));
    }
}
