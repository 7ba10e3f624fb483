//! Takes the steps of a world.

use std::collections::{BTreeMap, BTreeSet};

use super::super::server::{Conn, Queued, Reply, Rules, Server, Writes};
use super::{Belief, Clients, Failover, Fault, Kind, Role, Size, Who, World, owner};
use crate::lock::{Deadline, Fence, Millis};
use crate::waiting::{Confirm, ExtendRequest};

impl World {
    pub(super) fn acquire(&mut self, size: Size, at: Role, conn: Conn, who: Who, lease: Millis, kind: Kind) {
        let (ask, wait) = kind.ask(who, lease, size.confirm);
        let reply =
            self.step(size, at, |server, rules, now| server.acquire_on(rules, now, conn, 0, &ask, &wait));
        match reply {
            Reply::Waits if at == Role::Old => self.waiting_old[usize::from(conn)] = Some((who, kind)),
            Reply::Waits => {
                self.waiting[usize::from(conn)] = Some((who, kind));
                // The owner may already have the lock, and only wait for replicas.
                if size.confirm.is_none() || self.primary.queued().contains(&Queued::Blocked(conn)) {
                    self.arrivals.push(Queued::Blocked(conn));
                }
            }
            Reply::Queued => {
                self.places[usize::from(who)] = Some(conn);
                let place = Queued::Notified(owner(who));
                if !self.arrivals.contains(&place) {
                    self.arrivals.push(place);
                }
            }
            reply => {
                if at == Role::Primary {
                    self.note_session(conn, who, kind, &reply);
                }
                self.told(size, at, who, kind, reply);
            }
        }
    }

    pub(super) fn leave(&mut self, size: Size, who: Who) {
        self.arrivals.retain(|queued| *queued != Queued::Notified(owner(who)));
        self.places[usize::from(who)] = None;
        self.step(size, Role::Primary, |server, rules, now| server.leave_on(rules, now, 0, &owner(who)));
    }

    pub(super) fn release(&mut self, size: Size, at: Role, who: Who, all: bool) {
        let now = self.now;
        let mut before = self.server(at).holders(now).into_iter();
        let before = before.find(|held| held.grant.owner() == owner(who)).map(|held| held.grant.fence());
        let left = self
            .step_of(size, at, who, |server, rules, now| server.release(rules, now, &owner(who), None, all));
        let thought = self.believes(who).map_or(0, |belief| belief.holds);
        if left == Some(0) {
            if at == Role::Primary {
                self.sessions.iter_mut().for_each(|owners| _ = owners.remove(&who));
            }
            let gave = &mut self.given_back[usize::from(who)];
            *gave = before.max(*gave);
        }
        let holds = match left {
            None => 0,
            Some(0) if self.clients(size) != Clients::CountThemselves => 0,
            Some(_) if all => 0,
            Some(_) => thought.saturating_sub(1),
        };
        let belief = self.believes(who).filter(|_| holds > 0);
        self.beliefs[usize::from(who)] = belief.map(|belief| Belief { holds, ..belief });
        if belief.is_none() {
            self.hears[usize::from(who)] = None;
        }
    }

    pub(super) fn extend(&mut self, size: Size, at: Role, who: Who, lease: Millis) {
        if let Some(confirm) = size.confirm {
            return self.extend_confirmed(size, at, who, lease, confirm);
        }
        let extended = self
            .step_of(size, at, who, |server, rules, now| server.extend(rules, now, &owner(who), None, lease));
        self.extended(at, who, extended);
    }

    /// Extends a grant with `SYNC`: the owner is told when replicas have confirmed the extension.
    fn extend_confirmed(&mut self, size: Size, at: Role, who: Who, lease: Millis, confirm: Confirm) {
        let Some(conn) = (0..size.conns).find(|&conn| self.is_free(at, conn)) else { return };
        let owner = owner(who);
        let longer = ExtendRequest { owner: &owner, fence: None, lease, confirm: Some(confirm) };
        let waits = self
            .step_of(size, at, who, |server, rules, now| server.extend_each(rules, now, conn, &[0], &longer));
        if waits == Reply::Waits {
            let waiting = if at == Role::Old { &mut self.waiting_old } else { &mut self.waiting };
            waiting[usize::from(conn)] = Some((who, Kind::Extension));
        }
    }

