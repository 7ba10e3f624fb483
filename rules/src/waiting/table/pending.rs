//! Pending holds: holds that waiters have been granted, but may not know of. A blocked client may go away before it is told, and a place
//! still has to claim its grant.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::queue::RequestId;

/// The pending holds of one grant, in order of arrival.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct PendingHolds {
    holds: VecDeque<PendingHold>,
    /// How many of `holds` are not the waiters' own: their waiters share a hold of another client of the owner.
    sharing: u32,
}

/// A hold that a blocked waiter has not been told of yet, or that a place has not claimed yet.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct PendingHold {
    pub(super) request: RequestId,
    /// How many locks the waiter waited for.
    pub(super) locks: u32,
    /// Whether the hold is the client's own. A client that asked with `ONCE` may share the hold of another client instead.
    pub(super) own: bool,
    /// Whether the waiter's connection will keep the grant alive once the waiter has been told.
    pub(super) binds: bool,
    /// Whether a place has the hold. In that case the hold is pending until the place claims it or gives it up. Otherwise a blocked client
    /// has the hold, and the hold is pending until the server is done with the client.
    pub(super) to_claim: bool,
}

impl PendingHolds {
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingHold> {
        self.holds.iter()
    }

    fn position(&self, request: RequestId) -> Result<usize, usize> {
        self.holds.binary_search_by_key(&request, |hold| hold.request)
    }

    pub(super) fn get(&self, request: RequestId) -> Option<&PendingHold> {
        self.holds.get(self.position(request).ok()?)
    }

    fn get_mut(&mut self, request: RequestId) -> Option<&mut PendingHold> {
        let known = self.position(request).ok()?;
        self.holds.get_mut(known)
    }

    pub(super) fn add(&mut self, hold: PendingHold) {
        if let Err(next) = self.position(hold.request) {
            if self.holds.is_empty() {
                // `push_back` would make room for four holds, but there is usually only one.
                self.holds.reserve_exact(1);
            }
            debug_assert!(hold.own, "{hold:?} is shared only from then on");
            self.holds.insert(next, hold);
        }
    }

    pub(super) fn remove(&mut self, request: RequestId) -> Option<PendingHold> {
        let known = self.position(request).ok()?;
        let hold = self.holds.remove(known)?;
        self.sharing -= u32::from(!hold.own);
        Some(hold)
    }

    /// Sets whether the waiter's connection has to keep the grant alive.
    pub(super) fn set_binds(&mut self, request: RequestId, binds: bool) {
        if let Some(hold) = self.get_mut(request) {
            hold.binds = binds;
        }
    }

    /// Notes that the connections of blocked clients will not keep the grant alive once these clients have been told of their holds.
    pub(super) fn end_binds(&mut self) {
        let blocked = self.holds.iter_mut().filter(|hold| !hold.to_claim);
        blocked.for_each(|hold| hold.binds = false);
    }

    /// Notes that a waiter shares a hold of its owner, and has no hold of its own.
    pub(super) fn share_with(&mut self, request: RequestId) {
        if let Some(hold) = self.get_mut(request) {
            let shares = std::mem::take(&mut hold.own);
            self.sharing += u32::from(shares);
        }
    }

    /// Notes that all blocked clients share a hold of this grant, and have no holds of their own.
    pub(super) fn share_with_blocked(&mut self) {
        for hold in self.holds.iter_mut().filter(|hold| !hold.to_claim) {
            self.sharing += u32::from(std::mem::take(&mut hold.own));
        }
    }

    /// Passes the hold of a client that has gone away to a client that came later and shares this hold. Returns whether there is such a
    /// client.
    pub(super) fn transfer(&mut self, hold: &PendingHold) -> bool {
        if self.sharing == 0 {
            return false;
        }
        let successor = self.holds.iter_mut().find(|other| !other.own && other.request > hold.request);
        let Some(successor) = successor else { return false };
        successor.own = true;
        self.sharing -= 1;
        true
    }
}

#[cfg(any(test, debug_assertions))]
impl PendingHolds {
    pub(super) fn check(&self) {
        assert_eq!(self.holds.iter().filter(|hold| !hold.own).count(), self.sharing as usize);
        assert!(self.holds.iter().is_sorted_by(|one, next| one.request < next.request));
    }
}

#[cfg(test)]
impl PendingHolds {
    pub(super) fn renumber_requests(&mut self, requests: &BTreeMap<RequestId, RequestId>) {
        self.holds.iter_mut().for_each(|hold| hold.request = requests[&hold.request]);
    }
}
