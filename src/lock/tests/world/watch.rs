//! What the guarantees say of each step, and of the moment in which all that was due has been done.

use super::{Fault, Site, Size, Who, World, owner};
use crate::lock::Millis;
use crate::lock::tests::server::{Rules, Server};

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
        let before = server.held(now).map(|held| held.grant.fence());
        let result = body(server, size.rules, now);
        let after = server.held(now).map(|held| (held.grant.fence(), held.grant.owner().into_owned()));
        let effects = std::mem::take(&mut server.effects);
        if at == Site::Primary && self.replica.is_some() {
            self.on_the_way.extend(effects);
        }
        if let Some((fence, holder)) = after.filter(|(fence, _)| before != Some(*fence)) {
            if self.highest.is_some_and(|highest| fence <= highest) {
                self.faults.insert(Fault::FenceNotAbove);
            }
            self.highest = self.highest.max(Some(fence));
            self.untold = Some(fence);
            // The first to come of those who wait, by our own list.
            let first = self.arrivals.iter().find(|&conn| queued.contains(conn));
            if let Some(&first) = first.filter(|_| at == Site::Primary) {
                let next = self.waiting[usize::from(first)].map(|(who, _)| owner(who));
                if next != Some(holder) {
                    self.faults.insert(Fault::NotTheFirst);
                }
            }
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
    pub(super) fn look(&mut self) {
        let held = self.primary.held(self.now).map(|held| held.grant.fence());
        if held.is_none() && !self.primary.queued().is_empty() && !self.primary.grants_nothing(self.now) {
            self.faults.insert(Fault::FreeWithAQueue);
        }
        if held.is_some() && held == self.untold {
            self.faults.insert(Fault::ToNobody);
        }
    }
}