    /// An operator breaks the lock. The operator has to see to it that the owner stops, so its belief ends.
    pub(super) fn break_(&mut self, size: Size) {
        let before: Vec<_> = self.primary.holders(self.now).iter().map(|held| held.grant.fence()).collect();
        if self.step(size, Role::Primary, |server, rules, now| server.break_on(rules, now, 0, None)) > 0 {
            self.broken = before.last().copied();
            for belief in &mut self.beliefs {
                *belief = belief.filter(|belief| !before.contains(&belief.fence));
            }
        }
    }

    /// An operator shortens the lease, and has to tell the owner, so its belief changes. A session may make the lease longer again.
    pub(super) fn cut(&mut self, size: Size) {
        let now = self.now;
        self.step(size, Role::Primary, |server, _, now| server.cut(now));
        let cut = self.primary.all_held().into_iter().map(|held| (held.grant.fence(), held.deadline));
        let cut: BTreeMap<_, _> = cut.collect();
        for belief in self.beliefs.iter_mut().flatten().filter(|belief| belief.session.is_none()) {
            let end = cut.get(&belief.fence).copied();
            belief.until = end.map_or(belief.until, |end| belief.until.min(end));
        }
        for belief in &mut self.beliefs {
            *belief = belief.filter(|belief| belief.session.is_some() || Deadline::At(now) <= belief.until);
        }
        self.cut.extend(cut);
    }

    pub(super) fn close(&mut self, size: Size, conn: Conn) {
        self.client_gone(conn);
        self.closed(conn);
        self.step(size, Role::Primary, |server, rules, now| server.close(rules, now, conn));
    }

    /// The server closes a connection, or has closed it at the end of this turn.
    fn closed(&mut self, conn: Conn) {
        self.arrivals.retain(|queued| *queued != Queued::Blocked(conn));
        for (who, place) in (0..).zip(&mut self.places) {
            if place.take_if(|place| *place == conn).is_some() {
                self.arrivals.retain(|queued| *queued != Queued::Notified(owner(who)));
            }
        }
        for lost in &mut self.lost {
            lost.remove(&conn);
        }
    }

    pub(super) fn vanish(&mut self, conn: Conn) {
        self.client_gone(conn);
        self.arrivals.retain(|queued| *queued != Queued::Blocked(conn));
        self.primary.vanish(conn);
    }

    pub(super) fn doom(&mut self, conn: Conn) {
        self.client_gone(conn);
        self.primary.doom(conn);
    }

    /// The client of a connection is gone. Its owner no longer relies on a grant that the connection kept alive, or was to keep alive.
    fn client_gone(&mut self, conn: Conn) {
        let waited = match self.waiting[usize::from(conn)].take() {
            Some((who, kind)) if kind.session() => Some(who),
            _ => None,
        };
        self.sessions[usize::from(conn)].clear();
        let mut asked = std::mem::take(&mut self.sent_away[usize::from(conn)]);
        asked.extend(waited);
        for (who, (belief, lost)) in (0..).zip(self.beliefs.iter_mut().zip(&mut self.lost)) {
            let asked = asked.contains(&who);
            let ended = belief
                .take_if(|belief| !belief.old && belief.session.map_or(asked, |session| session == conn));
            if ended.is_some() || asked {
                lost.insert(conn);
            }
        }
    }

    pub(super) fn unblock(&mut self, size: Size, conn: Conn, error: bool) {
        let told =
            self.step(size, Role::Primary, |server, rules, now| server.unblock(rules, now, conn, error));
        self.hear(size, told);
    }

    pub(super) fn run_due(&mut self, size: Size, writes: Writes) {
        self.end_turn(size, |server, rules, now| server.run_due(rules, now, writes));
    }

    /// Takes the last step of a turn, after which the server sends its replies, and closes the connections that it had to close.
    pub(super) fn end_turn(
        &mut self,
        size: Size,
        body: impl FnOnce(&mut Server, Rules, Millis) -> Vec<(Conn, Reply)>,
    ) {
        let doomed: Vec<Conn> = (0..size.conns).filter(|&conn| self.primary.is_doomed(conn)).collect();
        let told = self.step(size, Role::Primary, body);
        doomed.into_iter().for_each(|conn| self.closed(conn));
        self.hear(size, told);
    }

    pub(super) fn run_due_old(&mut self, size: Size) {
        let told = self.step(size, Role::Old, |server, rules, now| server.run_due(rules, now, Writes::Taken));
        for (conn, reply) in told {
            if let Some((who, kind)) = self.waiting_old[usize::from(conn)].take() {
                self.told(size, Role::Old, who, kind, reply);
            }
        }
    }

    pub(super) fn free(&mut self, size: Size) {
        self.end_turn(size, Server::free_done);
    }

