//! What `LOCK.INFO`, `LOCK.WAITS`, `INFO` and the log show of locks and waiters. No decision depends on what is kept only to be shown.

use std::ops::Bound;
use std::sync::Arc;

use super::host::Host;
use super::lock_id::{LockId, LockRef};
use super::lock_state::HeldSince;
use super::observers::Busy;
use super::queue::RequestId;
use super::table::Table;
use super::waiter::{Stage, Waiter};
use crate::lock::{Fence, Millis, Now, Owner, Room};

/// The most waiters and names of locks that one page takes. Long names count more (see `LockRef::weight`).
const PAGE: usize = 5_000;
/// The most waiters that one call of `long_waits` looks at.
const LOOKS: usize = 5_000;
/// The most locks that one query for the longest held lock looks at.
const MOST_HELD: usize = 200;

/// What operators are shown of a waiter.
pub struct WaiterInfo {
    pub owner: Owner<'static>,
    pub connection: u64,
    pub waited: Millis,
    /// How long the waiter wants to wait, in ms; 0: without limit.
    pub timeout: Millis,
    /// Where the answer goes, if it is a message.
    pub address: Option<Arc<[u8]>>,
    pub room: Room,
    pub label: Box<[u8]>,
}

/// What operators are shown of a waiter and its locks.
pub struct WaitInfo {
    pub ids: Vec<LockId>,
    stuck: usize,
    pub waiter: WaiterInfo,
}

impl WaitInfo {
    fn new<C>(waiter: &Waiter<C>, now: Now) -> Self {
        let ids = waiter.locks.all().iter().map(|lock| lock.id.clone()).collect();
        Self { ids, stuck: waiter.locks.stuck(), waiter: waiter.info(now) }
    }

    /// The lock that keeps the waiter waiting.
    pub fn id(&self) -> Option<&LockId> {
        self.ids.get(self.stuck)
    }
}

/// Some of the waiters, in order.
pub struct Page {
    pub waits: Vec<WaitInfo>,
    /// The last waiter that was looked at, if there may be more after it.
    pub last: Option<RequestId>,
}

/// The waits that have become long since the last call of `long_waits`.
#[derive(Default)]
pub struct LongWaits {
    pub waits: Vec<WaitInfo>,
    /// How many more of these waits there are.
    pub others: u64,
}

impl<C> Waiter<C> {
    fn info(&self, now: Now) -> WaiterInfo {
        WaiterInfo {
            owner: self.ask.owner.clone(),
            connection: self.connection,
            waited: now.micros.saturating_sub(self.since).max(0) / 1000,
            timeout: self.timeout,
            address: self.channel.as_ref().map(|channel| channel.address.clone()),
            room: self.ask.room,
            label: self.ask.label().unwrap_or_default().into(),
        }
    }
}

impl<C: Copy> Table<C> {
    /// The numbers of waiters, sessions, places, and of what replicas have to confirm.
    pub fn counts(&self) -> [usize; 4] {
        [
            self.queued.len(),
            self.connections.sessions.len(),
            self.connections.places.len(),
            self.replication.len(),
        ]
    }

    pub fn waiters_of(&self, at: LockRef<'_>) -> usize {
        self.get(at).map_or(0, |lock| lock.queue.len())
    }

    /// The connection that keeps a grant alive.
    pub fn keeper(&self, at: LockRef<'_>, fence: Fence) -> Option<u64> {
        let session = self.get(at)?.record(fence)?.session?;
        (!session.closed && !self.connections.is_closed(session.connection)).then_some(session.connection)
    }

    /// Where messages to the holder of a grant go.
    pub fn address(&self, at: LockRef<'_>, fence: Fence) -> Option<Arc<[u8]>> {
        Some(self.get(at)?.record(fence)?.listener.as_ref()?.channel.address.clone())
    }

