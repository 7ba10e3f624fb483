//! Sessions: a connection keeps a grant alive. The module renews the lease each time a third of it has passed, so the grant lapses by
//! itself if this server dies.
//!
//! A session ends when:
//!
//! - its connection closes. `Table::closed` notes this, and the next step at the lock (`mark_all_closed`) or a timer (`end_next_dependent`)
//!   marks the session. Then `renew_or_end` ends the grant, too, unless a waiter that is still to be told will keep it alive;
//! - its grant ends, or moves to another key (`Table::ended`);
//! - another connection takes the grant over (`keep` after a command, `begin_session` when a waiter is told);
//! - the answer with which it began did not arrive (`drop_sessions`);
//! - this server becomes a replica (`demoted`).

use super::budget::LOOKUP;
use super::connections::Dependent;
use super::grants::LockEvent;
use super::lock_id::{LockId, LockRef};
use super::lock_state::{LockState, Record, Session};
use super::message::MessageKind;
use super::queue::RequestId;
use super::replication::{Awaited, Confirm, Moved};
use super::step::{Env, Site};
use super::table::Table;
use crate::lock::{self, Deadline, Fence, GrantChange, Millis};

const RENEWALS_PER_LEASE: Millis = 3;
/// Renewals that are due within the same thirtieth of the lease are made together.
const PASSES_PER_LEASE: Millis = 30;

impl Session {
    pub(super) fn new(
        connection: u64,
        lease: Millis,
        confirm: Option<Confirm>,
        until: Deadline,
        now: Millis,
    ) -> Self {
        let renew_at = next_renewal(lease, now);
        let mut session = Self { connection, lease, renew_at, wake_at: renew_at, closed: false, confirm };
        session.renew_before(until, now);
        session
    }

    /// Makes sure that the session renews a lease that ends at `until` before this time.
    pub(super) fn renew_before(&mut self, until: Deadline, now: Millis) {
        if until < Deadline::At(self.renew_at) {
            self.wake_at = self.wake_at.min(now.saturating_add(until.left(now) / RENEWALS_PER_LEASE));
        }
    }
}

fn next_renewal(lease: Millis, now: Millis) -> Millis {
    let pass = (lease / PASSES_PER_LEASE).max(1);
    let due = now.saturating_add(lease / RENEWALS_PER_LEASE);
    (due - due % pass).max(now.saturating_add(1))
}

impl<C: Copy> Table<C> {
    /// Sets which connection keeps a grant alive.
    pub(super) fn set_session(
        &mut self,
        at: LockRef<'_>,
        lock: &mut LockState,
        fence: Fence,
        session: Option<Session>,
    ) {
        let id = self.intern(at);
        let before =
            lock.change_or_add(fence, |record| std::mem::replace(&mut record.session, session)).flatten();
        self.set_renewal(&id, lock, fence, before, None);
        let connection =
            |session: Option<Session>| session.filter(|session| !session.closed).map(|its| its.connection);
        self.move_session(&id, fence, connection(before), connection(session));
    }

    /// Sets the renewal of a session that replicas have to confirm.
    pub(super) fn set_renewal(
        &mut self,
        id: &LockId,
        lock: &mut LockState,
        fence: Fence,
        session: Option<Session>,
        renewal: Option<(Moved, Millis)>,
    ) {
        let Some(confirm) = session.and_then(|session| session.confirm) else { return };
        let known =
            lock.change(fence, |record| std::mem::replace(&mut record.renewal, renewal.map(Box::new)));
        let row = || Awaited::Renewal(id.clone(), fence);
        match (known.flatten(), renewal) {
            (None, Some(_)) => self.replication.add(row(), confirm.replicas),
            (Some(_), None) => self.replication.remove(&row()),
            _ => (),
        }
    }

    pub(super) fn move_session(&mut self, id: &LockId, fence: Fence, from: Option<u64>, to: Option<u64>) {
        let (row, weight) = (|| Dependent::Session(id.clone(), fence), id.to_ref().weight());
        if from != to {
            to.into_iter().for_each(|connection| self.connections.add(connection, row(), weight));
            from.into_iter().for_each(|connection| self.connections.remove(connection, row(), weight));
        }
    }

    /// Marks all sessions of a lock whose connections have closed.
    pub(super) fn mark_all_closed(&mut self, at: LockRef<'_>, lock: &mut LockState) {
        let id = at.to_id();
        let ended = if self.connections.closed.len() < lock.records().len() {
            self.connections.closed_at(&id)
        } else {
            let connection =
                |record: &Record| record.session.filter(|session| !session.closed).map(|its| its.connection);
            let is_closed = |record: &&Record| {
                connection(record).is_some_and(|connection| self.connections.is_closed(connection))
            };
            lock.records().filter(is_closed).map(|record| record.fence).collect()
        };
        for fence in ended {
            self.budget.spend(LOOKUP);
            self.mark_closed(&id, lock, fence);
        }
    }

