//! The graph of waits, in which each wait depends on other waits, and the search for the cycle through the new wait.

use std::collections::VecDeque;

use super::{Cycle, Holder, Link, MOST_COMPARED};
use crate::lock::{
    self, AcquireRequest, Acquired, Held, Limits, Millis, Others, Owner, ReentryError, Room, SlotRequest,
    UsedSlots,
};
use crate::waiting::{LockId, RequestId};

/// The number of a wait in the graph; 0 is the new wait.
pub(super) type Number = usize;

#[derive(Debug)]
pub(super) struct WaitNode {
    /// The request of a wait that is in a queue. The wait that a command asks for now has no request yet, unless its owner asks again for
    /// the locks for which it already waits with `NOTIFY`.
    pub(super) request: Option<RequestId>,
    pub(super) ask: AcquireRequest<'static>,
    /// The locks that this wait needs, as far as the search has looked at them.
    pub(super) needs: Vec<Need>,
}

/// A lock that a wait needs, and what keeps the wait from getting it.
#[derive(Debug)]
pub(super) struct Need {
    pub(super) id: LockId,
    /// The waiting owner's own grant of the lock, if it has one.
    pub(super) own: Option<Holder>,
    pub(super) others: Vec<Other>,
    /// The waits ahead of this wait that need more than room for one more holder: other locks, too, or a certain slot.
    pub(super) ahead: Vec<Number>,
    /// The least room of the requests ahead of this wait that are not in `ahead`.
    pub(super) room: Room,
}

/// Another holder of the lock. The search assumes that this holder releases the lock if the holder waits for nothing, or once one of its
/// waits has ended.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) holder: Holder,
    pub(super) waits: Vec<Number>,
    /// The wait that now blocks the connection of this grant's session.
    pub(super) session_wait: Option<Number>,
}

pub(super) struct Graph {
    pub(super) waits: Vec<WaitNode>,
    pub(super) limits: Limits,
    pub(super) now: Millis,
}

impl Graph {
    /// Returns the cycle through the new wait; `None` if the new wait can end.
    pub(super) fn cycle(&self) -> Option<Cycle> {
        let deadlocked = self.deadlocked()?;
        if *deadlocked.first()? { self.shortest_cycle(&deadlocked) } else { None }
    }

    /// Returns, for each wait, `true` if the wait can never end. These waits are the largest set of which no wait can end before another
    /// wait of the set has ended. Returns `None` if this takes too many comparisons.
    fn deadlocked(&self) -> Option<Vec<bool>> {
        let mut deadlocked = vec![true; self.waits.len()];
        let mut left = MOST_COMPARED;
        loop {
            let mut changed = false;
            // Each round begins with the waits that the search found last, because they usually depend on the fewest others.
            for (number, wait) in self.waits.iter().enumerate().rev() {
                if !has(&deadlocked, number) {
                    continue;
                }
                let compared = wait.needs.iter().map(|need| 1 + need.others.len() + need.ahead.len());
                left = left.checked_sub(compared.sum())?;
                let ends = |set: &[bool]| wait.needs.iter().all(|need| self.is_met(wait, need, set));
                if ends(&deadlocked)
                    && let Some(still) = deadlocked.get_mut(number)
                {
                    (*still, changed) = (false, true);
                }
            }
            if !changed {
                return Some(deadlocked);
            }
        }
    }

    /// Whether a wait finally gets this lock, if the waits in `deadlocked` never end, and their owners keep all locks that they hold.
    fn is_met(&self, wait: &WaitNode, need: &Need, deadlocked: &[bool]) -> bool {
        let acquired = self.acquire(wait, need, |other| other.stays(deadlocked));
        let fits = !matches!(acquired, Ok(Acquired::Refused | Acquired::UpgradeRefused));
        fits && !need.ahead.iter().any(|ahead| has(deadlocked, *ahead))
    }

    /// Whether the new wait goes ahead of a lock's queue, because it asks for an upgrade (a re-entry that allows fewer other holders).
    /// `number` is the number of this lock among the locks of the new wait.
    pub(super) fn is_in_front(&self, number: usize) -> bool {
        let first = self.waits.first().and_then(|first| Some((first, first.needs.get(number)?)));
        first.is_some_and(|(first, need)| {
            need.own.is_some() && matches!(self.acquire(first, need, |_| true), Ok(Acquired::UpgradeRefused))
        })
    }

