//! Searches the waits and holders on which a new wait depends.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use super::graph::{Graph, Need, Number, Other, WaitNode};
use super::{Cycle, Holder, MOST, holders};
use crate::lock::{AcquireRequest, Fence, Now, Room};
use crate::waiting::access::{Caller, Environment, LockAccess};
use crate::waiting::budget::LOOKUP;
use crate::waiting::lock_set::LocksAccess;
use crate::waiting::table::{Ahead, LockId, RequestId, WaitTable};

/// Returns the cycle through a new wait for these locks; `None` if the wait can end. `blocks` is true if the client will be blocked.
/// `place` is the request of the place (a position in the queues, `NOTIFY`) that the owner already has for these locks.
pub(crate) fn cycle<B: LocksAccess>(
    locks: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &AcquireRequest<'_>,
    blocks: bool,
    place: Option<RequestId>,
    now: Now,
) -> Option<Cycle> {
    let limits = locks.first().limits();
    let open = locks.here_all(|_, all| all.iter().map(|at| at.to_id()).collect::<Vec<LockId>>());
    let open_by_name = (0..).zip(&open).map(|(number, id)| (id.clone(), number)).collect();
    let first = WaitNode { request: place, ask: ask.to_owned(), needs: Vec::new() };
    let graph = Graph { waits: vec![first], limits, now: now.start };
    let numbers = place.into_iter().map(|request| (request, 0)).collect();
    let blocked = blocks.then(|| caller.id());
    let mut search = Search { locks, caller, blocked, now, graph, numbers, open, open_by_name, visited: 0 };
    search.go();
    let (graph, visited) = (search.graph, search.visited);
    locks.first().spend(LOOKUP.saturating_mul(visited as u32));
    graph.cycle()
}

struct Search<'a, B, C> {
    locks: &'a mut B,
    caller: &'a mut C,
    /// The connection that the new wait will block.
    blocked: Option<u64>,
    now: Now,
    graph: Graph,
    numbers: BTreeMap<RequestId, Number>,
    /// The locks whose keys the command has opened.
    open: Vec<LockId>,
    /// The index in `open` of each lock. This is a hash map, because a tree would often compare names, which may have long common prefixes.
    open_by_name: HashMap<LockId, usize, RandomState>,
    visited: usize,
}

