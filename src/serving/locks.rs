//! The table of the rules, the clock, and locks that are open for one step: the work of one command or timer, during which nothing else
//! changes locks. The rules get what the keys have, and say what is to happen to the keys. The keys are written when the rules are finished
//! with the table, because writing may call other modules, which may do anything.

use std::sync::atomic::{AtomicBool, Ordering};

use super::listener::ServerEvents;
use super::{heartbeat, notices, timers};
use crate::error::Error;
use crate::keyspace::{self, LockKey, Signal};
use crate::server::{self, Arg, BlockedClient, Ctx, ServerCell, Step, client_exists, listen_to_keys};
use crate::stats;
use rules::lock::{Deadline, Now};
use rules::waiting::{Effect, Effects, Env, Grants, LockEvent, LockRef, Site, Table};

/// All that the rules know between steps.
pub(super) static TABLE: ServerCell<Table<BlockedClient>> = ServerCell::new(Table::new());

/// Begins a turn of the event loop, or a command, with a whole budget.
#[inline(always)]
pub(super) fn begin_turn() {
    TABLE.with(|table| table.begin_turn());
}

/// Returns the time, for a step that begins now.
pub(crate) fn now() -> Now {
    let micros = server::now();
    Now { micros, start: server::lease_start(micros) }
}

/// Whether nothing is known of any lock.
#[inline(always)]
pub(super) fn knows_nothing() -> bool {
    TABLE.with(|table| table.is_empty())
}

/// Whether the table knows anything of this lock. Not inlined, so that a step with an empty table pays only for one comparison.
#[inline(never)]
pub(super) fn knows(at: LockRef<'_>) -> bool {
    TABLE.with(|table| table.knows(at))
}

pub(super) type Rules<'a> = Env<'a, BlockedClient>;

struct OpenLock<'a> {
    /// `None` once the key is closed.
    lock: Option<LockKey<'a>>,
    key: Arg<'a>,
    at: LockRef<'a>,
    grants: Grants,
    /// The end of the TTL when the lock was opened.
    until: Deadline,
    effects: Effects,
    signal: Option<Signal<'a>>,
}

/// If a step panics, the key keeps its grants.
impl Drop for OpenLock<'_> {
    fn drop(&mut self) {
        if let Some(lock) = &mut self.lock {
            lock.put_back(&mut self.grants);
        }
    }
}

impl<'a> OpenLock<'a> {
    fn new(ctx: &'a Ctx<'a>, lock: LockKey<'a>) -> Self {
        let (key, until) = (lock.name(), lock.deadline());
        let (at, grants) = (LockRef { db: ctx.db(), key: key.bytes() }, Grants::new(None, until));
        Self { lock: Some(lock), key, at, grants, until, effects: Effects::new(), signal: None }
    }

    fn site(&mut self) -> Site<'_> {
        self.grants.value = self.lock.as_mut().and_then(LockKey::take);
        Site::new(self.at, &mut self.grants, &mut self.effects)
    }
}

/// Runs a step on one lock, publishes its events, and sets timers for what is due.
pub(super) fn step_on<'a, R>(
    ctx: &'a Ctx<'a>,
    key: Arg<'a>,
    now: impl FnOnce() -> Now,
    body: impl FnOnce(&mut Rules<'_>, &mut Site<'_>) -> R,
) -> Result<R, Error> {
    let (step, lock) = open(ctx, key)?;
    Ok(step_on_open(ctx, step, lock, now(), body))
}

/// Begins a step, and opens its only lock.
#[inline(always)]
pub(super) fn open<'a>(ctx: &'a Ctx<'a>, key: Arg<'a>) -> Result<(Step, LockKey<'a>), Error> {
    let step = Step::begin().ok_or(Error::Nested)?;
    let mut lock = LockKey::write(ctx, key, true)?;
    if server::is_disturbed() {
        // This assignment also closes the lock that was opened before.
        lock = step.open_again(|| LockKey::write(ctx, key, false))?.ok_or(Error::Disturbed)?;
    }
    Ok((step, lock))
}

