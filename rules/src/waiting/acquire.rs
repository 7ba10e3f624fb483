//! Acquires: a client gets all its locks at once, joins their queues, or is refused.

use std::num::NonZero;

use super::detect::Cycle;
use super::grants::{LockEvent, Verdict};
use super::judge::grant_all;
use super::lock_id::LockRef;
use super::lock_state::{Listener, Record, Session, WaiterNews};
use super::message::Channel;
use super::queue::RequestId;
use super::replication::Confirm;
use super::step::{Env, Site, step_on_all};
use super::sync::tell_when_confirmed;
use super::table::{After, Table};
use super::waiter::{Answer, Caller, RequestedLocks, Stage, Waiter};
use crate::lock::{
    AcquireRequest, Deadline, Fence, Got, Grant, Limits, Millis, NotHeld, Now, Owner, ReentryError,
    SlotRequest,
};

/// How a client waits if it can't have the lock at once.
#[derive(Clone, Debug, Default)]
pub struct WaitOptions {
    /// How long the client waits, in ms; 0: without limit; `None`: the client does not wait.
    pub timeout: Option<Millis>,
    /// The channel for messages to the client, if the client asks with `NOTIFY`. Such a client is not blocked, and a message tells it of
    /// its grant.
    pub channel: Option<Channel>,
    /// Whether the client is to be refused if its wait would never end (`DETECT`).
    pub detect: bool,
    /// How many replicas have to confirm a grant before the client is told of the grant, and in what time (`SYNC`).
    pub confirm: Option<Confirm>,
}

/// Why the rules refuse a command, which then changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The owner does not hold the lock. If the command names several locks, this is the key of the first lock that is not held.
    NotHeld(NotHeld, Option<Box<[u8]>>),
    /// The owner holds the lock, but can't re-enter it in this way.
    NoReentry(ReentryError),
    NoMoreFences,
    /// The queue has `lock.max-waiters` waiters.
    MaxWaiters,
    /// With this request, more than `lock.max-places` locks would depend on the connection.
    MaxPlaces,
    /// The owner asks for an upgrade (a re-entry that allows fewer other holders), while another owner already waits for an upgrade: each
    /// would wait for the other.
    Deadlock,
    /// The wait would never end, because it closes this cycle.
    Cycle(Cycle),
    /// The server grants nothing new for this many ms.
    Grace(Millis),
    /// The server extends no lease for this many ms.
    GraceOfLeases(Millis),
}

