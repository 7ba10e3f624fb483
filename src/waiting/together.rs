//! Several locks at once: all of them or none, in one step.

use super::acquire::keep;
use super::confirm::take_confirmed;
use super::hand_over::{enter_again, give, grant_heads, is_grace, may_be_given, reenter};
use super::join::{self, Outcome, Wait};
use super::leases::lease_moved;
use super::release;
use super::settle::settle_each;
use super::site::{Around, Caller, Note, Refusal, Site, Sites};
use super::state::{Answer, Ticket};
use super::verdict::{Verdict, judge, judge_unsettled, new_fence, take};
use crate::lock::{Ask, Deadline, Got, Now, Owner};

/// What is granted of each lock, in order, and the end of the lease that ends first.
pub(crate) type All = (Vec<Got>, Deadline);

/// Takes all these locks, or waits for all of them in one place of each queue. New grants have one fence.
pub(crate) fn acquire_all<B: Sites>(
    sites: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &Ask<'_>,
    wait: &Wait,
    now: Now,
) -> Result<Outcome<All>, Refusal> {
    join::may_keep(sites, caller, ask)?;
    let unsettled = settle_each(sites, now);
    let mut verdicts = Vec::with_capacity(sites.count());
    let mut nots = Vec::new();
    for number in 0..sites.count() {
        let Some(site) = sites.lock(number) else { break };
        let is_settled = unsettled.binary_search(&number).is_err();
        let verdict =
            if is_settled { judge(site, ask, None, now)? } else { judge_unsettled(site, ask, now)? };
        match verdict {
            Verdict::Not(no) => nots.push((number, no)),
            verdict => verdicts.push(verdict),
        }
    }
    if !nots.is_empty() {
        return join::wait(sites, caller, ask, wait, &nots, now);
    }
    if wait.confirm.is_some() {
        return take_confirmed(sites, caller, ask, wait, verdicts, now);
    }
    let fence = new_fence(sites, &verdicts, now)?;
    let (mut all, mut first_end) = (Vec::with_capacity(verdicts.len()), Deadline::Never);
    for (number, verdict) in verdicts.into_iter().enumerate() {
        let Some(site) = sites.lock(number) else { break };
        let (got, until) = take(site, ask, verdict, fence, now)?;
        keep(site, caller.id(), ask, wait, got.fence, until, now);
        first_end = first_end.min(until);
        all.push(got);
    }
    Ok(Outcome::Granted((all, first_end)))
}

/// Settles all locks that a waiter waits for, and gives it them all where that can be. Else one is noted that keeps it waiting.
pub(crate) fn settle_together<B: Sites>(sites: &mut B, ticket: Ticket, now: Now) {
    let Some(first) = sites.lock(0) else { return };
    let (aside, was_due) = first.state(|state| state.set_tries_aside(ticket, now.millis()));
    let unsettled = settle_each(sites, now).into_iter().next();
    let changed =
        was_due || (0..sites.count()).any(|number| sites.lock(number).is_some_and(|site| site.changed()));
    let Some(first) = sites.lock(0) else { return };
    first.state(|state| state.timers.take_tries_up(aside, changed));
    let Some(ask) = first.state(|state| state.take_try(ticket)) else { return };
    if first.state(|state| state.is_gone(ticket)) {
        first.state(|state| state.give_up(ticket));
        return;
    }
    if let Some(number) = unsettled {
        // It is tried again when that has been settled.
        first.state(|state| state.stuck_at(ticket, number));
        return;
    }
    let mut verdicts = Vec::with_capacity(sites.count());
    for number in 0..sites.count() {
        let Some(site) = sites.lock(number) else { return };
        match judge(site, &ask, Some(ticket), now) {
            Ok(Verdict::Not(no)) => {
                site.state(|state| state.stuck_at(ticket, number));
                if let Some(fence) = no.upgrade {
                    if site.here(|state, at| state.upgrader(at)).is_some_and(|other| other != fence) {
                        site.note(Note::Deadlocked);
                        site.state(|state| state.answer(ticket, Answer::Deadlock));
                        return;
                    }
                    site.here(|state, at| state.upgrade_first(at, fence, ticket));
                }
                // It has its timer.
                is_grace(site, now);
                return;
            }
            Ok(Verdict::Again { .. }) if !may_be_given(site, ticket) => {
                site.state(|state| state.stuck_at(ticket, number));
                return;
            }
            Ok(verdict) => verdicts.push(verdict),
            Err(_) => {
                site.state(|state| state.answer(ticket, Answer::TooManyHolds));
                return;
            }
        }
    }
    grant_all(sites, ticket, &ask, verdicts, now);
}

fn grant_all<B: Sites>(sites: &mut B, ticket: Ticket, ask: &Ask<'_>, verdicts: Vec<Verdict>, now: Now) {
    // Once the greatest has been given: what is held can still be given back.
    let Ok(fence) = new_fence(sites, &verdicts, now) else { return };
    let (mut all, mut ends) = (Vec::with_capacity(verdicts.len()), Vec::with_capacity(verdicts.len()));
    let mut again = Vec::new();
    for (number, verdict) in verdicts.into_iter().enumerate() {
        let Some(site) = sites.lock(number) else { return };
        let (got, until) = match (verdict, fence) {
            (Verdict::New { until, alone }, Some(fence)) => {
                give(site, ask, fence, until, alone, now);
                site.note(Note::HandedOver);
                (Got { fence, holds: 1 }, until)
            }
            (Verdict::Again { fence, holds, room, until, upgraded }, _) => {
                enter_again(site, fence, holds, room, until, upgraded);
                again.push(number);
                (Got { fence, holds }, until)
            }
            _ => return,
        };
        all.push(got);
        ends.push(until);
    }
    let first_end = ends.iter().copied().min().unwrap_or(Deadline::Never);
    if let Some(site) = sites.lock(0)
        && let Some(waited) = site.state(|state| state.grant(ticket, &all, first_end, now.micros))
    {
        site.note(Note::Waited(waited));
    }
    let owner = ask.owner.borrowed().into_owned();
    for (number, (got, until)) in all.iter().zip(ends).enumerate() {
        let Some(site) = sites.lock(number) else { return };
        if ask.once && again.contains(&number) {
            site.here(|state, at| state.share_hold_with(at, got.fence, ticket));
        }
        lease_moved(site, got.fence, until, now);
        reenter(site, &owner, now);
        if !ask.room.is_exclusive() {
            grant_heads(site, false, now);
        }
    }
}

/// Gives back one hold of each of these locks, or all: the holds left; none where it is not held.
pub(crate) fn release_all<B: Sites>(
    sites: &mut B,
    owner: &Owner<'_>,
    fence: Option<u64>,
    all: bool,
    now: impl Fn() -> Now,
) -> Vec<Option<u32>> {
    let mut left = Vec::with_capacity(sites.count());
    for number in 0..sites.count() {
        let Some(site) = sites.lock(number) else { break };
        left.push(release::release(site, owner, fence, all, &now).ok());
    }
    left
}