#[inline(never)]
pub(super) fn step_on_open<'a, R>(
    ctx: &'a Ctx<'a>,
    step: Step,
    lock: LockKey<'a>,
    now: Now,
    body: impl FnOnce(&mut Rules<'_>, &mut Site<'_>) -> R,
) -> R {
    let mut lock = OpenLock::new(ctx, lock);
    let result = with_rules(now, |env| body(env, &mut lock.site()));
    finish(ctx, step, std::slice::from_mut(&mut lock));
    result
}

/// Runs a step on several different locks, publishes its events, and sets timers for what is due.
pub(super) fn step<'a, R>(
    ctx: &'a Ctx<'a>,
    keys: &[Arg<'a>],
    now: Now,
    body: impl FnOnce(&mut Rules<'_>, &mut [Site<'_>]) -> R,
) -> Result<R, Error> {
    let step = Step::begin().ok_or(Error::Nested)?;
    let open = || {
        let locks = keys.iter().map(|key| Ok(OpenLock::new(ctx, LockKey::write(ctx, *key, false)?)));
        locks.collect::<Result<Vec<_>, Error>>()
    };
    let mut locks = open()?;
    if server::is_disturbed() {
        locks = step.open_again(open)?.ok_or(Error::Disturbed)?;
    }
    let result =
        with_rules(now, |env| body(env, &mut locks.iter_mut().map(OpenLock::site).collect::<Vec<_>>()));
    finish(ctx, step, &mut locks);
    Ok(result)
}

fn with_rules<R>(now: Now, body: impl FnOnce(&mut Rules<'_>) -> R) -> R {
    let (limits, grace) = (heartbeat::limits(), heartbeat::grace_left());
    TABLE.with(|table| {
        keyspace::with_fences(|fences| {
            body(&mut Env { table, fences, limits, grace, now, is_open: &client_exists })
        })
    })
}

/// Does what a step has decided.
fn finish(ctx: &Ctx<'_>, step: Step, locks: &mut [OpenLock<'_>]) {
    for OpenLock { lock, grants, until, effects, .. } in &mut *locks {
        if let Some(lock) = lock {
            lock.write_back(ctx, grants, *until, effects);
        }
    }
    for OpenLock { lock, key, grants, effects, .. } in &mut *locks {
        if let Some(lock) = lock {
            lock.make_or_delete(ctx, grants, effects);
        }
        for effect in &*effects {
            if let Effect::Lapse(grant, waiters) = effect {
                keyspace::log_lapse(ctx, *key, grant, *waiters, notices::lapse_level(*waiters));
            }
        }
    }
    if server::is_disturbed() {
        // Some of the changes may have been undone, and others not made.
        locks.iter().for_each(|lock| _ = TABLE.with(|table| table.touched(lock.at)));
    }
    // All locks are closed before any event is published, because other modules may change keys when they hear of an event.
    for OpenLock { lock, signal, .. } in &mut *locks {
        *signal = lock.take().map(LockKey::close);
    }
    drop(step);
    for OpenLock { key, effects, signal, .. } in locks {
        drop(signal.take());
        for effect in effects {
            if let Effect::Event(event) = effect {
                publish(ctx, *key, *event);
            }
        }
    }
    // While the table has a lock, the module has to notice if somebody else changes its key. Only events about changed keys say so.
    if !knows_nothing() {
        listen(ctx);
    }
    timers::arm();
}

/// Subscribes to events about changed keys, unless this has already been done. Only these events tell the module that somebody has
/// shortened a lease on which a waiter or a session depends, or that a client's payload has become a key. The events cost time, so the
/// module subscribes only when somebody first waits, a session first begins, or a client first sends a payload.
pub(super) fn listen(ctx: &Ctx<'_>) {
    static LISTENING: AtomicBool = AtomicBool::new(false);
    if !LISTENING.swap(true, Ordering::Relaxed) {
        listen_to_keys::<ServerEvents>(ctx);
    }
}

/// Adds an event to the counters, and publishes it if it is a keyspace event.
#[inline(always)]
pub(super) fn publish(ctx: &Ctx<'_>, key: Arg<'_>, event: LockEvent) {
    let (counter, name) = match event {
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
    if let Some(name) = name {
        ctx.notify(name, key);
    }
}
