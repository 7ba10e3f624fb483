//! A lock goes from one owner to the next, or to those next who fit.

use super::budget::{CHANGE, LOOK};
use super::grace;
use super::leases::lease_moved;
use super::sessions::lease_of;
use super::site::{Note, Site};
use super::state::{Answer, At, State, Ticket, Word};
use crate::lock::{self, Acquired, Ask, Deadline, Fence, Got, Now, Others, Owner, Room, Value};

/// How many of its own waiters a holder's re-entries pass in one step, since those want what it can't have yet; the others behind
/// them wait until one of those has it, or until they are at the head of the queue.
const PASSED: usize = 2;

/// Ends the grant with that fence: its room goes to the next waiters in this same step. `why` tells why it ends.
#[inline(always)]
pub(super) fn pass_on<S: Site>(site: &mut S, fence: Fence, why: Note, now: impl FnOnce() -> Now) {
    if site.value().is_some_and(|value| !value.is_one()) {
        pass_on_room(site, fence, why, now);
        return;
    }
    site.note(why);
    if site.idle() {
        site.free();
        return;
    }
    forget(site, fence, why);
    hand_on(site, now());
}

/// Apart, so that a lock with one grant does not pay for it.
#[inline(never)]
fn pass_on_room<S: Site>(site: &mut S, fence: Fence, why: Note, now: impl FnOnce() -> Now) {
    end_one(site, fence, why);
    if !site.idle() {
        grant_heads(site, false, now());
    }
}

/// Ends one of several grants; who gets its room is for the caller to see to.
fn end_one<S: Site>(site: &mut S, fence: Fence, why: Note) {
    site.end(fence, why);
    if !site.idle() {
        forget(site, fence, why);
    }
}

/// Ends a grant in a step that looks at all of them: the room of one goes to nobody before the others have been looked at.
pub(super) fn end_with_others<S: Site>(site: &mut S, fence: Fence, why: Note, now: Now) {
    match site.value().is_some_and(Value::is_one) {
        true => pass_on(site, fence, why, || now),
        false => end_one(site, fence, why),
    }
}

/// Ends all grants: the lock goes to the next waiters in this same step, or is free.
pub(super) fn pass_on_all<S: Site>(site: &mut S, why: Note, now: impl FnOnce() -> Now) {
    let until = site.deadline();
    let fences = |value: &Value| value.all(until).map(|held| held.grant.fence()).collect::<Vec<_>>();
    let fences = site.value().map(fences).unwrap_or_default();
    for fence in fences {
        site.note(why);
        if !site.idle() {
            forget(site, fence, why);
        }
    }
    if site.idle() {
        site.free();
    } else {
        hand_on(site, now());
    }
}

/// What stands in the key has ended: the next waiter gets it, or it is free.
fn hand_on<S: Site>(site: &mut S, now: Now) {
    if !grant_heads(site, true, now) {
        site.free();
    }
}

/// What was known of a grant beside what stands in the key.
fn forget<S: Site>(site: &mut S, fence: Fence, why: Note) {
    // Its owner knows of what it gave back, or never had.
    let lost = !matches!(why, Note::Released | Note::TakenBack);
    site.here(|state, at| state.end_grant(at, fence, lost.then_some(Word::Lost)));
}

/// Gives the lock to one who asked for it: alone, or beside those who hold it.
#[inline(always)]
pub(super) fn give<S: Site>(
    site: &mut S,
    ask: &Ask<'_>,
    fence: Fence,
    until: Deadline,
    alone: bool,
    now: Now,
) {
    let grant = ask.grant(fence, now);
    if !ask.room.is_exclusive() {
        site.note(Note::Shared);
    }
    if alone {
        site.give(grant, until);
    } else {
        site.add(grant, until);
    }
}

/// The holder has its grant once more.
pub(super) fn enter_again<S: Site>(
    site: &mut S,
    fence: Fence,
    holds: u32,
    room: Room,
    until: Deadline,
    upgraded: bool,
) {
    site.update(fence, holds, room, until);
    site.note(Note::Reentered);
    if upgraded {
        site.note(Note::Upgraded);
    }
}

