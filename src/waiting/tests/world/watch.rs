//! What the guarantees say of each step, and of the moment in which all that was due has been done.

use super::{Fault, Site, Size, Who, World, owner};
use crate::lock::Millis;
use crate::waiting::tests::server::{Rules, Server};

impl World {
    /// Has a server do something, and looks at what became of the lock.
    pub(super) fn step<T>(
        &mut self,
        size: Size,
        at: Site,
        body: impl FnOnce(&mut Server, Rules, Millis) -> T,
    ) -> T {
        let now = self.now;
        let server = self.server(at);
        let queued = server.queued();
        let before = server.grant().map(|grant| grant.fence());
        let result = body(server, size.rules, now);
        let after = server.held(now).map(|held| (held.grant.fence(), held.grant.owner().into_owned()));
        let effects = std::mem::take(&mut server.effects);
        if at == Site::Primary && self.replica.is_some() {
            self.on_the_way.extend(effects);
        }
        // A lease that ended while the server stood still, and is given back.
        let after = after.filter(|after| before != Some(after.0) && self.highest.as_ref() != Some(after));
        if let Some((fence, holder)) = after {
            if self.highest.as_ref().is_some_and(|(highest, _)| fence <= *highest) {
                self.faults.insert(Fault::FenceNotAbove);
            }
            self.untold = Some(fence);
            // The first to come of those who wait, by our own list.
            let first = self.arrivals.iter().find(|&conn| queued.contains(conn));
            if let Some(&first) = first.filter(|_| at == Site::Primary) {
                let next = self.waiting[usize::from(first)].map(|(who, _)| owner(who));
                if next.as_ref() != Some(&holder) {
                    self.faults.insert(Fault::NotTheFirst);
                }
            }
            self.highest = Some((fence, holder));
        }
        result
    }

    /// A step by an owner: it must not touch another's grant.
    pub(super) fn step_of<T>(
        &mut self,
        size: Size,
        at: Site,
        who: Who,
        body: impl FnOnce(&mut Server, Rules, Millis) -> T,
    ) -> T {
        let now = self.now;
        let before = self.server(at).clone();
        let result = self.step(size, at, body);
        let after = self.server(at).held(now);
        if let Some(held) = before.held(now).filter(|held| held.grant.owner() != owner(who)) {
            let same =
                after.is_some_and(|after| *after.grant == *held.grant && after.deadline >= held.deadline);
            // The step may be the first to find out that the grant's client has gone away, or to renew a session's lease.
            if !same && !before.is_unsettled() {
                self.faults.insert(Fault::ByAStranger);
            }
        }
        result
    }

    /// All that was due has been done: what must be so then.
    pub(super) fn look(&mut self, size: Size) {
        let held = self.primary.held(self.now).map(|held| held.grant.fence());
        let may_grant = self.primary.grace_left(size.rules, self.now).grants == 0 && !size.happens.refusals;
        if held.is_none() && !self.primary.queued().is_empty() && may_grant {
            self.faults.insert(Fault::FreeWithAQueue);
        }
        if held.is_some() && held == self.untold && !size.happens.refusals {
            self.faults.insert(Fault::ToNobody);
        }
        if self.primary.blocked().iter().any(|&conn| self.waiting[usize::from(conn)].is_none()) {
            self.faults.insert(Fault::ToNobody);
        }
    }
}
