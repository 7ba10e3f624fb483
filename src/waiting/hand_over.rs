//! A lock goes from one owner to the next.

use std::ffi::CStr;

use super::waiter::Answer;
use super::{STATE, grace, idle, lease_moved, sessions, tick};
use crate::config;
use crate::info;
use crate::keyspace::{self, LockKey};
use crate::lock::{self, Acquired, Ask, Grant, Held, Micros, Owner, Released};
use crate::server::{self, Ctx};

/// Ends the grant of a lock: it goes to the next waiter in this same step, or is free. `event` tells why it ended.
pub(crate) fn pass_on(ctx: &Ctx<'_>, lock: &mut LockKey<'_>, event: &CStr) {
    // Only a handover needs the time: reading it takes longer than the module's own part of a release.
    if idle() || !grant_head(ctx, lock, Some(event), server::now()) {
        lock.free(ctx);
        ctx.notify(event, lock.name());
    }
}

/// Brings a lock, its session and its queue to agreement, whatever has happened to any of them: a free lock goes to the
/// head of its queue, the holder's own waiters re-enter, and a lapse will be seen when it comes.
pub(crate) fn settle(ctx: &Ctx<'_>, lock: &mut LockKey<'_>, now: Micros) {
    if idle() {
        return;
    }
    bury_dead(ctx, lock);
    sessions::settle(ctx, lock, now);
    match lock.grant().map(|grant| grant.owner().into_owned()) {
        Some(owner) => {
            reenter(ctx, lock, &owner, now);
            if let Some(Held { deadline, .. }) = lock.held() {
                lease_moved(ctx, lock.name(), deadline);
            }
        }
        None => {
            grant_head(ctx, lock, None, now);
        }
    }
}

/// Takes back what was granted to waiters that went away before they were answered: one hold each.
fn bury_dead(ctx: &Ctx<'_>, lock: &mut LockKey<'_>) {
    let (db, key) = (ctx.db(), lock.name().bytes());
    while let Some(fence) = STATE.with(|state| state.take_dead(db, key)) {
        let owner = lock.grant().map(|grant| grant.owner().into_owned());
        match owner.and_then(|owner| lock::release(lock.grant(), &owner, Some(fence.get()), false)) {
            Some(Released::Kept { holds }) => lock.set_holds(ctx, holds),
            Some(Released::Ended) => pass_on(ctx, lock, c"lock.released"),
            None => (),
        }
    }
}

/// Gives the lock, whoever had it, to the head of its queue; `false`: nobody waits, or nothing is granted now. `event`
/// tells how the grant ended that is still there.
fn grant_head(ctx: &Ctx<'_>, lock: &mut LockKey<'_>, event: Option<&CStr>, now: Micros) -> bool {
    let (db, key) = (ctx.db(), lock.name());
    let Some((ticket, ask)) = STATE.with(|state| state.head(db, key.bytes())) else {
        STATE.with(|state| state.end_session(db, key.bytes()));
        return false;
    };
    let grace = grace::left();
    if grace > 0 {
        // The waiters wait on, though the lock is free.
        let until = (now / 1000).saturating_add(grace.min(grace::LOOK_AGAIN));
        STATE.with(|state| {
            state.end_session(db, key.bytes());
            state.alarm_at(db, key.bytes(), until);
        });
        tick::arm();
        return false;
    }
    let ask = as_allowed_now(ask);
    STATE.with(|state| state.end_session(db, key.bytes()));
    // Once the greatest has been given: what is held can still be given back.
    let Ok(fence) = keyspace::next_fence(now) else { return false };
    let start = server::lease_start(now);
    let deadline = ask.first_deadline(grace::limits(), start);
    if let Some(event) = event {
        ctx.notify(event, key);
    }
    lock.grant_to(ctx, Grant::new(ask.owner.borrowed(), fence, 1, ask.max_hold), deadline);
    ctx.notify(c"lock.acquired", key);
    info::GRANTS.count();
    info::HANDOVERS.count();
    let lease = deadline.left(start);
    STATE.with(|state| state.answer(ticket, Answer::Granted { fence, holds: 1, lease }));
    reenter(ctx, lock, &ask.owner, now);
    lease_moved(ctx, key, deadline);
    tick::arm();
    true
}

/// The longest lease there can be may have become shorter since the waiter came.
fn as_allowed_now(ask: Ask<'static>) -> Ask<'static> {
    Ask { lease: ask.lease.min(config::max_lease()), ..ask }
}

/// The holder's own waiters re-enter at once, wherever they stand in the queue.
fn reenter(ctx: &Ctx<'_>, lock: &mut LockKey<'_>, owner: &Owner<'static>, now: Micros) {
    let (db, key) = (ctx.db(), lock.name());
    let start = server::lease_start(now);
    while let Some((ticket, ask)) = STATE.with(|state| state.head_of(db, key.bytes(), owner)) {
        let ask = as_allowed_now(ask);
        let held = lock.held();
        let fence = held.map(|held| held.grant.fence());
        let answer = match (lock::acquire(held, &ask, grace::limits(), start), fence) {
            (Ok(Acquired::Reentered { holds, deadline }), Some(fence)) => {
                lock.update(ctx, holds, deadline);
                info::REENTRIES.count();
                Answer::Granted { fence, holds, lease: deadline.left(start) }
            }
            (Err(lock::TooManyHolds), _) => Answer::TooManyHolds,
            // Not the holder: the caller's mistake, and nothing to answer.
            _ => return,
        };
        STATE.with(|state| {
            state.answer(ticket, answer);
            if ask.once {
                state.share_hold_with(ticket);
            }
        });
        tick::arm();
    }
}