/// Gives the lock to those at the head of its queue who fit; whether to anybody. `over`: what stands in the key has ended, and is
/// replaced. The first one gets it whatever is left of the budget: a lock that somebody waits for is not left free.
pub(super) fn grant_heads<S: Site>(site: &mut S, over: bool, now: Now) -> bool {
    let mut granted = false;
    check_upgrade(site);
    loop {
        let next = |state: &mut State<S::Client>, at: At<'_>| {
            let (ticket, ask) = state.head(at)?;
            Some((ticket, ask, state.is_gone(ticket), state.try_soon(at, ticket)))
        };
        let Some((ticket, ask, is_gone, waits_for_several)) = site.here(next) else { return granted };
        if is_gone {
            if !site.pay(0) {
                break;
            }
            give_up(site, ticket);
            continue;
        }
        if waits_for_several {
            // It waits for others too: until it has them all, those behind it wait on, but for others of an owner that holds this.
            // What is over still stands in the key: nobody holds it.
            if granted || !over {
                reenter(site, &ask.owner, now);
            }
            return granted;
        }
        let alone = if granted { false } else { over || site.value().is_none() };
        let limits = site.limits();
        let (held, others) = if alone { (None, Others::NONE) } else { site.seen_by(&ask.owner) };
        let until = match lock::acquire(held, others, &ask, limits, now.start) {
            Ok(Acquired::Granted { deadline }) => deadline,
            Ok(Acquired::Refused) => return granted,
            Ok(Acquired::UpgradeRefused) => {
                // Others of its waiters may fit.
                reenter(site, &ask.owner, now);
                return granted;
            }
            Ok(Acquired::Upgraded { .. }) if is_grace(site, now) => return granted,
            // Only where its owner holds the lock.
            Ok(Acquired::Reentered { .. } | Acquired::Upgraded { .. }) | Err(lock::TooManyHolds) => {
                match reenter_one(site, ticket, &ask, now) {
                    Reentry::Done if site.pay(CHANGE) => continue,
                    Reentry::Done => break,
                    Reentry::NotNow | Reentry::NotHeld => return granted,
                }
            }
        };
        if is_grace(site, now) {
            return granted;
        }
        // Once the greatest has been given: what is held can still be given back.
        let Some(fence) = site.next_fence(now) else { return granted };
        give(site, &ask, fence, until, alone, now);
        granted = true;
        site.note(Note::HandedOver);
        granted_to(site, ticket, Got { fence, holds: 1 }, until, now);
        reenter(site, &ask.owner, now);
        lease_moved(site, fence, until, now);
        let may_go_on = site.pay(CHANGE);
        if ask.room.is_exclusive() {
            return true;
        }
        if !may_go_on {
            break;
        }
    }
    site.here(|state, at| {
        if state.waiters_of(at) > 0 {
            state.look_by(at, 0);
        }
    });
    granted
}

/// Nobody stands in front for a grant that has ended.
pub(super) fn check_upgrade<S: Site>(site: &mut S) {
    if let Some(fence) = site.here(|state, at| state.upgrader(at))
        && site.with_fence(fence).is_none()
    {
        site.here(|state, at| state.end_upgrade(at));
    }
}

/// Whether nothing new is granted now. Then the waiters wait on, though there is room, and are looked at again.
pub(super) fn is_grace<S: Site>(site: &mut S, now: Now) -> bool {
    let grace = site.grace().grants;
    if grace > 0 {
        let until = now.millis().saturating_add(grace.min(grace::LOOK_AGAIN));
        site.here(|state, at| state.look_by(at, until));
    }
    grace > 0
}

