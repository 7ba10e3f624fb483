//! A lock goes from one owner to the next, or to those next who fit.

use super::access::{LockAccess, LockEvent};
use super::budget::{CHANGE, LOOK};
use super::grace;
use super::leases::lease_moved;
use super::sessions::lease_of;
use super::table::{Answer, LockRef, MessageKind, RequestId, WaitTable};
use crate::lock::{
    self, AcquireRequest, Acquired, Change, Deadline, Fence, Got, Now, Others, Owner, Room, UsedSlots, Value,
};

/// How many of its own waiters a holder's re-entries pass in one step, since those want what it can't have yet; the others behind
/// them wait until one of those has it, or until they are at the head of the queue.
const PASSED: usize = 2;

/// Ends the grant with that fence: its room goes to the next waiters in this same step. `why` tells why it ends.
#[inline(always)]
pub(super) fn pass_on<S: LockAccess>(lock: &mut S, fence: Fence, why: LockEvent, now: impl FnOnce() -> Now) {
    if lock.value().is_some_and(|value| !value.is_one()) {
        pass_on_room(lock, fence, why, now);
        return;
    }
    lock.note(why);
    if lock.idle() {
        lock.free();
        return;
    }
    forget(lock, fence, why);
    hand_on(lock, now());
}

/// Apart, so that a lock with one grant does not pay for it.
#[inline(never)]
fn pass_on_room<S: LockAccess>(lock: &mut S, fence: Fence, why: LockEvent, now: impl FnOnce() -> Now) {
    end_one(lock, fence, why);
    if !lock.idle() {
        grant_heads(lock, false, now());
    }
}

/// Ends one of several grants; who gets its room is for the caller to see to.
fn end_one<S: LockAccess>(lock: &mut S, fence: Fence, why: LockEvent) {
    lock.end(fence, why);
    if !lock.idle() {
        forget(lock, fence, why);
    }
}

/// Ends a grant in a step that looks at all of them: the room of one goes to nobody before the others have been looked at.
pub(super) fn end_with_others<S: LockAccess>(lock: &mut S, fence: Fence, why: LockEvent, now: Now) {
    match lock.value().is_some_and(Value::is_one) {
        true => pass_on(lock, fence, why, || now),
        false => end_one(lock, fence, why),
    }
}

/// Ends all grants: the lock goes to the next waiters in this same step, or is free.
pub(super) fn pass_on_all<S: LockAccess>(lock: &mut S, why: LockEvent, now: impl FnOnce() -> Now) {
    let until = lock.deadline();
    let fences = |value: &Value| value.all(until).map(|held| held.grant.fence()).collect::<Vec<_>>();
    let fences = lock.value().map(fences).unwrap_or_default();
    for fence in fences {
        lock.note(why);
        if !lock.idle() {
            forget(lock, fence, why);
        }
    }
    if lock.idle() {
        lock.free();
    } else {
        hand_on(lock, now());
    }
}

/// The grant in the key has ended: the next waiter gets the lock, or it is free.
fn hand_on<S: LockAccess>(lock: &mut S, now: Now) {
    if !grant_heads(lock, true, now) {
        lock.free();
    }
}

/// Ends what is known of a grant beside its key.
fn forget<S: LockAccess>(lock: &mut S, fence: Fence, why: LockEvent) {
    // Its owner knows of what it gave back, or never had.
    let lost = !matches!(why, LockEvent::Released | LockEvent::TakenBack);
    lock.here(|table, at| table.end_grant(at, fence, lost.then_some(MessageKind::Lost)));
}

/// Gives the lock to one who asked for it: alone, or beside those who hold it. What it has then.
#[inline(always)]
pub(super) fn give<S: LockAccess>(
    lock: &mut S,
    ask: &AcquireRequest<'_>,
    fence: Fence,
    until: Deadline,
    alone: bool,
    now: Now,
) -> Got {
    let used = if alone { None } else { lock.value() };
    let grant = ask.grant(fence, used.map_or(UsedSlots::NONE, Value::slots), now);
    let got = Got { fence, holds: 1, slot: ask.slot.and(grant.slot()) };
    if !ask.room.is_exclusive() {
        lock.note(LockEvent::Shared);
    }
    if alone {
        lock.give(grant, until);
    } else {
        lock.add(grant, until);
    }
    got
}