    /// Handles answers that clients have got.
    fn hear(&mut self, size: Size, told: Vec<(Conn, Reply)>) {
        for (conn, reply) in told {
            self.arrivals.retain(|queued| *queued != Queued::Blocked(conn));
            match self.waiting[usize::from(conn)].take() {
                Some((who, kind)) => {
                    // The client can't know whether it was answered before, and so has a session.
                    let may_have_been_told = reply == Reply::Unblocked && size.rules.keeps_answers;
                    if may_have_been_told && kind.session() {
                        self.sent_away[usize::from(conn)].insert(who);
                    }
                    self.note_session(conn, who, kind, &reply);
                    self.told(size, Role::Primary, who, kind, reply);
                }
                None if self.primary.has_vanished(conn) => self.told_in_vain(reply),
                None => _ = self.faults.insert(Fault::ToldUnasked),
            }
        }
    }

    pub(super) fn freeze(&mut self) {
        self.pass();
        let held: Vec<Fence> = self.primary.holders(self.now).iter().map(|held| held.grant.fence()).collect();
        let lapsed =
            |belief: &mut Belief| belief.session.is_some() && !belief.old && !held.contains(&belief.fence);
        self.beliefs.iter_mut().for_each(|belief| _ = belief.take_if(lapsed));
    }

    pub(super) fn pass(&mut self) {
        self.now += 1;
        let now = Deadline::At(self.now);
        if self.old.take_if(|(_, ends)| *ends <= self.now).is_some() {
            self.waiting_old.fill(None);
        }
        let (confirms, is_there) = (self.confirms, self.old.is_some());
        for belief in &mut self.beliefs {
            *belief = belief.filter(|belief| match belief.session {
                // The owner may find out that it still has its grant, unless no server is left to ask.
                Some(_) if confirms => now <= belief.until || !belief.old || is_there,
                session => session.is_some() || now <= belief.until,
            });
        }
    }

    pub(super) fn fail_over(&mut self, size: Size, failover: Failover) {
        let Some(mut replica) = self.replica.take() else { return };
        self.on_the_way.clear();
        // A dead primary is noticed only after some time.
        self.pass();
        replica.promote(self.now);
        let old = std::mem::replace(&mut self.primary, replica);
        self.note_acks();
        if failover.lives_on > 0 {
            self.away = failover.away;
            let ends = if self.away { Millis::MAX } else { self.now + failover.lives_on };
            self.old = Some((old, ends));
            self.waiting_old.clone_from(&self.waiting);
        }
        for belief in &mut self.beliefs {
            let goes_on = failover.lives_on > 0 || self.confirms;
            *belief = belief.filter(|belief| belief.session.is_none() || goes_on);
            if let Some(belief) = belief {
                belief.old = belief.session.is_some();
            }
        }
        self.begin_anew();
        self.waiting.fill(None);
        if size.confirm.is_some() && self.old.is_some() {
            // The old primary is not frozen, so it does its due work.
            self.run_due_old(size);
        }
    }

    /// Forgets what the new primary does not know: it has only the keys.
    fn begin_anew(&mut self) {
        self.untold.clear();
        self.known.clear();
        self.to_claim.clear();
        self.sessions.fill(BTreeSet::new());
        self.sent_away.fill(BTreeSet::new());
        self.arrivals.clear();
        self.places.fill(None);
        self.hears.fill(None);
    }

    /// The server is demoted, which sends blocked clients away, and promoted at once. A client that has already been answered gets its
    /// answer. Sessions end with their leases, and their owners no longer rely on them.
    pub(super) fn flip(&mut self, size: Size) {
        for conn in 0..size.conns {
            if self.waiting[usize::from(conn)].is_some() {
                self.unblock(size, conn, true);
            }
        }
        let has_place = |who: &Who| self.primary.queued().contains(&Queued::Notified(owner(*who)));
        let places: Vec<Who> = (0..size.owners).filter(has_place).collect();
        self.to_be_sent_away.extend(places);
        for belief in &mut self.beliefs {
            belief.take_if(|belief| belief.session.is_some());
        }
        self.begin_anew();
        self.step(size, Role::Primary, |server, _, now| {
            server.demote();
            server.promote(now);
        });
    }

    /// The old primary comes back, without knowing yet that it has been replaced.
    pub(super) fn come_back(&mut self, failover: Failover, busy: bool) {
        let Some((old, ends)) = &mut self.old else { return };
        old.come_back(busy);
        *ends = self.now + failover.lives_on;
        self.away = false;
    }
}