impl<B: LocksAccess, C: Caller<B::One>> Search<'_, B, C> {
    /// Adds to the graph what its waits depend on. Visits holders before queues, because holders are usually few, and most cycles go
    /// through holders.
    fn go(&mut self) {
        let (mut held, mut queued) = (0, 0);
        while self.visited < MOST {
            if held < self.graph.waits.len() {
                self.visit_holders(held);
                held += 1;
            } else if queued < self.graph.waits.len() {
                self.visit_queues(queued);
                queued += 1;
            } else {
                break;
            }
        }
    }

    /// Adds the holders of a wait's locks to the graph.
    fn visit_holders(&mut self, number: Number) {
        let ids = match self.request(number).filter(|_| number != 0) {
            Some(request) => self.table(|table| table.waiters.locks_of(request)),
            None => self.open.clone(),
        };
        for id in ids {
            if number != 0 && self.visited >= MOST {
                return;
            }
            let Some(wait) = self.graph.waits.get(number) else { return };
            let owner = wait.ask.owner.clone();
            let (mut own, mut others) = (None, Vec::new());
            for holder in self.holders(&id) {
                if holder.grant.owner() == owner {
                    own = Some(holder);
                } else {
                    others.push(self.other(&id, holder));
                }
            }
            let need = Need { id, own, others, ahead: Vec::new(), room: Room::ANY };
            if let Some(wait) = self.graph.waits.get_mut(number) {
                wait.needs.push(need);
            }
        }
    }

    /// Returns the holders of a lock. A lock that the command has open is not opened again, because opening it twice might free its value.
    fn holders(&mut self, id: &LockId) -> Vec<Holder> {
        let (now, most) = (self.now.millis(), MOST.saturating_sub(self.visited));
        if let Some(open) = self.open_by_name.get(id) {
            let lock = self.locks.lock(*open);
            let holders = holders(lock.value(), lock.deadline(), now, most);
            self.visited += holders.len();
            return holders;
        }
        let holders = self.caller.holders(self.locks.first(), id, now, most);
        self.visited += 1 + holders.len();
        holders
    }

    fn other(&mut self, id: &LockId, holder: Holder) -> Other {
        let owner = holder.grant.owner().into_owned();
        let left = MOST.saturating_sub(self.visited);
        // If an owner has too many waits to look at, the search assumes that one of them ends.
        let waits = self.table(|table| table.waiters.waits_of(&owner, left));
        let all = waits.is_some();
        self.visited += waits.as_ref().map_or(left, Vec::len);
        let waits = waits.unwrap_or_default();
        let mut waits: Vec<Number> = waits.into_iter().filter_map(|request| self.number(request)).collect();
        let is_asker = self.graph.waits.first().is_some_and(|first| first.ask.owner == owner);
        if is_asker && all && !waits.contains(&0) {
            waits.push(0);
        }
        let session_wait = self.session_wait(id, holder.grant.fence());
        Other { holder, waits, session_wait }
    }

    /// Returns the wait that now blocks the connection of a grant's session, if a wait blocks it.
    fn session_wait(&mut self, id: &LockId, fence: Fence) -> Option<Number> {
        let (client, blocked) = self.table(|table| table.keeper(id.to_ref(), fence))?;
        if Some(client) == self.blocked {
            return Some(0);
        }
        self.number(blocked?)
    }

    /// Adds to the graph the waits that are served before this wait, except at locks that this wait's owner already holds.
    fn visit_queues(&mut self, number: Number) {
        let request = self.request(number);
        let needs = self.graph.waits.get(number).map_or(0, |wait| wait.needs.len());
        for need in 0..needs {
            let free = self.need(number, need).filter(|need| need.own.is_none());
            let Some(id) = free.map(|need| need.id.clone()) else { continue };
            let left = MOST.saturating_sub(self.visited);
            let ahead: Vec<_> = self.table(|table| {
                // An exclusive request fits only when no other holder is left. If every waiter waits for one lock only, the waits between
                // an exclusive request and this wait add nothing to this condition. So the search stops at the first exclusive request.
                let is_last = |ahead: &Ahead| ahead.room.is_exclusive() && !table.waiters.has_several();
                let (mut over, ahead) = (false, table.ahead_of(id.to_ref(), request).take(left));
                ahead.take_while(|ahead| !std::mem::replace(&mut over, is_last(ahead))).collect()
            });
            self.visited += ahead.len();
            // The new wait is in no queue yet, so `ahead_of` does not return it. If it asks for an upgrade, it goes ahead of this queue, so
            // this code adds it to the waits ahead.
            if number != 0
                && self.open_by_name.get(&id).is_some_and(|open| self.graph.is_in_front(*open))
                && let Some(need) = self.need(number, need)
            {
                need.ahead.push(0);
            }
            for ahead in ahead {
                let wait = ahead.wants_more.then(|| self.number(ahead.request)).flatten();
                let Some(need) = self.need(number, need) else { continue };
                match wait {
                    Some(wait) => need.ahead.push(wait),
                    None if ahead.wants_more => {}
                    None => need.room = need.room.min(ahead.room),
                }
            }
        }
    }

    fn request(&self, number: Number) -> Option<RequestId> {
        self.graph.waits.get(number)?.request
    }

    fn need(&mut self, number: Number, need: usize) -> Option<&mut Need> {
        self.graph.waits.get_mut(number)?.needs.get_mut(need)
    }

    /// Returns the number of a wait in the graph. Adds the wait to the graph if it is not there yet. Returns `None` if the wait is over.
    fn number(&mut self, request: RequestId) -> Option<Number> {
        if let Some(number) = self.numbers.get(&request) {
            return Some(*number);
        }
        let ask = self.table(|table| table.ask_of(request))?;
        let number = self.graph.waits.len();
        self.numbers.insert(request, number);
        self.graph.waits.push(WaitNode { request: Some(request), ask, needs: Vec::new() });
        Some(number)
    }

    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<<B::One as Environment>::Client>) -> R) -> R {
        self.locks.first().table(body)
    }
}
