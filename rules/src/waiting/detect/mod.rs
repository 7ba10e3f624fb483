//! Searches what a new wait depends on (`DETECT`): the holders of its locks, the waits ahead of it, and so on. The search runs before the
//! wait begins. `graph` then finds whether the wait could ever end.
//!
//! As queues are served in order, and an owner that waits does nothing else, only a new wait can close a cycle. The search is bounded, and
//! what it has not looked at counts as able to end. So it may miss a cycle, but never reports one that does not exist.

mod graph;

use std::collections::BTreeMap;

use super::grants::Holder;
use super::host::Host;
use super::lock_id::{LockId, LockRef};
use super::queue::RequestId;
use super::table::Table;
use super::waiter::{Caller, Stage};
use crate::lock::{AcquireRequest, Fence, Now, Owner, Room, SlotRequest};
use graph::{Graph, Need, Number, Other, WaitNode};

/// The most holders, waiters and locks that one search looks at. Locks that the command names do not count.
const MOST: usize = 1000;
/// The most comparisons of waits with holders and waiters. A wait is compared again whenever what it depends on may have ended.
const MOST_COMPARED: usize = 50_000;

/// A cycle of waits: each link leads to the next, and the last link to the first.
pub type Cycle = Box<[Link]>;

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Link {
    /// The owner that waits.
    pub waiter: Owner<'static>,
    pub id: LockId,
    pub other: Owner<'static>,
    /// Whether `other` is ahead of `waiter` in the queue for the lock. If not, `other` holds the lock.
    pub behind: bool,
}

/// A waiter that is ahead of another in a queue.
struct Ahead {
    request: RequestId,
    room: Room,
    /// Whether the waiter needs more than room for one more holder: other locks, too, or a certain slot.
    wants_more: bool,
}

/// The cycle through a new wait for these locks; `None` if the wait can end. `is_place`: the wait does not block the client.
pub fn cycle<H: Host>(
    host: &mut H,
    caller: &Caller,
    named: Vec<LockId>,
    several: bool,
    ask: &AcquireRequest<'_>,
    is_place: bool,
    now: Now,
) -> Option<Cycle> {
    let ask = ask.to_owned();
    let all: Vec<LockRef<'_>> = named.iter().map(LockId::to_ref).collect();
    let known = (is_place && ask.once).then(|| host.table().place_of(&all, several, &ask.owner));
    let place = known.flatten().map(|(place, _)| place);
    let limits = host.limits();
    let first = WaitNode { request: place, ask, needs: Vec::new() };
    let graph = Graph { waits: vec![first], limits, now: now.start };
    let numbers = place.into_iter().map(|request| (request, 0)).collect();
    let blocked = (!is_place).then_some(caller.connection);
    let mut search = Search { host, blocked, now, graph, numbers, named, visited: 0 };
    search.go();
    search.graph.cycle()
}

struct Search<'a, H> {
    host: &'a mut H,
    /// The connection that the new wait will block.
    blocked: Option<u64>,
    now: Now,
    graph: Graph,
    numbers: BTreeMap<RequestId, Number>,
    /// The locks that the command names.
    named: Vec<LockId>,
    visited: usize,
}

