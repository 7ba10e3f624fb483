//! What each command does to its locks in one step (see `locks`).

use super::blocked::block;
use super::locks::{
    Rules, TABLE, begin_turn, knows, knows_nothing, now, open, publish, step, step_on, step_on_open,
};
use super::timers::{self, Server};
use super::{heartbeat, messages};
use crate::config;
use crate::error::Error;
use crate::keyspace::{self, LockKey};
use crate::server::{Arg, Ctx};
use crate::stats;
use rules::lock::{AcquireRequest, Deadline, Got, Grant, Millis, NotHeld, Now, Owner, Slot};
use rules::waiting::{
    self, Caller, Cycle, ExtendRequest, LockEvent, LockRef, Refusal, ReleaseRequest, RequestId, Site,
    WaitOptions,
};

/// The result of an acquire or an extension.
pub(crate) enum Outcome<G> {
    Granted(G),
    /// The client is blocked.
    Waits,
    /// The client has a place in the queue (`NOTIFY`), and its connection is not blocked.
    Queued,
    /// The request can't be granted now, and the client does not want to wait, or can't be blocked.
    Taken,
}

/// Replies with a grant, and the length of its lease in ms. If the owner asked with `LIMIT`, the slot (the number of its permit) comes
/// last.
pub(crate) fn reply_grant(ctx: &Ctx<'_>, owner: &[u8], got: Got, lease: Millis) {
    ctx.reply_array(if got.slot.is_some() { 5 } else { 4 });
    ctx.reply_bytes(owner);
    ctx.reply_integer(got.fence.get().cast_signed());
    ctx.reply_integer(got.holds.into());
    ctx.reply_integer(lease);
    if let Some(slot) = got.slot {
        ctx.reply_integer(slot.get().into());
    }
}

/// Replies with the grants of several locks, in the order of the keys, and with the length in ms of the lease that ends first.
pub(crate) fn reply_grants(ctx: &Ctx<'_>, owner: &[u8], all: &[Got], lease: Millis) {
    let slots: Vec<Slot> = all.iter().filter_map(|got| got.slot).collect();
    ctx.reply_array(if slots.is_empty() { 4 } else { 5 });
    ctx.reply_bytes(owner);
    ctx.reply_array(all.len());
    for got in all {
        ctx.reply_integer(got.fence.get().cast_signed());
    }
    ctx.reply_array(all.len());
    for got in all {
        ctx.reply_integer(got.holds.into());
    }
    ctx.reply_integer(lease);
    if !slots.is_empty() {
        ctx.reply_array(slots.len());
        slots.iter().for_each(|slot| ctx.reply_integer(slot.get().into()));
    }
}

/// Acquires a lock for the client of the running command, or makes the client wait. Returns the grant, and the end of its lease.
#[inline(always)]
pub(crate) fn acquire<'a>(
    ctx: &'a Ctx<'a>,
    key: Arg<'a>,
    ask: &AcquireRequest<'_>,
    wait: &mut WaitOptions,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Error> {
    check_options(ctx, ask, wait)?;
    begin_turn();
    let (step, mut lock) = open(ctx, key)?;
    if lock.value().is_none() && heartbeat::grace_left().grants == 0 && is_idle(ctx, key) {
        let next_fence = || keyspace::with_fences(|fences| fences.next(now.micros));
        if let Some((grant, got, until)) =
            waiting::acquire_free(ask, wait, heartbeat::limits, next_fence, now)
        {
            lock.give(ctx, grant, until);
            let signal = lock.close();
            drop(step);
            drop(signal);
            if !ask.room.is_exclusive() {
                publish(ctx, key, LockEvent::Shared);
            }
            publish(ctx, key, LockEvent::Acquired);
            return Ok(Outcome::Granted((got, until)));
        }
    }
    let caller = caller(ctx);
    let acquire = |env: &mut Rules<'_>, site: &mut Site<'_>, wait: &WaitOptions| {
        let outcome = waiting::acquire(env, std::slice::from_mut(site), false, &caller, ask, wait);
        (outcome, site.got)
    };
    let mut tried = step_on_open(ctx, step, lock, now, |env, site| acquire(env, site, wait));
    if let Ok(waiting::Outcome::Detect) = tried.0 {
        detect(ctx, &[key], false, ask, wait, now)?;
        tried = step_on(ctx, key, || now, |env, site| acquire(env, site, wait))?;
    }
    let (outcome, got) = tried;
    finish(ctx, &[key], outcome?, |until| got.map(|got| (got, until)))
}

