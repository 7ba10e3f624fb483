//! An acquire of one lock: granted, re-entered, refused, or put into the queue.

use super::confirm::take_confirmed;
use super::join::{self, Outcome, Wait};
use super::leases::lease_moved;
use super::sessions;
use super::settle::settle;
use super::site::{Alone, Caller, Refusal, Site};
use super::verdict::{Verdict, judge, judge_unsettled, take};
use crate::lock::{Ask, Deadline, Fence, Got, Now};

/// Takes a lock, or waits for it: what is granted, and the end of the lease.
pub(crate) fn acquire<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    wait: &Wait,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Refusal> {
    if ask.session {
        join::may_keep(&mut Alone(site), caller, ask)?;
    }
    if wait.confirm.is_some() {
        return acquire_confirmed(site, caller, ask, wait, now);
    }
    if !settle(site, now) {
        return acquire_unsettled(site, caller, ask, wait, now);
    }
    let verdict = judge(site, ask, None, now)?;
    take_or_wait(site, caller, ask, wait, verdict, now)
}

/// The same where not all of the lock could be settled. Apart, so that others do not pay for it.
#[cold]
#[inline(never)]
fn acquire_unsettled<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    wait: &Wait,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Refusal> {
    let verdict = judge_unsettled(site, ask, now)?;
    take_or_wait(site, caller, ask, wait, verdict, now)
}

#[inline(always)]
fn take_or_wait<S: Site>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    wait: &Wait,
    verdict: Verdict,
    now: Now,
) -> Result<Outcome<(Got, Deadline)>, Refusal> {
    match verdict {
        Verdict::Not(no) => join::wait(&mut Alone(site), caller, ask, wait, &[(0, no)], now),
        verdict => {
            let (got, until) = take(site, ask, verdict, None, now)?;
            keep(site, caller.id(), ask, wait, got.fence, until, now);
            Ok(Outcome::Granted((got, until)))
        }
    }
}

/// The same where replicas are to confirm it. Apart, so that an acquire without that does not pay for it.
#[cold]
#[inline(never)]
fn acquire_confirmed<S: Site, G>(
    site: &mut S,
    caller: &mut impl Caller<S>,
    ask: &Ask<'_>,
    wait: &Wait,
    now: Now,
) -> Result<Outcome<G>, Refusal> {
    let is_settled = settle(site, now);
    let verdict = if is_settled { judge(site, ask, None, now)? } else { judge_unsettled(site, ask, now)? };
    match verdict {
        Verdict::Not(no) => join::wait(&mut Alone(site), caller, ask, wait, &[(0, no)], now),
        verdict => take_confirmed(&mut Alone(site), caller, ask, wait, vec![verdict], now),
    }
}

/// What hangs on a grant of a running command: who hears of it, and what keeps it alive.
#[inline(always)]
pub(super) fn keep<S: Site>(
    site: &mut S,
    client: u64,
    ask: &Ask<'_>,
    wait: &Wait,
    fence: Fence,
    until: Deadline,
    now: Now,
) {
    if ask.once && !site.idle() {
        // Its owner knows of it.
        site.here(|state, at| state.share_hold(at, fence));
    }
    if let Some(channel) = &wait.channel {
        let owner = ask.owner.borrowed().into_owned();
        site.here(|state, at| state.watch(at, fence, owner, channel.clone()));
        lease_moved(site, fence, until, now);
    }
    if ask.session {
        sessions::start(site, client, fence, ask.lease, until, now);
    }
}
