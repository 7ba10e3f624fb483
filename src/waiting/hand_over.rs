//! A lock goes from one owner to the next.

use super::alarms::lease_moved;
use super::grace;
use super::site::{Note, Site};
use super::state::{Answer, Ticket, Word};
use crate::lock::{self, Acquired, Grant, Now, Owner};

/// Ends the grant of a lock: it goes to the next waiter in this same step, or is free. `ended` tells why.
#[inline(always)]
pub(super) fn pass_on<S: Site>(site: &mut S, ended: Note, now: impl FnOnce() -> Now) {
    site.note(ended);
    if site.idle() {
        site.free();
        return;
    }
    // Its owner knows of what it gave back, or never had.
    let lost = !matches!(ended, Note::Released | Note::TakenBack);
    site.here(|state, at| state.end_watch(at, lost.then_some(Word::Lost)));
    if !grant_head(site, now()) {
        site.free();
    }
}

/// Gives the lock, whoever had it, to the head of its queue; `false`: nobody waits, or nothing is granted now.
pub(super) fn grant_head<S: Site>(site: &mut S, now: Now) -> bool {
    let most = site.at_once();
    let head = site.here(|state, at| {
        state.end_session(at);
        state.next_head(at, most)
    });
    let Some((ticket, ask)) = head else { return false };
    let grace = site.grace().grants;
    if grace > 0 {
        // The waiters wait on, though the lock is free.
        let until = now.millis().saturating_add(grace.min(grace::LOOK_AGAIN));
        site.here(|state, at| state.alarm_at(at, until));
        return false;
    }
    // Once the greatest has been given: what is held can still be given back.
    let Some(fence) = site.next_fence(now) else { return false };
    let until = ask.first_deadline(site.limits(), now.start);
    site.give(Grant::new(ask.owner.borrowed(), fence, 1, ask.max_hold, now.millis()), until);
    site.note(Note::HandedOver);
    answer(site, ticket, Answer::Granted { fence, holds: 1, until }, now);
    reenter(site, &ask.owner, now);
    lease_moved(site, until, now);
    true
}

/// The holder's own waiters re-enter at once, wherever they stand in the queue. Of many, the rest does in the next step.
pub(super) fn reenter<S: Site>(site: &mut S, owner: &Owner<'static>, now: Now) {
    for _ in 0..site.at_once() {
        let Some((ticket, ask)) = site.here(|state, at| state.head_of(at, owner)) else { return };
        if site.state(|state| state.give_up_if_gone(ticket)) {
            continue;
        }
        let limits = site.limits();
        let held = site.held();
        let fence = held.map(|held| held.grant.fence());
        let told = match (lock::acquire(held, &ask, limits, now.start), fence) {
            (Ok(Acquired::Reentered { holds, deadline: until }), Some(fence)) => {
                site.update(holds, until);
                site.note(Note::Reentered);
                Answer::Granted { fence, holds, until }
            }
            (Err(lock::TooManyHolds), _) => Answer::TooManyHolds,
            // Not the holder: the caller's mistake, and nothing to answer.
            _ => return,
        };
        answer(site, ticket, told, now);
        if ask.once {
            site.state(|state| state.share_hold_with(ticket));
        }
    }
    site.here(|state, at| {
        if state.head_of(at, owner).is_some() {
            state.alarm_at(at, 0);
        }
    });
}

/// Has a waiter told that it has the lock, or why not.
fn answer<S: Site>(site: &mut S, ticket: Ticket, answer: Answer, now: Now) {
    if let Some(waited) = site.state(|state| state.answer(ticket, answer, now.micros)) {
        site.note(Note::Waited(waited));
    }
}