/// Acquires several locks, or waits for all of them, as `acquire` does for one.
pub(crate) fn acquire_all<'a>(
    ctx: &'a Ctx<'a>,
    keys: &[Arg<'a>],
    ask: &AcquireRequest<'_>,
    wait: &mut WaitOptions,
    now: Now,
) -> Result<Outcome<(Vec<Got>, Deadline)>, Error> {
    check_options(ctx, ask, wait)?;
    begin_turn();
    let caller = caller(ctx);
    let acquire = |wait: &WaitOptions| {
        step(ctx, keys, now, |env, sites| {
            let outcome = waiting::acquire(env, sites, true, &caller, ask, wait);
            (outcome, sites.iter().filter_map(|site| site.got).collect::<Vec<Got>>())
        })
    };
    let mut tried = acquire(wait)?;
    if let Ok(waiting::Outcome::Detect) = tried.0 {
        detect(ctx, keys, true, ask, wait, now)?;
        tried = acquire(wait)?;
    }
    let (outcome, got) = tried;
    finish(ctx, keys, outcome?, |until| Some((got, until)))
}

/// The client of the running command.
fn caller(ctx: &Ctx<'_>) -> Caller {
    Caller {
        connection: ctx.client_id(),
        may_block: ctx.may_block(),
        most_waiters: config::max_waiters(),
        most_places: config::max_places(),
        claim: config::CLAIM.get(),
    }
}

/// Whether the table knows nothing of a lock.
#[inline(always)]
fn is_idle(ctx: &Ctx<'_>, key: Arg<'_>) -> bool {
    knows_nothing() || !knows(LockRef { db: ctx.db(), key: key.bytes() })
}