/// The holder has its grant once more. What it has then.
pub(super) fn enter_again<S: LockAccess>(
    lock: &mut S,
    ask: &AcquireRequest<'_>,
    fence: Fence,
    holds: u32,
    room: Room,
    until: Deadline,
    upgraded: bool,
) -> Got {
    let (mut slot, mut is_new) = (None, false);
    if let Some(value) = lock.value().filter(|_| ask.slot.is_some())
        && let Some(grant) = value.grant_of(&ask.owner)
    {
        (slot, is_new) = (ask.slot_of(grant, value.slots()), grant.slot().is_none());
    }
    if is_new && !lock.idle() {
        // Others of its owner's waits may want another one.
        lock.here(|table, at| table.recheck_by(at, 0));
    }
    lock.change_grant(fence, Change { holds, room, slot, label: ask.label.as_deref() }, until);
    lock.note(LockEvent::Reentered);
    if upgraded {
        lock.note(LockEvent::Upgraded);
    }
    Got { fence, holds, slot }
}

/// Gives the lock to those at the head of its queue who fit; whether to anybody. `over`: what stands in the key has ended, and is
/// replaced. The first one gets it whatever is left of the budget: a lock that somebody waits for is not left free.
pub(super) fn grant_heads<S: LockAccess>(lock: &mut S, over: bool, now: Now) -> bool {
    let mut granted = false;
    check_upgrade(lock);
    loop {
        let next = |table: &mut WaitTable<S::Client>, at: LockRef<'_>| {
            let (request, ask) = table.head(at)?;
            Some((request, ask, table.is_gone(request), table.try_soon(at, request)))
        };
        let Some((request, ask, is_gone, waits_for_several)) = lock.here(next) else { return granted };
        if is_gone {
            if !lock.pay(0) {
                break;
            }
            give_up(lock, request);
            continue;
        }
        if waits_for_several {
            // It waits for others too: until it has them all, those behind it wait on, but for others of an owner that holds this.
            // The grant that is over is still in the key: nobody holds the lock.
            if granted || !over {
                reenter(lock, &ask.owner, now);
            }
            return granted;
        }
        let alone = if granted { false } else { over || lock.value().is_none() };
        let limits = lock.limits();
        let (held, others) = if alone { (None, Others::NONE) } else { lock.seen_by(&ask.owner) };
        let until = match lock::acquire(held, others, &ask, limits, now.start) {
            Ok(Acquired::Granted { deadline }) => deadline,
            Ok(Acquired::Refused) => return granted,
            Ok(Acquired::UpgradeRefused) => {
                // Others of its waiters may fit.
                reenter(lock, &ask.owner, now);
                return granted;
            }
            Ok(Acquired::Upgraded { .. }) if is_grace(lock, now) => return granted,
            // Only where its owner holds the lock.
            Ok(Acquired::Reentered { .. } | Acquired::Upgraded { .. }) | Err(_) => {
                match reenter_one(lock, request, &ask, now) {
                    Reentry::Done if lock.pay(CHANGE) => continue,
                    Reentry::Done => break,
                    Reentry::NotNow | Reentry::NotHeld => return granted,
                }
            }
        };
        if is_grace(lock, now) {
            return granted;
        }
        // Once the greatest has been given: what is held can still be given back.
        let Some(fence) = lock.next_fence(now) else { return granted };
        let got = give(lock, &ask, fence, until, alone, now);
        granted = true;
        lock.note(LockEvent::HandedOver);
        granted_to(lock, request, got, until, now);
        reenter(lock, &ask.owner, now);
        lease_moved(lock, fence, until, now);
        let may_go_on = lock.pay(CHANGE);
        if ask.room.is_exclusive() {
            return true;
        }
        if !may_go_on {
            break;
        }
    }
    lock.here(|table, at| {
        if table.lock(at).waiters() > 0 {
            table.look_by(at, 0);
        }
    });
    granted
}

/// Nobody stands in front for a grant that has ended.
pub(super) fn check_upgrade<S: LockAccess>(lock: &mut S) {
    if let Some(fence) = lock.entry(|entry| entry.upgrader())
        && lock.with_fence(fence).is_none()
    {
        lock.change(|entry| entry.end_upgrade());
    }
}

/// Whether nothing new is granted now. Then the waiters wait on, though there is room, and are looked at again.
pub(super) fn is_grace<S: LockAccess>(lock: &mut S, now: Now) -> bool {
    let grace = lock.grace().grants;
    if grace > 0 {
        let until = now.millis().saturating_add(grace.min(grace::LOOK_AGAIN));
        lock.here(|table, at| table.look_by(at, until));
    }
    grace > 0
}

