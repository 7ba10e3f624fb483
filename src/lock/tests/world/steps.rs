//! What happens in a world, and what its owners believe from then on.

use super::{Belief, Clients, Failover, Fault, Kind, Site, Size, Who, World, owner};
use crate::lock::tests::server::{Conn, Reply};
use crate::lock::{Deadline, Millis};

impl World {
    pub(super) fn acquire(&mut self, size: Size, at: Site, conn: Conn, who: Who, lease: Millis, kind: Kind) {
        let (ask, block) = kind.ask(who, lease);
        let reply = self.step(size, at, |server, rules, now| server.acquire(rules, now, conn, &ask, block));
        match reply {
            Reply::Waits => {
                self.waiting[usize::from(conn)] = Some((who, kind));
                self.arrivals.push(conn);
            }
            Reply::Granted { .. } => self.told(at, who, kind, reply),
            Reply::Null | Reply::Grace | Reply::TooManyHolds => {}
        }
    }

    /// A client is told of its grant.
    fn told(&mut self, at: Site, who: Who, kind: Kind, reply: Reply) {
        let Reply::Granted { fence, deadline, .. } = reply else { return };
        if self.untold == Some(fence) {
            self.untold = None;
        }
        if Some(fence) <= self.broken {
            return;
        }
        let known = self.believes(who).filter(|belief| belief.fence == fence);
        // By its own count: another connection's hold may not have been told yet.
        let holds = known.map_or(0, |belief| belief.holds);
        let holds = if kind == Kind::Once { holds.max(1) } else { holds + 1 };
        let session = self.server(at).session();
        let until = known.map_or(deadline, |belief| belief.until.max(deadline));
        self.beliefs[usize::from(who)] = Some(Belief { fence, holds, until, session });
    }

    pub(super) fn release(&mut self, size: Size, at: Site, who: Who, all: bool) {
        let left = self
            .step_of(size, at, who, |server, rules, now| server.release(rules, now, &owner(who), None, all));
        let thought = self.believes(who).map_or(0, |belief| belief.holds);
        let holds = match left {
            None => 0,
            Some(0) if self.clients(size) != Clients::CountThemselves => 0,
            Some(_) if all => 0,
            Some(_) => thought.saturating_sub(1),
        };
        let belief = self.believes(who).filter(|_| holds > 0);
        self.beliefs[usize::from(who)] = belief.map(|belief| Belief { holds, ..belief });
    }

    pub(super) fn extend(&mut self, size: Size, at: Site, who: Who, lease: Millis) {
        let now = self.now;
        let extended = self
            .step_of(size, at, who, |server, rules, now| server.extend(rules, now, &owner(who), None, lease));
        let held = self.server(at).held(now).filter(|held| held.grant.owner() == owner(who));
        let held = held.map(|held| held.grant.fence());
        let belief = self.believes(who);
        self.beliefs[usize::from(who)] = match (extended, held) {
            (Some(until), Some(fence)) => {
                let holds = belief.map_or(1, |belief| belief.holds);
                Some(Belief { fence, holds, until, session: belief.and_then(|belief| belief.session) })
            }
            // Not now.
            (None, Some(_)) => belief,
            (_, None) => None,
        };
    }

    pub(super) fn break_(&mut self, size: Size) {
        let before = self.primary.held(self.now).map(|held| held.grant.fence());
        if self.step(size, Site::Primary, |server, rules, now| server.break_(rules, now, None)) {
            // The operator's way: it is for him to see to the owner.
            self.broken = before;
            for belief in &mut self.beliefs {
                *belief = belief.filter(|belief| Some(belief.fence) != before);
            }
        }
    }

    pub(super) fn close(&mut self, size: Size, conn: Conn) {
        self.waiting[usize::from(conn)] = None;
        self.arrivals.retain(|&waits| waits != conn);
        for belief in &mut self.beliefs {
            *belief = belief.filter(|belief| belief.session != Some(conn));
        }
        self.step(size, Site::Primary, |server, _, now| server.close(conn, now));
    }

    pub(super) fn ring(&mut self, size: Size) {
        for (conn, reply) in self.step(size, Site::Primary, |server, rules, now| server.ring(rules, now)) {
            self.arrivals.retain(|&waits| waits != conn);
            match self.waiting[usize::from(conn)].take() {
                Some((who, kind)) => self.told(Site::Primary, who, kind, reply),
                None => _ = self.faults.insert(Fault::ToNobody),
            }
        }
        if self.primary.blocked().iter().any(|&conn| self.waiting[usize::from(conn)].is_none()) {
            self.faults.insert(Fault::ToNobody);
        }
    }

    pub(super) fn pass(&mut self) {
        self.now += 1;
        let now = Deadline::At(self.now);
        for belief in &mut self.beliefs {
            *belief = belief.filter(|belief| belief.session.is_some() || now <= belief.until);
        }
        self.old.take_if(|(_, ends)| *ends <= self.now);
    }

    pub(super) fn fail_over(&mut self, failover: Failover) {
        let Some(mut replica) = self.replica.take() else { return };
        self.on_the_way.clear();
        // It takes some time to see that a primary is dead.
        self.pass();
        replica.promote(self.now + failover.grace);
        let old = std::mem::replace(&mut self.primary, replica);
        if failover.lives_on > 0 {
            self.old = Some((old, self.now + failover.lives_on));
        }
        self.untold = None;
        self.waiting.fill(None);
        self.arrivals.clear();
    }
}