    /// For whom a lock is reserved if it is free: the first waiter, if it needs other locks, too.
    pub fn reserved_for(&self, at: LockRef<'_>) -> Option<Owner<'static>> {
        let next = self.waiters.get(&self.get(at)?.head()?)?;
        next.locks.are_several().then(|| next.ask.owner.clone())
    }

    /// The first waiters for a lock, in the order in which they are served.
    pub fn queue_of(&self, at: LockRef<'_>, most: usize, now: Now) -> Vec<WaiterInfo> {
        let waiters = self.get(at).into_iter().flat_map(|lock| lock.in_order());
        waiters.filter_map(|request| Some(self.waiters.get(&request)?.info(now))).take(most).collect()
    }

    /// At most `count` waiters, for any lock or for this one, that came after this request: fewer if too much had to be looked at.
    pub fn page(
        &mut self,
        at: Option<LockRef<'_>>,
        after: Option<RequestId>,
        count: usize,
        now: Now,
    ) -> Page {
        self.find_first();
        let first = after.map_or(Bound::Included(self.observers.first), Bound::Excluded);
        let all = at.is_none().then(|| self.waiters.range((first, Bound::Unbounded)));
        let lock = at.and_then(|at| self.get(at));
        let its = lock.into_iter().flat_map(|lock| lock.queue.after(after));
        let its = its.filter_map(|request| Some((request, self.waiters.get(&request)?)));
        let waiters = all.into_iter().flatten().map(|(request, waiter)| (*request, waiter)).chain(its);
        let (mut waits, mut last, mut left) = (Vec::new(), None, PAGE);
        for (request, waiter) in waiters {
            if waits.len() == count || left == 0 {
                return Page { waits, last };
            }
            last = Some(request);
            let is_queued = waiter.stage == Stage::Queued;
            left = left.saturating_sub(if is_queued { waiter.locks.weight() } else { 1 });
            waits.extend(is_queued.then(|| WaitInfo::new(waiter, now)));
        }
        Page { waits, last: None }
    }

    /// Finds the waiter that has waited longest. Later calls begin their search with this waiter.
    fn find_first(&mut self) -> Option<RequestId> {
        let mut waiters = self.waiters.range(self.observers.first..);
        let first = waiters.find(|(_, waiter)| waiter.stage == Stage::Queued).map(|(request, _)| *request);
        self.observers.first = first.unwrap_or(RequestId(self.last_request));
        first
    }

    /// How long the oldest wait has lasted, in ms; 0 if nobody waits.
    pub fn oldest_wait(&mut self, now: Now) -> Millis {
        let first = self.find_first().and_then(|request| self.waiters.get(&request));
        first.map_or(0, |waiter| waiter.info(now).waited)
    }

    pub fn ungranted(&self) -> u64 {
        self.observers.ungranted
    }

    /// The locks that are waited for most often, the next `count` after the first `after`, with the numbers of their present waiters; and
    /// whether there are more.
    pub fn busiest(&self, after: usize, count: usize) -> (Vec<(LockId, Busy, usize)>, bool) {
        let mut rest = self.observers.busiest.all().skip(after);
        let shown = |(id, busy): (&LockId, &Busy)| (id.clone(), busy.clone(), self.waiters_of(id.to_ref()));
        (rest.by_ref().take(count).map(shown).collect(), rest.next().is_some())
    }

    /// The waiters that have waited for `limit` ms, and were not found before: at most `most`, the others are only counted.
    pub fn long_waits(&mut self, limit: Millis, most: usize, now: Now) -> LongWaits {
        let mut found = LongWaits::default();
        let unseen = (Bound::Excluded(self.observers.long_waits), Bound::Unbounded);
        for (request, waiter) in self.waiters.range(unseen).take(LOOKS) {
            if waiter.stage == Stage::Queued {
                // If the clock was set back, `waited` may be below 0. Such a waiter is left out, or it would hide those behind it.
                let waited = now.micros.saturating_sub(waiter.since) / 1000;
                if (0..limit).contains(&waited) {
                    break;
                }
                match waited {
                    ..0 => (),
                    _ if found.waits.len() < most => found.waits.push(WaitInfo::new(waiter, now)),
                    _ => found.others += 1,
                }
            }
            self.observers.long_waits = *request;
        }
        found
    }
}

/// Finds the lock with waiters that has been held longest, and returns for how many ms it has been held; 0 if none is held. (Looks at
/// `MOST_HELD` locks at most; the next query looks at further locks.)
pub fn longest_held<H: Host>(host: &mut H, now: Millis) -> Millis {
    let mut longest = 0;
    for _ in 0..MOST_HELD {
        let Some((noted, id)) = host.table().held_since.first().cloned() else { break };
        let oldest = host.holders(&id, now, 1).pop();
        let held = oldest.map(|holder| now.saturating_sub(holder.grant.age(now)));
        longest = held.map_or(longest, |since| longest.max(now.saturating_sub(since)));
        let since = held.unwrap_or(now);
        if since <= noted.get() {
            break;
        }
        host.table().change(id.to_ref(), None, |_, lock| lock.held_since = HeldSince::new(since));
    }
    longest
}