    /// Marks a session whose connection has closed, so that `renew_or_end` ends its grant.
    pub(super) fn mark_closed(&mut self, id: &LockId, lock: &mut LockState, fence: Fence) {
        let end = |session: &mut Session| {
            (session.closed, session.wake_at) = (true, 0);
            session.connection
        };
        let connection = lock.change(fence, |record| record.session.as_mut().map(end)).flatten();
        self.move_session(id, fence, connection, None);
    }

    /// The answer of a waiter did not arrive, so the sessions that began with it end.
    pub(super) fn drop_sessions(&mut self, request: RequestId) {
        let connection = self.waiters.get(&request).map(|waiter| waiter.connection);
        for (id, fence) in self.granted(request) {
            self.change(id.to_ref(), None, |table, lock| {
                let began = |record: &Record| {
                    record.hold(request).is_some_and(|hold| hold.binds)
                        && record.session.map(|session| session.connection) == connection
                };
                if lock.record(fence).is_some_and(began) {
                    table.set_session(id.to_ref(), lock, fence, None);
                }
            });
        }
    }

    /// Whether the connection of a session has closed.
    pub(super) fn has_closed(&self, session: Session) -> bool {
        session.closed || self.connections.is_closed(session.connection)
    }

    /// Whether a waiter that is still to be told of this grant will keep it alive.
    pub(super) fn has_successor(&self, record: &Record) -> bool {
        record.pending.iter().any(|hold| hold.binds && self.is_untold(hold.request))
    }

    /// A waiter is told of its grant, so its session begins. `told` leads from the lease's end in the answer to the end in the grant.
    pub(super) fn begin_session(
        &mut self,
        request: RequestId,
        id: &LockId,
        fence: Fence,
        session: Session,
        told: Moved,
        now: Millis,
    ) {
        self.change(id.to_ref(), None, |table, lock| {
            let keeps = lock
                .record(fence)
                .and_then(|record| record.session)
                .is_some_and(|known| known.connection == session.connection && !known.closed);
            let binds = |record: &mut Record| {
                let hold = record.pending.iter_mut().find(|hold| hold.request == request)?;
                // If the connection already keeps the grant alive, it does so even if the client turns out to be gone.
                let binds = hold.binds;
                hold.binds &= !keeps;
                Some(binds)
            };
            if lock.change(fence, binds).flatten() == Some(true) {
                // If replicas confirmed the leases of an earlier session, only the last renewal may not be confirmed yet.
                let earlier = lock.record(fence).filter(|_| lock.is_synced(fence));
                let sure = earlier.map(|record| record.renewal.as_ref().map_or(told.to, |last| last.0.from));
                let from = sure.map_or(told.from, |sure| sure.max(told.from));
                table.set_session(id.to_ref(), lock, fence, Some(session));
                // A longer lease counts as a renewal that replicas have to confirm.
                let confirm = session.confirm.filter(|_| from < told.to);
                let renewal =
                    confirm.map(|confirm| (Moved { from, to: told.to }, confirm.too_late(from, now)));
                table.set_renewal(id, lock, fence, Some(session), renewal);
                let due = lock.first_due().map(|(time, _)| time);
                lock.wake = lock.wake.into_iter().chain(due).min();
            }
        });
    }
}

impl Site<'_> {
    /// Ends the grant if the connection of its session has closed. If not, renews the lease.
    pub(super) fn renew_or_end<C: Copy>(&mut self, env: &mut Env<'_, C>, fence: Fence) {
        let Some(record) = self.lock.record(fence) else { return };
        let (Some(session), now) = (record.session, env.now.millis()) else { return };
        let (mut lease, Some(held)) = (session.lease, self.grants.with_fence(fence)) else {
            return env.table.ended(self.at, &mut self.lock, fence, Some(MessageKind::Lost));
        };
        // The server reports each closed connection; `is_open` makes up for a report that was missed.
        if session.closed || !(env.is_open)(session.connection) {
            if !env.table.has_successor(record) {
                return self.end(env, fence, LockEvent::SessionEnded);
            }
        } else if let Some((moved, _)) =
            record.renewal.as_deref().copied().filter(|(_, too_late)| *too_late <= now)
        {
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
                let renewal = session.confirm.map(|confirm| (moved, confirm.too_late(from, now)));
                env.table.set_renewal(&self.at.to_id(), &mut self.lock, fence, Some(session), renewal);
            }
        }
        self.renew_at(fence, next_renewal(lease, now));
    }

    /// Replicas have not confirmed a renewal in time. The lease gets its earlier end back, unless somebody has changed it since, and the
    /// session tries again. If the earlier end has passed, the grant ends.
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
        let renew_at = |session: &mut Session| (session.renew_at, session.wake_at) = (time, time);
        self.lock.change(fence, |record| record.session.iter_mut().for_each(renew_at));
    }
}