impl<H: Host> Search<'_, H> {
    /// Visits holders before queues: they are usually few, and most cycles go through them.
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

    fn visit_holders(&mut self, number: Number) {
        let ids = match self.request(number).filter(|_| number != 0) {
            Some(request) => {
                let table = self.host.table();
                let locks = table.waiters.get(&request).into_iter().flat_map(|waiter| waiter.locks.all());
                locks.map(|lock| lock.id.clone()).collect()
            }
            None => self.named.clone(),
        };
        for id in ids {
            if number != 0 && self.visited >= MOST {
                return;
            }
            let Some(wait) = self.graph.waits.get(number) else { return };
            let owner = wait.ask.owner.clone();
            let holders = self.host.holders(&id, self.now.millis(), MOST.saturating_sub(self.visited));
            self.visited += holders.len() + usize::from(!self.named.contains(&id));
            let (mut own, mut others) = (None, Vec::new());
            for holder in holders {
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

    fn other(&mut self, id: &LockId, holder: Holder) -> Other {
        let owner = holder.grant.owner().into_owned();
        let left = MOST.saturating_sub(self.visited);
        // If an owner has too many waits to look at, the search assumes that one of them ends.
        let (waits, all) = {
            let table = self.host.table();
            let mut perhaps = table.queued.perhaps_of(&owner);
            let is_its = |request: &RequestId| {
                table.waiters.get(request).is_some_and(|waiter| waiter.ask.owner == owner)
            };
            let mut waits: Vec<RequestId> = perhaps.by_ref().take(left).filter(is_its).collect();
            waits.sort_unstable();
            let all = perhaps.next().is_none();
            (waits, all)
        };
        self.visited += if all { waits.len() } else { left };
        let waits = if all { waits } else { Vec::new() };
        let mut waits: Vec<Number> = waits.into_iter().filter_map(|request| self.number(request)).collect();
        let is_asker = self.graph.waits.first().is_some_and(|first| first.ask.owner == owner);
        if is_asker && all && !waits.contains(&0) {
            waits.push(0);
        }
        let session_wait = self.session_wait(id, holder.grant.fence());
        Other { holder, waits, session_wait }
    }

    /// The wait that now blocks the connection of a grant's session.
    fn session_wait(&mut self, id: &LockId, fence: Fence) -> Option<Number> {
        let connection = self.host.table().keeper(id.to_ref(), fence)?;
        if Some(connection) == self.blocked {
            return Some(0);
        }
        let blocked = self.host.table().connections.blocked.get(&connection).copied();
        self.number(blocked?)
    }

    /// Adds the waits that are served before this one, except at locks that its owner already holds.
    fn visit_queues(&mut self, number: Number) {
        let request = self.request(number);
        let needs = self.graph.waits.get(number).map_or(0, |wait| wait.needs.len());
        for need in 0..needs {
            let free = self.need(number, need).filter(|need| need.own.is_none());
            let Some(id) = free.map(|need| need.id.clone()) else { continue };
            let left = MOST.saturating_sub(self.visited);
            let ahead: Vec<Ahead> = {
                let table = self.host.table();
                // No request has less room than an exclusive one. While nobody waits for several locks, those behind it add nothing.
                let is_last = |ahead: &Ahead| ahead.room.is_exclusive() && table.queued.several == 0;
                let (mut over, ahead) = (false, table.ahead_of(id.to_ref(), request).take(left));
                ahead.take_while(|ahead| !std::mem::replace(&mut over, is_last(ahead))).collect()
            };
            self.visited += ahead.len();
            // A new wait for an upgrade goes ahead of this queue, but is in no queue yet.
            if number != 0
                && let Some(at) = self.named.iter().position(|named| *named == id)
                && self.graph.is_in_front(at)
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

    /// Returns the number of a wait in the graph, and adds the wait if it is not there yet. `None` if the wait is over.
    fn number(&mut self, request: RequestId) -> Option<Number> {
        if let Some(number) = self.numbers.get(&request) {
            return Some(*number);
        }
        let ask = {
            let table = self.host.table();
            let waiter = table.waiters.get(&request).filter(|waiter| waiter.stage == Stage::Queued)?;
            (!table.connections.is_closed(waiter.connection)).then(|| waiter.ask.clone())?
        };
        let number = self.graph.waits.len();
        self.numbers.insert(request, number);
        self.graph.waits.push(WaitNode { request: Some(request), ask, needs: Vec::new() });
        Some(number)
    }
}

impl<C: Copy> Table<C> {
    /// The waiters that are served before `request` (`None`: before a request that comes now), in order.
    fn ahead_of(&self, at: LockRef<'_>, request: Option<RequestId>) -> impl Iterator<Item = Ahead> {
        let all = self.get(at).into_iter().flat_map(|lock| lock.in_order());
        all.take_while(move |other| Some(*other) != request).filter_map(|request| {
            let waiter = self.waiters.get(&request)?;
            if self.connections.is_closed(waiter.connection) {
                // A place of a closed connection keeps nobody waiting.
                return Some(Ahead { request, room: Room::ANY, wants_more: false });
            }
            let ask = &waiter.ask;
            let wants_more = waiter.locks.are_several() || matches!(ask.slot, Some(SlotRequest::This(_)));
            Some(Ahead { request, room: ask.room, wants_more })
        })
    }
}