impl From<ReentryError> for Refusal {
    fn from(why: ReentryError) -> Self {
        Self::NoReentry(why)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Each site has its grant (`got`); this is the end of the lease that ends first.
    Granted(Deadline),
    /// The server has to block the client, and to say under which handle (`Table::blocked`).
    Waits(RequestId),
    /// The client has a place in the queues.
    Queued,
    /// The request does not fit, and its client does not want to wait, or can't.
    Taken,
    /// The client would wait. The server first has to find out whether the wait could ever end (`cycle`).
    Detect,
}

/// Makes the grant of a free lock of which nothing is known, outside of a grace, as for most acquires. Returns the grant and the end of its
/// lease; `None` if the request needs a step.
#[inline(always)]
pub fn acquire_free(
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
    limits: impl FnOnce() -> Limits,
    next_fence: impl FnOnce() -> Option<Fence>,
    now: Now,
) -> Option<(Grant, Got, Deadline)> {
    if ask.session || wait.channel.is_some() || wait.confirm.is_some() {
        return None;
    }
    let (until, slot) = (ask.new_deadline(limits(), now.start), ask.slot.map(SlotRequest::alone));
    let fence = next_fence()?;
    Some((ask.grant(fence, slot, now), Got { fence, holds: 1, slot }, until))
}

/// Grants all locks to the client, or makes the client wait for all of them.
pub fn acquire<C: Copy>(
    env: &mut Env<'_, C>,
    sites: &mut [Site<'_>],
    several: bool,
    caller: &Caller,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
) -> Result<Outcome, Refusal> {
    step_on_all(env, sites, |env, sites| {
        if ask.session {
            let is_new = |site: &&Site<'_>| site.keeper(&ask.owner) != Some(caller.connection);
            let new = sites.iter().filter(is_new).map(|site| site.at.weight()).sum();
            check_places(env, caller, new)?;
        }
        let mut stuck = None;
        for (number, site) in sites.iter_mut().enumerate() {
            site.end_own(env, &ask.owner);
            // In all other cases, the last step has already served the queue.
            if site.has_changed() || site.grants.value.is_none() {
                site.serve(env);
            }
            site.verdict = site.judge(env, ask, None)?;
            if let Verdict::Taken { .. } = site.verdict {
                stuck = stuck.or(Some(number));
            }
        }
        let Some(stuck) = stuck else {
            if wait.confirm.is_some() && !caller.may_block {
                return Ok(Outcome::Taken);
            }
            let until = grant_all(env, sites, ask, LockEvent::Acquired).ok_or(Refusal::NoMoreFences)?;
            if let Some(confirm) = wait.confirm {
                let answer = Answer::Granted { until };
                let request =
                    tell_when_confirmed(env, sites, several, caller, ask.to_owned(), confirm, answer);
                sites
                    .iter_mut()
                    .for_each(|site| site.note_untold(request, ask, false, wait.channel.as_ref()));
                return Ok(Outcome::Waits(request));
            }
            sites.iter_mut().for_each(|site| site.keep(env, caller.connection, ask, wait));
            return Ok(Outcome::Granted(until));
        };
        let refusal = match join(env, sites, several, stuck, caller, ask, wait) {
            Ok(Outcome::Taken) => {
                let grace = sites
                    .get(stuck)
                    .is_some_and(|site| matches!(site.verdict, Verdict::Taken { grace: true, .. }));
                grace.then_some(Refusal::Grace(env.grace.grants))
            }
            Ok(outcome) => return Ok(outcome),
            Err(refusal) => Some(refusal),
        };
        sites.iter_mut().skip(stuck).take(1).for_each(|site| site.note(LockEvent::Refused));
        refusal.map_or(Ok(Outcome::Taken), Err)
    })
}

/// Refuses a request that would make too many locks depend on the connection.
fn check_places<C: Copy>(env: &Env<'_, C>, caller: &Caller, new: usize) -> Result<(), Refusal> {
    let all = env.table.connections.weight_of(caller.connection).saturating_add(new);
    if new > 0 && caller.most_places.is_some_and(|most| all > most) {
        Err(Refusal::MaxPlaces)
    } else {
        Ok(())
    }
}

/// Puts the client into the queues, if it wants to wait and can.
fn join<C: Copy>(
    env: &mut Env<'_, C>,
    sites: &mut [Site<'_>],
    several: bool,
    stuck: usize,
    caller: &Caller,
    ask: &AcquireRequest<'_>,
    wait: &WaitOptions,
) -> Result<Outcome, Refusal> {
    let is_place = wait.channel.is_some();
    let Some(timeout) = wait.timeout.filter(|_| is_place || caller.may_block) else {
        return Ok(Outcome::Taken);
    };
    for site in sites.iter_mut() {
        if site.verdict.upgrade().is_some_and(|fence| site.lock.is_upgraded_by_another(fence)) {
            site.note(LockEvent::Deadlocked);
            return Err(Refusal::Deadlock);
        }
    }
    if wait.detect && sites.iter().all(|site| site.is_settled) {
        return Ok(Outcome::Detect);
    }
    let (mut ask, since) = (ask.to_owned(), env.now.micros);
    let mut known = None;
    if is_place {
        // Only the claim makes the lease as long as the owner asked for, and begins a session.
        (ask.lease, ask.session) = (ask.lease.min(caller.claim), false);
        if ask.once {
            let all: Vec<LockRef<'_>> = sites.iter().map(|site| site.at).collect();
            let place = env.table.place_of(&all, several, &ask.owner);
            known = place.filter(|(request, _)| !env.table.after.contains(&(*request, After::GivenUp)));
        }
        if known.is_none_or(|(_, connection)| connection != caller.connection) {
            check_places(env, caller, sites.iter().map(|site| site.at.weight()).sum())?;
        }
    }
    // One ms is added, because the millisecond of the arrival was partly over.
    let time_up = (timeout > 0).then(|| (since / 1000).saturating_add(timeout).saturating_add(1));
    let time_up = time_up.and_then(NonZero::new);
    let (channel, connection, stage) = (wait.channel.clone().map(Box::new), caller.connection, Stage::Queued);
    // Only the claim of a place says whether replicas have to confirm its grant.
    let confirm = wait.confirm.filter(|_| !is_place);
    if let Some((request, _)) = known {
        // The owner keeps its place. The options of the new request replace the old ones, so the owner may now fit beside the holders.
        sites.iter_mut().for_each(|site| {
            site.lock.withdraw_upgrade(request);
            (site.again, site.skips_serving) = (site.again || !ask.room.is_exclusive(), true);
        });
        if let Some(waiter) = env.table.remove(request) {
            env.table.add(request, Waiter { ask, channel, connection, timeout, time_up, ..waiter });
            env.table.tries.extend((sites.len() > 1).then_some(request));
        }
        go_ahead(sites, request);
        return Ok(Outcome::Queued);
    }
    if caller.most_waiters.is_some_and(|most| sites.iter().any(|site| site.lock.queue.len() >= most)) {
        return Err(Refusal::MaxWaiters);
    }
    let request = env.table.next_request();
    for site in sites.iter_mut() {
        site.lock.queue.join(request, ask.owner.clone());
        // The lock's other waiters were served before this request was judged.
        site.skips_serving = true;
    }
    go_ahead(sites, request);
    let locks = RequestedLocks::of(sites.iter().map(|site| env.table.intern(site.at)), several, stuck);
    locks.all().iter().for_each(|lock| env.table.observers.busiest.count(&lock.id, since));
    let waiter = Waiter {
        locks,
        ask,
        client: None,
        confirm,
        channel,
        connection,
        since,
        timeout,
        time_up,
        stage,
        unblocked: false,
    };
    env.table.add(request, waiter);
    Ok(if is_place { Outcome::Queued } else { Outcome::Waits(request) })
}

/// A waiter for an upgrade goes ahead of the queue.
fn go_ahead(sites: &mut [Site<'_>], request: RequestId) {
    for site in sites {
        site.verdict.upgrade().into_iter().for_each(|fence| site.lock.upgrade_first(fence, request));
    }
}

impl<C: Copy> Table<C> {
    /// The owner's last place for exactly these locks, and the connection on which the owner asked.
    pub(super) fn place_of(
        &self,
        all: &[LockRef<'_>],
        several: bool,
        owner: &Owner<'static>,
    ) -> Option<(RequestId, u64)> {
        let is_named = |at: LockRef<'_>| all.iter().any(|named| named.db == at.db && named.key == at.key);
        let find = |request: RequestId| {
            let waiter = self.waiters.get(&request).filter(|waiter| waiter.channel.is_some())?;
            let locks = &waiter.locks;
            let same = locks.are_several() == several && locks.all().len() == all.len();
            let same = same && waiter.ask.owner == *owner && !self.queued.is_earlier(request);
            (same && locks.names().all(is_named)).then_some((request, waiter.connection))
        };
        self.queued.perhaps_for(owner, all.iter().copied()).rev().find_map(find)
    }
}

impl Site<'_> {
    /// The connection that keeps the owner's grant alive.
    fn keeper(&self, owner: &Owner<'_>) -> Option<u64> {
        let session = self.lock.record(self.grants.grant_of(owner)?.fence())?.session?;
        Some(session.connection).filter(|_| !session.closed)
    }

    /// The command's reply tells the owner of its grant. Notes the owner's channel and its session.
    fn keep<C: Copy>(
        &mut self,
        env: &mut Env<'_, C>,
        connection: u64,
        ask: &AcquireRequest<'_>,
        wait: &WaitOptions,
    ) {
        let (Some(Got { fence, .. }), Verdict::Fits(decision)) = (self.got, self.verdict) else { return };
        if ask.once {
            env.table.claim(&mut self.lock, fence);
            self.lock.change(fence, Record::share);
        }
        if let Some(channel) = &wait.channel {
            self.listen(fence, ask.owner.borrowed().into_owned(), channel, true);
        }
        if ask.session {
            let lease = env.limits.allowed(ask.lease);
            let session = Session::new(connection, lease, None, decision.until, env.now.millis());
            // When blocked clients of the same owner are told of the grant, they begin no session of their own.
            self.lock.change(fence, |record| record.pending.iter_mut().for_each(|hold| hold.binds = false));
            env.table.set_session(self.at, &mut self.lock, fence, Some(session));
        }
    }

    /// From now on, the holder gets messages about this grant on this channel. If the holder `knows` of its grant, and somebody waits, it
    /// is told so once more, because a holder that may have missed a message asks again.
    pub(super) fn listen(&mut self, fence: Fence, owner: Owner<'static>, channel: &Channel, knows: bool) {
        let channel = Channel { start: None, ..channel.clone() };
        self.lock.change_or_add(fence, |record| {
            let known = record.listener.as_deref();
            let knows = knows || known.is_some_and(|known| known.knows);
            let is_soon = known.is_some_and(|known| known.told == WaiterNews::Soon);
            let told = if is_soon { WaiterNews::Soon } else { WaiterNews::No };
            record.listener = Some(Box::new(Listener { owner, channel, knows, told }));
        });
    }
}
