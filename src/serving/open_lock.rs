//! One lock, open for one step (the work of one command or timer, during which no other command changes locks). Implements `LockAccess` on
//! a key of the server.

use std::cell::Cell;

use super::heartbeat;
use super::notices;
use super::table::{BUDGET, TABLE, now};
use crate::error::Error;
use crate::keyspace::{self, LockKey, Signal};
use crate::server::{self, Arg, BlockedClient, Ctx, Step, client_exists};
use crate::stats;
use rules::lock::{Deadline, Fence, Grant, GrantChange, Limits, Millis, Now, Value};
use rules::waiting::{Budget, CHANGE, Environment, GraceLeft, LockAccess, LockEvent, LockRef, WaitTable};

pub(crate) struct OpenLock<'a> {
    ctx: &'a Ctx<'a>,
    lock: LockKey<'a>,
    /// The name of the key; `None` before the first call of `key`.
    name: Cell<Option<&'a [u8]>>,
    /// Whether the table of waiters has nothing about the lock; `None` if the step has not looked yet, or the answer may have changed.
    idle: Option<bool>,
    /// Whether the command has several locks open.
    among_others: bool,
    /// Whether the step has used the table of waiters, so that work may be due now.
    table_used: bool,
    /// Whether this step has made or ended a grant.
    changed: bool,
    /// The first event of this step, and the later events. Events are published after the step, because other modules hear of events, and
    /// may then do anything to the key.
    first: Option<LockEvent>,
    more: Vec<LockEvent>,
}

impl<'a> OpenLock<'a> {
    /// Opens a lock, runs the step `body` on this lock, and publishes the step's events. Then, if work may be due, runs `due`. Returns the
    /// result of `body`, or an error if the lock can't be opened.
    pub(super) fn step<R>(
        ctx: &'a Ctx<'a>,
        key: Arg<'a>,
        body: impl FnOnce(&mut Self) -> Result<R, Error>,
        due: impl FnOnce(&Ctx<'_>),
    ) -> Result<R, Error> {
        let Some(step) = Step::begin() else { return Err(Error::Nested) };
        let mut lock = Self::open(ctx, key, false)?;
        if server::is_disturbed() {
            // This assignment also closes the lock that was opened before.
            lock = step.open_again(|| Self::open(ctx, key, true))?.ok_or(Error::Disturbed)?;
        }
        let result = body(&mut lock);
        if server::is_disturbed() {
            lock.recheck_soon();
        }
        let closed = lock.close();
        drop(step);
        if closed.publish(ctx) {
            due(ctx);
        }
        result
    }

    #[inline(always)]
    pub(super) fn open(ctx: &'a Ctx<'a>, key: Arg<'a>, among_others: bool) -> Result<Self, Error> {
        let lock = LockKey::write(ctx, key, !among_others)?;
        Ok(Self {
            ctx,
            lock,
            name: Cell::new(None),
            idle: None,
            among_others,
            table_used: false,
            changed: false,
            first: None,
            more: Vec::new(),
        })
    }

    /// Sets a timer that compares all that the module knows of the lock with the lock's key. Called after a step during which something
    /// else changed keys, so that some changes of the step may have been undone, and others not made.
    #[cold]
    #[inline(never)]
    pub(super) fn recheck_soon(&mut self) {
        let now = now().millis();
        self.here(|table, at| table.locks.recheck_by(at, now));
    }

    /// Closes the lock. The caller has to call `publish` on the result.
    #[inline(always)]
    pub(super) fn close(self) -> Closed<'a> {
        let Self { lock, table_used, first, more, .. } = self;
        Closed { key: lock.name(), signal: lock.close(), table_used, first, more }
    }
}

/// A closed lock, and the events of its step.
pub(super) struct Closed<'a> {
    key: Arg<'a>,
    signal: Signal<'a>,
    table_used: bool,
    first: Option<LockEvent>,
    more: Vec<LockEvent>,
}

impl Closed<'_> {
    /// Signals a change to clients that `WATCH` the key, and publishes the events of the step. Returns whether work may be due.
    #[inline(always)]
    pub(super) fn publish(self, ctx: &Ctx<'_>) -> bool {
        drop(self.signal);
        if let Some(note) = self.first {
            publish(ctx, self.key, note);
            for note in self.more {
                publish(ctx, self.key, note);
            }
        }
        self.table_used
    }
}

impl Environment for OpenLock<'_> {
    type Client = BlockedClient;

    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<BlockedClient>) -> R) -> R {
        // `body` may add data about the lock to the table, so an `idle` of `true` is forgotten. A `false` stays until the step is over,
        // because a wrong `false` only costs time.
        self.idle = self.idle.filter(|idle| !idle);
        self.table_used = true;
        TABLE.with(body)
    }

    #[inline(always)]
    fn limits(&mut self) -> Limits {
        heartbeat::limits()
    }

    fn is_open(&self, client: u64) -> bool {
        client_exists(client)
    }

    fn budget<R>(&mut self, body: impl FnOnce(&mut Budget) -> R) -> R {
        BUDGET.with(body)
    }

    fn pay(&mut self, work: u32) -> bool {
        if work < CHANGE {
            return BUDGET.with(|budget| budget.pay(work));
        }
        // A change costs more if the key's name is long, because the server reads the name again.
        let weight = LockRef { db: self.db(), key: self.key() }.weight();
        BUDGET.with(|budget| budget.pay(work.saturating_mul(weight as u32)))
    }
}

