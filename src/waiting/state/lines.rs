//! The queues, one to a lock: who comes, who is next, who leaves.

use std::sync::Arc;

use super::{Line, State};
use crate::lock::{Ask, Millis, Owner, Ticket};
use crate::server::{self, Blocked};
use crate::waiting::waiter::{Phase, Place, Waiter, WaiterInfo};

impl State {
    pub(super) fn line(&self, db: i32, key: &[u8]) -> Option<&Line> {
        self.lines.get(&db)?.get(key)
    }

    pub(super) fn line_mut(&mut self, db: i32, key: &[u8]) -> Option<&mut Line> {
        self.lines.get_mut(&db)?.get_mut(key)
    }

    /// The name of a line, shared with it.
    pub(super) fn place(&self, db: i32, key: &[u8]) -> Option<Place> {
        let (key, _) = self.lines.get(&db)?.get_key_value(key)?;
        Some(Place { db, key: Arc::clone(key) })
    }

    pub(in crate::waiting) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        Ticket(self.last_ticket.get())
    }

    pub(in crate::waiting) fn waiters_of(&self, db: i32, key: &[u8]) -> usize {
        self.line(db, key).map_or(0, |line| line.queue.len())
    }

    pub(in crate::waiting) fn queue_of(&self, db: i32, key: &[u8]) -> Vec<WaiterInfo> {
        let now = server::now();
        let Some(line) = self.line(db, key) else { return Vec::new() };
        let waiters = line.queue.iter().filter_map(|ticket| self.waiters.get(ticket));
        waiters
            .map(|waiter| WaiterInfo {
                owner: waiter.ask.owner.clone(),
                client_id: waiter.client_id,
                waited: now.saturating_sub(waiter.since).max(0) / 1000,
                timeout: waiter.timeout,
            })
            .collect()
    }

    #[allow(clippy::too_many_arguments)]
    pub(in crate::waiting) fn join(
        &mut self,
        db: i32,
        key: &[u8],
        ticket: Ticket,
        ask: Ask<'static>,
        client: Blocked,
        client_id: u64,
        timeout: Millis,
    ) {
        let place = self.place(db, key).unwrap_or_else(|| Place { db, key: key.into() });
        let line = self.lines.entry(db).or_default().entry(Arc::clone(&place.key)).or_default();
        line.queue.join(ticket, ask.owner.clone());
        let since = server::now();
        let phase = Phase::Queued;
        let unblocked = false;
        let waiter = Waiter { place, ask, phase, client, client_id, since, unblocked, timeout };
        self.timeouts.extend(waiter.gives_up().map(|at| (at, ticket)));
        self.waiters.insert(ticket, waiter);
    }

    /// The first waiter of a line, and what it asks for.
    pub(in crate::waiting) fn head(&self, db: i32, key: &[u8]) -> Option<(Ticket, Ask<'static>)> {
        let ticket = self.line(db, key)?.queue.head()?;
        let waiter = self.waiters.get(&ticket)?;
        Some((ticket, waiter.ask.clone()))
    }

    /// The first waiter of a line with that owner, and what it asks for.
    pub(in crate::waiting) fn head_of(
        &self,
        db: i32,
        key: &[u8],
        owner: &Owner<'static>,
    ) -> Option<(Ticket, Ask<'static>)> {
        let ticket = self.line(db, key)?.queue.first_of(owner)?;
        let waiter = self.waiters.get(&ticket)?;
        Some((ticket, waiter.ask.clone()))
    }

    /// The one way out of a line, for whatever reason; whether the waiter stood in it.
    pub(super) fn leave(&mut self, ticket: Ticket, next: Phase) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return false };
        if waiter.phase != Phase::Queued {
            return false;
        }
        waiter.phase = next;
        let place = waiter.place.clone();
        let owner = waiter.ask.owner.clone();
        if let Some(at) = waiter.gives_up() {
            self.timeouts.remove(&(at, ticket));
        }
        if let Some(line) = self.line_mut(place.db, &place.key) {
            line.queue.leave(ticket, &owner);
            self.drop_line_if_empty(&place);
        }
        true
    }

    pub(super) fn drop_line_if_empty(&mut self, place: &Place) {
        let Some(lines) = self.lines.get_mut(&place.db) else { return };
        if lines.get(&place.key).is_none_or(|line| !line.queue.is_empty() || line.session.is_some()) {
            return;
        }
        let alarm = lines.remove(&place.key).and_then(|line| line.alarm);
        if lines.is_empty() {
            self.lines.remove(&place.db);
        }
        if let Some(at) = alarm.filter(|_| !self.dead.contains_key(place)) {
            self.alarms.remove(&(at, place.clone()));
        }
    }
}