/// A holder's own waiters re-enter at once, wherever they stand in the queue. One that is to have less room than the other holders
/// leave waits in front. Of many, the rest does in the next step.
pub(super) fn reenter<S: LockAccess>(lock: &mut S, owner: &Owner<'static>, now: Now) {
    let (mut seen, mut passed) = (None, 0);
    loop {
        let Some((request, ask)) = lock.here(|table, at| table.next_of(at, owner, seen)) else { return };
        seen = Some(request);
        if lock.value().is_none_or(|value| value.grant_of(owner).is_none()) {
            return;
        }
        if lock.table(|table| table.is_gone(request)) {
            give_up(lock, request);
        } else if passed == PASSED {
            return;
        } else {
            match reenter_one(lock, request, &ask, now) {
                Reentry::Done => _ = lock.pay(CHANGE),
                Reentry::NotNow => {
                    passed += 1;
                    lock.spend(LOOK);
                    continue;
                }
                Reentry::NotHeld => return,
            }
        }
        if !lock.pay(0) {
            break;
        }
    }
    if lock.here(|table, at| table.next_of(at, owner, seen)).is_some() {
        lock.here(|table, at| table.recheck_by(at, 0));
    }
}

/// Gives up a place whose connection has closed: it stands in the queues of all its locks.
fn give_up<S: LockAccess>(lock: &mut S, request: RequestId) {
    let locks = lock.table(|table| table.give_up(request));
    lock.pay(LOOK.saturating_mul(locks));
}

/// The decision about a waiter whose owner may hold the lock already.
enum Reentry {
    /// It is answered.
    Done,
    /// It waits on: for another lock too, for the other holders to go, or for its owner to claim what it has.
    NotNow,
    /// Its owner does not hold the lock.
    NotHeld,
}

/// Whether a waiter may be given a grant that its owner has already.
pub(super) fn may_be_given<S: LockAccess>(lock: &mut S, request: RequestId) -> bool {
    let most = lock.most_unclaimed();
    lock.here(|table, at| table.may_be_given(at, request, most))
}

fn reenter_one<S: LockAccess>(
    lock: &mut S,
    request: RequestId,
    ask: &AcquireRequest<'static>,
    now: Now,
) -> Reentry {
    if lock.here(|table, at| table.try_soon(at, request)) {
        return Reentry::NotNow;
    }
    if !may_be_given(lock, request) {
        return Reentry::NotNow;
    }
    let limits = lock.limits();
    let (held, others) = lock.seen_by(&ask.owner);
    let Some((fence, room)) = held.map(|held| (held.grant.fence(), held.grant.room())) else {
        return Reentry::NotHeld;
    };
    let (holds, room, until, upgraded) = match lock::acquire(held, others, ask, limits, now.start) {
        Ok(Acquired::Reentered { holds, deadline }) => (holds, room, deadline, false),
        Ok(Acquired::Upgraded { holds, deadline }) if !is_grace(lock, now) => {
            (holds, room.min(ask.room), deadline, true)
        }
        Ok(Acquired::Upgraded { .. } | Acquired::UpgradeRefused) => {
            return match lock.entry(|entry| entry.upgrader()) {
                Some(other) if other != fence => {
                    lock.note(LockEvent::Deadlocked);
                    lock.table(|table| table.answer(request, Answer::Deadlock));
                    Reentry::Done
                }
                _ => {
                    lock.change(|entry| entry.upgrade_first(fence, request));
                    Reentry::NotNow
                }
            };
        }
        Err(why) => {
            lock.table(|table| table.answer(request, Answer::NoReentry(why)));
            return Reentry::Done;
        }
        // For those who don't hold it.
        Ok(Acquired::Granted { .. } | Acquired::Refused) => return Reentry::NotHeld,
    };
    let until = lease_of(lock, fence, until);
    let got = enter_again(lock, ask, fence, holds, room, until, upgraded);
    granted_to(lock, request, got, until, now);
    if ask.once {
        lock.change(|entry| entry.share_hold_with(fence, request));
    }
    Reentry::Done
}

/// Has a waiter told that it has the lock.
fn granted_to<S: LockAccess>(lock: &mut S, request: RequestId, got: Got, until: Deadline, now: Now) {
    if let Some(waited) = lock.table(|table| table.grant(request, &[got], until, now.micros)) {
        lock.note(LockEvent::Waited(waited));
    }
}
