//! Sessions: a connection keeps a grant alive. The module renews the lease each time a third of it has passed, so the grant lapses by
//! itself if this server dies. When the connection has closed, the grant ends.

use super::held::LockEvent;
use super::lock_id::LockRef;
use super::lock_state::{LockState, Session};
use super::message::MessageKind;
use super::replication::{Confirm, Moved};
use super::step::{Env, Site};
use super::table::Table;
use crate::lock::{self, Deadline, Fence, GrantChange, Millis};

const RENEWALS_PER_LEASE: Millis = 3;
/// Renewals that are due within the same thirtieth of the lease are made together.
const PASSES_PER_LEASE: Millis = 30;

impl Session {
    pub(super) fn new(
        client: u64,
        lease: Millis,
        confirm: Option<Confirm>,
        until: Deadline,
        now: Millis,
    ) -> Self {
        let renew_at = next_renewal(lease, now);
        let mut session = Self { client, lease, renew_at, look_at: renew_at, over: false, confirm };
        session.renew_before(until, now);
        session
    }

    /// The lease ends at `until`, unless it is renewed before.
    pub(super) fn renew_before(&mut self, until: Deadline, now: Millis) {
        if until < Deadline::At(self.renew_at) {
            self.look_at = self.look_at.min(now.saturating_add(until.left(now) / RENEWALS_PER_LEASE));
        }
    }
}

fn next_renewal(lease: Millis, now: Millis) -> Millis {
    let pass = (lease / PASSES_PER_LEASE).max(1);
    let due = now.saturating_add(lease / RENEWALS_PER_LEASE);
    (due - due % pass).max(now.saturating_add(1))
}

impl<C: Copy> Table<C> {
    /// A connection keeps a grant alive, instead of any other connection.
    pub(super) fn start_session(
        &mut self,
        at: LockRef<'_>,
        lock: &mut LockState,
        fence: Fence,
        session: Session,
    ) {
        // Blocked clients of the same owner that are still to be told don't take it over.
        lock.change(fence, |record| {
            record.pending.iter_mut().filter(|hold| !hold.to_claim).for_each(|hold| hold.binds = false);
        });
        self.set_session(at, lock, fence, Some(session));
    }
}

impl Site<'_> {
    /// Ends the grant if its connection has closed. Renews the lease, if not.
    pub(super) fn settle_session<C: Copy>(&mut self, env: &mut Env<'_, C>, fence: Fence) {
        let Some(record) = self.lock.record(fence) else { return };
        let (Some(session), now) = (record.session, env.now.millis()) else { return };
        let (mut lease, Some(held)) = (session.lease, self.grants.with_fence(fence)) else {
            return env.table.ended(self.at, &mut self.lock, fence, Some(MessageKind::Lost));
        };
        // The server reports each closed connection; `is_open` makes up for a report that was missed.
        if session.over || !(env.is_open)(session.client) {
            if !env.table.has_successor(record) {
                return self.end(env, fence, LockEvent::SessionEnded);
            }
        } else if let Some((moved, _)) = record.renewal.as_deref().copied().filter(|(_, ends)| *ends <= now) {
            return self.undo_renewal(env, session, fence, held.deadline, moved);
        } else if session.renew_at > now && held.deadline >= Deadline::At(session.renew_at) {
            // Somebody had shortened the lease, and has made it longer again.
            return self.renew_at(fence, session.renew_at);
        } else {
            lease = env.limits.allowed(lease);
            let (from, to) = (held.deadline, lock::lengthen(held, lease, env.limits, env.now.start));
            // In the lease's last millisecond, it is too late to ask replicas.
            let is_late = session.confirm.is_some() && from <= Deadline::At(now);
            if record.renewal.is_none() && !is_late {
                self.effects.extend(self.grants.update(fence, GrantChange::NONE, to));
                let moved = Moved { from, to };
                let renewal = session.confirm.map(|confirm| (moved, confirm.ends(from, now)));
                env.table.set_renewal(&self.at.to_id(), &mut self.lock, fence, Some(session), renewal);
            }
        }
        self.renew_at(fence, next_renewal(lease, now));
    }

    /// Replicas have not confirmed a renewal in time. The lease ends when it did before, unless somebody has changed it since, and the
    /// session tries again. If that time has passed, the grant ends.
    fn undo_renewal<C: Copy>(
        &mut self,
        env: &mut Env<'_, C>,
        session: Session,
        fence: Fence,
        mut until: Deadline,
        moved: Moved,
    ) {
        let now = env.now.millis();
        env.table.set_renewal(&self.at.to_id(), &mut self.lock, fence, Some(session), None);
        if until == moved.to {
            until = moved.from;
            if until < Deadline::At(now) {
                return self.end(env, fence, LockEvent::Lapsed);
            }
            self.update(env.now, fence, GrantChange::NONE, until);
        }
        self.renew_at(fence, now.saturating_add(until.left(now) / RENEWALS_PER_LEASE));
    }

    fn renew_at(&mut self, fence: Fence, time: Millis) {
        let renew_at = |session: &mut Session| (session.renew_at, session.look_at) = (time, time);
        self.lock.change(fence, |record| record.session.iter_mut().for_each(renew_at));
    }
}
