//! One lock, open for one step: where the rules of `waiting` meet the keyspace.

use super::heartbeat;
use super::notices;
use super::table::{BUDGET, TABLE, now};
use crate::error::Error;
use crate::keyspace::{self, LockKey, Signal};
use crate::lock::{Deadline, Fence, Grant, GrantChange, Limits, Millis, Now, Value};
use crate::server::{self, Arg, Blocked, Ctx, Step, client_exists};
use crate::stats;
use crate::waiting::{CHANGE, Environment, GraceLeft, LockAccess, LockEvent, LockRef, WaitTable};

pub(crate) struct OpenLock<'a> {
    ctx: &'a Ctx<'a>,
    lock: LockKey<'a>,
    /// What `idle` has answered; none where nobody has asked yet.
    idle: Option<bool>,
    /// Others lend it too.
    among_others: bool,
    /// The state was lent: something may be due now.
    lent: bool,
    /// A grant was made or has ended.
    changed: bool,
    /// The events to publish when the step is over. The server calls other modules for events, and these modules may do anything to the
    /// key.
    first: Option<LockEvent>,
    more: Vec<LockEvent>,
}

impl<'a> OpenLock<'a> {
    /// Opens a lock and runs a step on it. What others are to hear of it they hear afterwards; then `due` runs, if something
    /// may have fallen due.
    pub(super) fn step<R>(
        ctx: &'a Ctx<'a>,
        key: Arg<'a>,
        body: impl FnOnce(&mut Self) -> Result<R, Error>,
        due: impl FnOnce(&Ctx<'_>),
    ) -> Result<R, Error> {
        let step = Step::begin().ok_or(Error::Nested)?;
        let mut lock = Self::open(ctx, key, false)?;
        if server::is_disturbed() {
            // The earlier one is closed only then.
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
            idle: None,
            among_others,
            lent: false,
            changed: false,
            first: None,
            more: Vec::new(),
        })
    }

    /// After a step that was disturbed: what was done may be undone already, and what was to be done was left. A timer has the lock looked at.
    #[cold]
    #[inline(never)]
    pub(super) fn recheck_soon(&mut self) {
        let now = now().millis();
        self.here(|table, at| table.locks.recheck_by(at, now));
    }

    /// Closes the lock. Returns what is left to be told of the step.
    #[inline(always)]
    pub(super) fn close(self) -> Closed<'a> {
        let Self { lock, lent, first, more, .. } = self;
        Closed { key: lock.name(), signal: lock.close(), lent, first, more }
    }
}

/// A lock on which a step has been done.
pub(super) struct Closed<'a> {
    key: Arg<'a>,
    signal: Signal<'a>,
    lent: bool,
    first: Option<LockEvent>,
    more: Vec<LockEvent>,
}

impl Closed<'_> {
    /// Tells listeners of the step. Whether something may have fallen due.
    #[inline(always)]
    pub(super) fn publish(self, ctx: &Ctx<'_>) -> bool {
        drop(self.signal);
        if let Some(note) = self.first {
            publish(ctx, self.key, note);
            for note in self.more {
                publish(ctx, self.key, note);
            }
        }
        self.lent
    }
}

impl Environment for OpenLock<'_> {
    type Client = Blocked;

    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<Blocked>) -> R) -> R {
        // Where nobody waits, somebody may from now on. One that is not idle may count as such until the step is over.
        self.idle = self.idle.filter(|idle| !idle);
        self.lent = true;
        TABLE.with(body)
    }

    #[inline(always)]
    fn limits(&mut self) -> Limits {
        heartbeat::limits()
    }

    fn is_open(&self, client: u64) -> bool {
        client_exists(client)
    }

    fn pay(&mut self, work: u32) -> bool {
        if work < CHANGE {
            return BUDGET.with(|budget| budget.pay(work));
        }
        // For a change, the server reads the name of the key again.
        let weight = LockRef { db: self.db(), key: self.key().as_ref() }.weight();
        BUDGET.with(|budget| budget.pay(work.saturating_mul(weight as u32)))
    }

    fn spend(&mut self, work: u32) {
        BUDGET.with(|budget| budget.spend(work));
    }
}

impl<'a> LockAccess for OpenLock<'a> {
    type Key = Arg<'a>;

    fn db(&self) -> i32 {
        self.ctx.db()
    }

    fn key(&self) -> Arg<'a> {
        self.lock.name()
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
                notices::of_lapse(LockRef { db: self.db(), key: self.lock.name().bytes() });
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

    /// Nothing new is granted either where somebody has disturbed the step: the lock may look free, and not be.
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

/// Looks the lock up in the table of waiters. A function of its own, so that a step pays one comparison if nobody waits for any lock.
#[inline(never)]
fn is_idle(ctx: &Ctx<'_>, key: Arg<'_>) -> bool {
    let at = LockRef { db: ctx.db(), key: key.bytes() };
    TABLE.with(|table| table.locks.is_idle(at))
}

/// Counts what has happened, and publishes it as a keyspace event.
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