/// A holder's own waiters re-enter at once, wherever they stand in the queue. One that is to have less room than the other holders
/// leave waits in front. Of many, the rest does in the next step.
pub(super) fn reenter<S: Site>(site: &mut S, owner: &Owner<'static>, now: Now) {
    let (mut seen, mut passed) = (None, 0);
    loop {
        let Some((ticket, ask)) = site.here(|state, at| state.next_of(at, owner, seen)) else { return };
        seen = Some(ticket);
        if site.value().is_none_or(|value| value.grant_of(owner).is_none()) {
            return;
        }
        if site.state(|state| state.is_gone(ticket)) {
            give_up(site, ticket);
        } else if passed == PASSED {
            return;
        } else {
            match reenter_one(site, ticket, &ask, now) {
                Reentry::Done => _ = site.pay(CHANGE),
                Reentry::NotNow => {
                    passed += 1;
                    site.spend(LOOK);
                    continue;
                }
                Reentry::NotHeld => return,
            }
        }
        if !site.pay(0) {
            break;
        }
    }
    if site.here(|state, at| state.next_of(at, owner, seen)).is_some() {
        site.here(|state, at| state.look_through(at, 0));
    }
}

/// Gives up a place whose connection has closed: it stands in the queues of all its locks.
fn give_up<S: Site>(site: &mut S, ticket: Ticket) {
    let locks = site.state(|state| state.give_up(ticket));
    site.pay(LOOK.saturating_mul(locks));
}

/// What comes of a waiter whose owner may hold the lock already.
enum Reentry {
    /// It is answered.
    Done,
    /// It waits on: for another lock too, for the other holders to go, or for its owner to claim what it has.
    NotNow,
    /// Its owner does not hold the lock.
    NotHeld,
}

/// Whether a waiter may be given a grant that its owner has already.
pub(super) fn may_be_given<S: Site>(site: &mut S, ticket: Ticket) -> bool {
    let most = site.most_unclaimed();
    site.here(|state, at| state.may_be_given(at, ticket, most))
}

fn reenter_one<S: Site>(site: &mut S, ticket: Ticket, ask: &Ask<'static>, now: Now) -> Reentry {
    if site.here(|state, at| state.try_soon(at, ticket)) {
        return Reentry::NotNow;
    }
    if !may_be_given(site, ticket) {
        return Reentry::NotNow;
    }
    let limits = site.limits();
    let (held, others) = site.seen_by(&ask.owner);
    let Some((fence, room)) = held.map(|held| (held.grant.fence(), held.grant.room())) else {
        return Reentry::NotHeld;
    };
    let (holds, room, until, upgraded) = match lock::acquire(held, others, ask, limits, now.start) {
        Ok(Acquired::Reentered { holds, deadline }) => (holds, room, deadline, false),
        Ok(Acquired::Upgraded { holds, deadline }) if !is_grace(site, now) => {
            (holds, ask.room, deadline, true)
        }
        Ok(Acquired::Upgraded { .. } | Acquired::UpgradeRefused) => {
            return match site.here(|state, at| state.upgrader(at)) {
                Some(other) if other != fence => {
                    site.note(Note::Deadlocked);
                    site.state(|state| state.answer(ticket, Answer::Deadlock));
                    Reentry::Done
                }
                _ => {
                    site.here(|state, at| state.upgrade_first(at, fence, ticket));
                    Reentry::NotNow
                }
            };
        }
        Err(lock::TooManyHolds) => {
            site.state(|state| state.answer(ticket, Answer::TooManyHolds));
            return Reentry::Done;
        }
        // For those who don't hold it.
        Ok(Acquired::Granted { .. } | Acquired::Refused) => return Reentry::NotHeld,
    };
    let until = lease_of(site, fence, until);
    enter_again(site, fence, holds, room, until, upgraded);
    granted_to(site, ticket, Got { fence, holds }, until, now);
    if ask.once {
        site.here(|state, at| state.share_hold_with(at, fence, ticket));
    }
    Reentry::Done
}

/// Has a waiter told that it has the lock.
fn granted_to<S: Site>(site: &mut S, ticket: Ticket, got: Got, until: Deadline, now: Now) {
    if let Some(waited) = site.state(|state| state.grant(ticket, &[got], until, now.micros)) {
        site.note(Note::Waited(waited));
    }
}