impl<'a> LockAccess for OpenLock<'a> {
    type Key = &'a [u8];

    fn db(&self) -> i32 {
        self.ctx.db()
    }

    fn key(&self) -> &'a [u8] {
        let name = self.name.get().unwrap_or_else(|| self.lock.name().bytes());
        self.name.set(Some(name));
        name
    }

    #[inline(always)]
    fn value(&self) -> Option<&Value> {
        self.lock.value()
    }

    fn deadline(&self) -> Deadline {
        self.lock.deadline()
    }

    #[inline(always)]
    fn give(&mut self, grant: Grant, until: Deadline) {
        self.changed = true;
        self.lock.give(self.ctx, grant, until);
    }

    fn add(&mut self, grant: Grant, until: Deadline) {
        self.changed = true;
        self.lock.add(self.ctx, grant, until);
    }

    fn update(&mut self, fence: Fence, change: GrantChange<'_>, until: Deadline) {
        self.lock.update(self.ctx, fence, change, until);
    }

    fn end(&mut self, fence: Fence, why: LockEvent) {
        self.changed = true;
        self.lock.end(self.ctx, fence);
        self.note(why);
    }

    fn end_lapsed(&mut self, now: Millis, most: usize) -> Vec<Fence> {
        let lapsed = self.lock.end_lapsed(self.ctx, now, most);
        self.changed |= !lapsed.is_empty();
        for grant in &lapsed {
            let (waiters, level) =
                notices::lapse_notice(LockRef { db: self.db(), key: self.lock.name().bytes() });
            keyspace::log_lapse(self.ctx, self.lock.name(), grant, waiters, level);
            self.note(LockEvent::Lapsed);
        }
        lapsed.iter().map(Grant::fence).collect()
    }

    #[inline(always)]
    fn free(&mut self) {
        self.changed = true;
        self.lock.free(self.ctx);
    }

    fn note(&mut self, note: LockEvent) {
        match self.first {
            None => self.first = Some(note),
            Some(_) => self.more.push(note),
        }
    }

    /// Also returns `None` if something else has changed keys during this step: the lock may then look free without being free, so the step
    /// must grant nothing new.
    #[inline(always)]
    fn next_fence(&mut self, now: Now) -> Option<Fence> {
        if server::is_disturbed() { None } else { keyspace::next_fence(now.micros) }
    }

    fn grace(&mut self) -> GraceLeft {
        heartbeat::grace_left()
    }

    fn changed(&self) -> bool {
        self.changed
    }

    fn idle(&mut self) -> bool {
        if self.among_others && self.idle != Some(false) {
            self.idle = Some(is_idle(self.ctx, self.lock.name()));
            return self.idle == Some(true);
        }
        *self.idle.get_or_insert_with(|| {
            TABLE.with(|table| table.locks.is_empty()) || is_idle(self.ctx, self.lock.name())
        })
    }
}

/// Whether the table of waiters has nothing about the lock. The function is not inlined, so that a step pays only one comparison if the
/// table is empty.
#[inline(never)]
fn is_idle(ctx: &Ctx<'_>, key: Arg<'_>) -> bool {
    let at = LockRef { db: ctx.db(), key: key.bytes() };
    TABLE.with(|table| table.locks.is_idle(at))
}

/// Adds an event to the counters, and publishes it if it is a keyspace event.
#[inline(always)]
pub(super) fn publish(ctx: &Ctx<'_>, key: Arg<'_>, note: LockEvent) {
    let (counter, event) = match note {
        LockEvent::Acquired => (Some(&stats::GRANTS), Some(c"lock.acquired")),
        LockEvent::HandedOver => {
            stats::GRANTS.count();
            (Some(&stats::HANDOVERS), Some(c"lock.acquired"))
        }
        LockEvent::Released => (Some(&stats::RELEASES), Some(c"lock.released")),
        LockEvent::TakenBack => (None, Some(c"lock.released")),
        LockEvent::SessionEnded => (Some(&stats::SESSIONS_ENDED), Some(c"lock.released")),
        LockEvent::Lapsed => (Some(&stats::LAPSES), Some(c"lock.lapsed")),
        LockEvent::Broken => (Some(&stats::BREAKS), Some(c"lock.broken")),
        LockEvent::Extended => (Some(&stats::EXTENSIONS), Some(c"lock.extended")),
        LockEvent::Reentered => (Some(&stats::REENTRIES), None),
        LockEvent::Upgraded => (Some(&stats::UPGRADES), None),
        LockEvent::Shared => (Some(&stats::GRANTS_SHARED), None),
        LockEvent::Deadlocked => (Some(&stats::DEADLOCKS), None),
        LockEvent::Refused => (Some(&stats::REFUSALS), None),
        LockEvent::Waited(ms) => {
            stats::waited(ms);
            (None, None)
        }
    };
    if let Some(counter) = counter {
        counter.count();
    }
    if let Some(event) = event {
        ctx.notify(event, key);
    }
}
