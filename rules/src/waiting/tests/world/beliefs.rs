//! What owners believe about their grants, because of replies, messages and `LOCK.INFO`.

use super::super::server::{Conn, Reply};
use super::{Belief, Clients, Hears, Kind, Role, Size, Who, World, owner};
use crate::lock::Deadline;

impl World {
    /// Notes a session when a client that asked for a session is told of its grant: its connection keeps the grant alive from then on.
    pub(super) fn note_session(&mut self, conn: Conn, who: Who, kind: Kind, reply: &Reply) {
        if kind.session() && matches!(reply, Reply::Granted { .. }) {
            self.sessions[usize::from(conn)].insert(who);
        }
    }

    /// Notes the reply to a client.
    pub(super) fn told(&mut self, size: Size, at: Role, who: Who, kind: Kind, reply: Reply) {
        self.unconfirmed |= reply == Reply::NoReplicas;
        if let Reply::Extended(until) = reply {
            // If the owner has released the grant meanwhile, it does not rely on the extension.
            if self.believes(who).is_some() {
                self.extended(at, who, Some(until));
            }
            return;
        }
        let Reply::Granted { fence, deadline, slot, .. } = reply else { return };
        self.untold.remove(&fence);
        let hears = &mut self.hears[usize::from(who)];
        if kind.notified() && at == Role::Primary {
            // The owner may already know of its grant, and of waiters, from the reply on another connection.
            *hears = Some(Hears { fence, claimed: true, wanted: self.confirms });
        }
        // With a lease of 0, the reply says that the grant has ended.
        let lasts = deadline >= Deadline::At(self.now);
        let same = hears.iter_mut().filter(|hears| hears.fence == fence && kind.once() && lasts);
        same.for_each(|hears| hears.claimed = true);
        let gave_it_back = Some(fence) <= self.given_back[usize::from(who)];
        if Some(fence) <= self.broken || gave_it_back && self.clients(size) != Clients::ReuseNames {
            return;
        }
        let known = self.believes(who).filter(|belief| belief.fence == fence);
        // The holds that the owner counts. It may not have been told yet of another connection's hold.
        let holds = known.map_or(0, |belief| belief.holds);
        let holds = if kind.once() { holds.max(1) } else { holds + 1 };
        // The reply has the end of a lease for the requested room. If this is more room than the grant has, the reply says nothing about
        // the grant's lease.
        let until = match known {
            Some(belief) if kind.room() > belief.room => belief.until,
            Some(belief) => belief.until.max(deadline),
            None => deadline,
        };
        let room = known.map_or(kind.room(), |belief| belief.room.min(kind.room()));
        let slot = slot.or(known.and_then(|belief| belief.slot));
        self.believe(at, who, Belief { fence, holds, room, slot, until, session: None, old: false });
    }

    /// Sets what an owner believes after a reply, unless the grant has already ended.
    fn believe(&mut self, at: Role, who: Who, belief: Belief) {
        let session = self.server(at).session(belief.fence);
        // If a session's connection is gone, the grant ends, and the owner knows this.
        let server = self.server(at);
        let gone = session.is_some_and(|conn| server.has_vanished(conn) || server.is_doomed(conn));
        let until = self.cut.get(&belief.fence).map_or(belief.until, |cut| belief.until.min(*cut));
        // Nor does the owner rely on a lease that such a session may still end.
        let lasts = until >= Deadline::At(self.now) && self.lost[usize::from(who)].is_empty();
        let old = session.is_some() && at == Role::Old;
        let belief = Belief { until, session, old, ..belief };
        let counts = if session.is_some() { self.is_sure(&belief) } else { lasts };
        if !gone && counts {
            self.beliefs[usize::from(who)] = Some(belief);
        }
    }

    /// Notes the reply to an extension: the new end of the lease, or `None`.
    pub(super) fn extended(&mut self, at: Role, who: Who, extended: Option<Deadline>) {
        let now = self.now;
        let mut held = self.server(at).holders(now).into_iter();
        let held = held.find(|held| held.grant.owner() == owner(who));
        let held = held.map(|held| (held.grant.fence(), held.grant.room(), held.grant.slot()));
        let belief = self.believes(who);
        match (extended, held) {
            (Some(until), Some((fence, room, slot))) => {
                self.cut.remove(&fence);
                self.untold.remove(&fence);
                let holds = belief.map_or(1, |belief| belief.holds);
                let room = belief.map_or(room, |belief| belief.room);
                self.believe(at, who, Belief { fence, holds, room, slot, until, session: None, old: false });
            }
            // The owner holds the lock, but its extension was refused.
            (None, Some(_)) => {}
            (_, None) => self.beliefs[usize::from(who)] = None,
        }
    }

    /// Notes an answer to a client that is gone. The server believes that the client was told of its grant, which lasts to the end of its
    /// lease.
    pub(super) fn told_in_vain(&mut self, reply: Reply) {
        if let Reply::Granted { fence, .. } = reply {
            self.untold.remove(&fence);
        }
    }

    /// Shows owners whose sessions replicas confirm the leases that `LOCK.INFO` shows, on which these owners rely. They look all the time.
    /// If the server no longer shows a grant, its owner relies on the last lease that it saw.
    pub(super) fn see(&mut self, size: Size) {
        if !self.confirms {
            return;
        }
        let now = self.now;
        for belief in &mut self.beliefs {
            let Some(known) = belief.as_mut().filter(|belief| belief.session.is_some()) else { continue };
            let server = match &mut self.old {
                Some((old, _)) if known.old && !self.away => Some(old),
                _ if known.old => None,
                _ => Some(&mut self.primary),
            };
            let shown = server.map(|server| server.shown(size.rules, now));
            let lease = shown.iter().flatten().find(|(fence, _)| *fence == known.fence);
            match lease {
                Some((_, until)) => known.until = *until,
                None if shown.is_some() && known.until < Deadline::At(now) => *belief = None,
                None => {}
            }
        }
    }
}