    /// Decides a wait's request for one of its locks as if only the holders for which `stays` is true still held the lock.
    fn acquire(
        &self,
        wait: &WaitNode,
        need: &Need,
        stays: impl Fn(&Other) -> bool,
    ) -> Result<Acquired, ReentryError> {
        // A slot is the number of a permit. A request for the least free slot gets a slot whenever one more holder fits, so only a slot
        // that a request names matters.
        let named = match wait.ask.slot {
            Some(SlotRequest::This(slot)) => Some(slot),
            Some(SlotRequest::Least) | None => None,
        };
        let stay = need.others.iter().filter(|other| stays(other)).map(|other| &other.holder.grant);
        let others = stay.fold(Others::NONE, |others, grant| Others {
            count: others.count + 1,
            room: others.room.min(grant.room()),
            slots: match named {
                Some(slot) if grant.slot() == Some(slot) => UsedSlots::One(named),
                _ => others.slots,
            },
        });
        let own = need.own.as_ref().map(|own| Held { grant: &own.grant, deadline: own.deadline });
        let ask = AcquireRequest { room: wait.ask.room.min(need.room), ..wait.ask.clone() };
        lock::decide_acquire(own, others, &ask, self.limits, self.now)
    }

    /// Returns the shortest cycle through the new wait, over waits that can never end.
    fn shortest_cycle(&self, deadlocked: &[bool]) -> Option<Cycle> {
        let mut came_from: Vec<Option<(Number, Link)>> = self.waits.iter().map(|_| None).collect();
        let mut next = VecDeque::from([0]);
        while let Some(number) = next.pop_front() {
            for (to, link) in self.links(number, deadlocked) {
                let Some(unseen) = came_from.get_mut(to).filter(|known| known.is_none()) else { continue };
                *unseen = Some((number, link));
                if to == 0 {
                    return Some(path_to_first(&mut came_from));
                }
                next.push_back(to);
            }
        }
        None
    }

    /// Returns the waits that keep this wait from ending, each with the link of the cycle that leads from this wait to it.
    fn links(&self, number: Number, deadlocked: &[bool]) -> Vec<(Number, Link)> {
        let Some(wait) = self.waits.get(number) else { return Vec::new() };
        let mut links = Vec::new();
        for need in wait.needs.iter().filter(|need| !self.is_met(wait, need, deadlocked)) {
            let link = |other: Owner<'static>, behind| Link {
                waiter: wait.ask.owner.clone(),
                id: need.id.clone(),
                other,
                behind,
            };
            for other in need.others.iter().filter(|other| other.stays(deadlocked)) {
                let waits = other.waits.iter().chain(&other.session_wait).filter(|to| has(deadlocked, **to));
                let owner = other.holder.grant.owner().into_owned();
                links.extend(waits.map(|to| (*to, link(owner.clone(), false))));
            }
            for to in need.ahead.iter().filter(|to| has(deadlocked, **to)) {
                let Some(ahead) = self.waits.get(*to) else { continue };
                links.push((*to, link(ahead.ask.owner.clone(), true)));
            }
        }
        links
    }
}

impl Other {
    /// Whether this holder never releases the lock, if the waits in `deadlocked` never end.
    fn stays(&self, deadlocked: &[bool]) -> bool {
        let waits = !self.waits.is_empty() && self.waits.iter().all(|wait| has(deadlocked, *wait));
        waits || self.session_wait.is_some_and(|session_wait| has(deadlocked, session_wait))
    }
}

fn has(deadlocked: &[bool], number: Number) -> bool {
    deadlocked.get(number).is_some_and(|deadlocked| *deadlocked)
}

fn path_to_first(came_from: &mut [Option<(Number, Link)>]) -> Cycle {
    let (mut way, mut at) = (VecDeque::new(), 0);
    while let Some((from, link)) = came_from.get_mut(at).and_then(Option::take) {
        way.push_front(link);
        at = from;
    }
    Vec::from(way).into_boxed_slice()
}