/// Refuses a wait that would never end. If the wait may end, the caller tries again, and then the client waits.
#[cold]
fn detect(
    ctx: &Ctx<'_>,
    keys: &[Arg<'_>],
    several: bool,
    ask: &AcquireRequest<'_>,
    wait: &mut WaitOptions,
    now: Now,
) -> Result<(), Error> {
    wait.detect = false;
    let named = keys.iter().map(|key| LockRef { db: ctx.db(), key: key.bytes() }.to_id()).collect();
    let (caller, is_place) = (caller(ctx), wait.channel.is_some());
    let cycle: Option<Cycle> =
        waiting::cycle(&mut Server::new(ctx), &caller, named, several, ask, is_place, now);
    let Some(cycle) = cycle else { return Ok(()) };
    stats::DEADLOCKS.count();
    stats::REFUSALS.count();
    Err(Refusal::Cycle(cycle).into())
}

/// Blocks the client if it has to wait.
#[inline(always)]
fn finish<G>(
    ctx: &Ctx<'_>,
    keys: &[Arg<'_>],
    outcome: waiting::Outcome,
    granted: impl FnOnce(Deadline) -> Option<G>,
) -> Result<Outcome<G>, Error> {
    Ok(match outcome {
        waiting::Outcome::Granted(until) => granted(until).map_or(Outcome::Taken, Outcome::Granted),
        waiting::Outcome::Waits(request) => {
            if block(ctx, keys, request) {
                Outcome::Waits
            } else {
                Outcome::Taken
            }
        }
        waiting::Outcome::Queued => Outcome::Queued,
        waiting::Outcome::Taken | waiting::Outcome::Detect => Outcome::Taken,
    })
}

/// Refuses `SESSION`, `NOTIFY` and `SYNC` where they are impossible, for example in a script, and `NOTIFY` if the user has no right to the
/// channel. Replaces the channel's name by the address for messages.
#[inline(always)]
fn check_options(ctx: &Ctx<'_>, ask: &AcquireRequest<'_>, wait: &mut WaitOptions) -> Result<(), Error> {
    if ask.session || wait.channel.is_some() {
        check_connection(ctx, ask, wait)?;
    }
    if wait.confirm.is_some() {
        may_reply_later(ctx)?;
    }
    Ok(())
}

/// Refuses `SESSION` and `NOTIFY` in a script, which has no connection of its own, and on a replica, which hands no lock over, and renews
/// and ends no grants by itself.
#[cold]
fn check_connection(ctx: &Ctx<'_>, ask: &AcquireRequest<'_>, wait: &mut WaitOptions) -> Result<(), Error> {
    if ctx.is_replica() {
        return Err(if ask.session { Error::SessionOnReplica } else { Error::NotifyOnReplica });
    } else if !ctx.is_connected() {
        return Err(if ask.session { Error::SessionInScript } else { Error::NotifyInScript });
    }
    if let Some(channel) = &mut wait.channel {
        if !ctx.may_use_channel(&channel.address) {
            return Err(Error::ChannelDenied);
        }
        channel.address =
            messages::address(&ctx.user_of(ctx.client_id()).unwrap_or_default(), &channel.address);
    }
    Ok(())
}

/// Refuses `SYNC` if the client can't be blocked until replicas confirm the command.
fn may_reply_later(ctx: &Ctx<'_>) -> Result<(), Error> {
    if ctx.may_block() {
        Ok(())
    } else if ctx.is_replica() {
        Err(Error::SyncOnReplica)
    } else if ctx.is_script() {
        Err(Error::SyncInScript)
    } else {
        Err(Error::SyncInTransaction)
    }
}

/// Gives up the owner's place in the queue, or its unclaimed grant. Returns whether the owner had a place or an unclaimed grant.
pub(crate) fn leave(ctx: &Ctx<'_>, key: Arg<'_>, owner: &Owner<'_>) -> Result<bool, Error> {
    begin_turn();
    let left = step_on(ctx, key, now, |env, site| waiting::leave(env, site, owner))?;
    // If the server refuses to settle one of the request's other locks now, a timer settles this lock later.
    left.others.iter().for_each(|id| _ = timers::call_settle(ctx, None, std::slice::from_ref(id)));
    Ok(left.any)
}

/// Releases one hold of a lock, or all holds. Returns how many are left, or why the owner does not hold the lock. Reads the clock only if
/// needed, because that takes longer than the rest of most releases.
#[inline(always)]
pub(crate) fn release<'a>(
    ctx: &'a Ctx<'a>,
    key: Arg<'a>,
    given: ReleaseRequest<'_>,
) -> Result<Result<u32, NotHeld>, Error> {
    begin_turn();
    let (step, mut lock) = open(ctx, key)?;
    match waiting::frees(lock.value(), given) {
        Ok(false) => (),
        _ if !is_idle(ctx, key) => (),
        Ok(true) => {
            lock.free(ctx);
            let signal = lock.close();
            drop(step);
            drop(signal);
            publish(ctx, key, LockEvent::Released);
            return Ok(Ok(0));
        }
        Err(why) => return Ok(Err(why)),
    }
    Ok(step_on_open(ctx, step, lock, now(), |env, site| waiting::release(env, site, given)))
}

/// Releases several locks. Each is released or refused on its own.
pub(crate) fn release_all<'a>(
    ctx: &'a Ctx<'a>,
    keys: &[Arg<'a>],
    given: ReleaseRequest<'_>,
) -> Result<Vec<Result<u32, NotHeld>>, Error> {
    begin_turn();
    step(ctx, keys, now(), |env, sites| {
        sites.iter_mut().map(|site| waiting::release(env, site, given)).collect()
    })
}

/// Sets the lease of each lock to the given length from now. If one of the leases can't be set, sets none. Returns the end of the lease
/// that ends first.
pub(crate) fn extend<'a>(
    ctx: &'a Ctx<'a>,
    keys: &[Arg<'a>],
    several: bool,
    longer: &ExtendRequest<'_>,
    now: Now,
) -> Result<Outcome<Deadline>, Error> {
    if longer.confirm.is_some() {
        may_reply_later(ctx)?;
    }
    begin_turn();
    let caller = caller(ctx);
    let outcome = match keys {
        [key] => step_on(
            ctx,
            *key,
            || now,
            |env, site| waiting::extend(env, std::slice::from_mut(site), several, &caller, longer),
        ),
        keys => step(ctx, keys, now, |env, sites| waiting::extend(env, sites, several, &caller, longer)),
    };
    finish(ctx, keys, outcome??, Some)
}

/// Ends the grant with this fence, or all grants, whoever holds them. Returns the ended grants.
pub(crate) fn break_(ctx: &Ctx<'_>, key: Arg<'_>, fence: Option<u64>) -> Result<Vec<Grant>, Error> {
    begin_turn();
    step_on(ctx, key, now, |env, site| waiting::break_(env, site, fence))
}

/// Does the work of `LOCK.SETTLE` for one lock, or for all locks of a waiter's request. Returns an error if a client sent the command.
pub(crate) fn settle(ctx: &Ctx<'_>, keys: &[Arg<'_>], waiter: Option<RequestId>) -> Result<(), Error> {
    if !timers::is_settling() {
        return Err(Error::NotAClientCommand);
    }
    let settled = match (waiter, keys) {
        (None, [key]) => step_on(ctx, *key, now, waiting::settle),
        (None, _) => Err(Error::TooFewKeys),
        (Some(request), keys) => {
            step(ctx, keys, now(), |env, sites| waiting::try_waiter(env, sites, request))
        }
    };
    match settled {
        Err(Error::WrongType) => {
            // If a key has another type, all waits for this lock end. The other locks of the request are left as they are.
            for key in keys.iter().filter(|key| LockKey::read(ctx, **key).is_err()) {
                TABLE.with(|table| table.overwritten(LockRef { db: ctx.db(), key: key.bytes() }));
            }
            Ok(())
        }
        settled => settled,
    }
}
