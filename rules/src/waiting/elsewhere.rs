//! What happens to locks other than by commands for them: keys are changed, moved, flushed or swapped, locks move to another server, and
//! this server becomes a replica.

use super::budget::{CHANGE, LOOKUP};
use super::connections::Connections;
use super::host::WHILE_REFUSED;
use super::lock_id::{LockId, LockRef};
use super::lock_state::{LockState, Record};
use super::locks::Locks;
use super::message::MessageKind;
use super::notices::Notice;
use super::queue::RequestId;
use super::replication::Replication;
use super::table::{Sweep, Table};
use super::waiter::{Answer, Stage};
use crate::lock::{Fence, Millis};

/// The most waiters and grants of one lock that are dropped at a time.
const AT_A_TIME: usize = 100;

impl<C: Copy> Table<C> {
    /// Something other than the module may have changed the key of a lock. Returns whether a timer has to look at it.
    pub fn touched(&mut self, at: LockRef<'_>) -> bool {
        let strays = self.strays.is_some();
        if let Some((from, strays)) =
            self.strays.take_if(|(from, _)| from.db != at.db || *from.key != *at.key)
        {
            for (fence, holds) in strays {
                let untold = self.get(from.to_ref()).and_then(|lock| lock.record(fence));
                let untold = untold.into_iter().flat_map(|record| &record.pending).map(|hold| hold.request);
                let untold: Vec<RequestId> = untold.filter(|request| self.is_untold(*request)).collect();
                untold.into_iter().for_each(|request| self.untell(request));
                let lost = |record: &mut Record| std::mem::take(&mut record.to_take_back);
                let known = self.change(from.to_ref(), None, |_, lock| lock.change(fence, lost));
                self.note_to_take_back(at, fence, known.unwrap_or(holds));
            }
        }
        self.change(at, Some(0), |_, lock| lock.recheck = true);
        strays || self.knows(at)
    }

    /// Notes holds that a timer takes back from a grant, if it finds the grant at this key.
    fn note_to_take_back(&mut self, at: LockRef<'_>, fence: Fence, holds: u32) {
        if holds > 0 {
            self.change(at, Some(0), |_, lock| {
                lock.change_or_add(fence, |record| record.to_take_back += holds)
            });
        }
    }

    /// Something other than the module removes the value of a lock, perhaps to move it to another key. Wherever the value turns up
    /// (`touched`), the holds of which no client has been told are taken back.
    pub fn unlinked(&mut self, at: LockRef<'_>) -> bool {
        let untold = |record: &Record| {
            let revocable =
                record.pending.iter().filter(|hold| hold.revocable && self.is_untold(hold.request));
            (record.fence, record.to_take_back + revocable.count() as u32)
        };
        let strays = self.get(at).into_iter().flat_map(|lock| lock.records()).map(untold);
        let strays: Vec<_> = strays.filter(|(_, holds)| *holds > 0).collect();
        self.strays = (!strays.is_empty()).then(|| (at.to_id(), strays));
        self.change(at, Some(0), |_, lock| lock.recheck = true);
        self.knows(at)
    }

    /// A client has overwritten the key with another type.
    pub fn overwritten(&mut self, at: LockRef<'_>) {
        let waiters = self.get(at).into_iter().flat_map(|lock| lock.queue.iter()).take(AT_A_TIME);
        let waiters: Vec<RequestId> = waiters.collect();
        for request in waiters {
            if self.pays_for(request) {
                self.leave_queues(request, Stage::Answered(Answer::WrongType));
            }
        }
        self.change(at, None, |table, lock| {
            let grants = lock.records().take(AT_A_TIME).map(|record| record.fence);
            for fence in grants.collect::<Vec<Fence>>() {
                if table.budget.pay(CHANGE) {
                    table.ended(at, lock, fence, Some(MessageKind::Lost));
                }
            }
            // Timers do the rest: they find that the key has another type, and call this method again.
            (lock.recheck, lock.wake) = (true, Some(0));
        });
        self.end_step();
    }

    /// Whether the budget is enough to take a waiter out of its queues.
    fn pays_for(&mut self, request: RequestId) -> bool {
        let locks = self.waiters.get(&request).map_or(0, |waiter| waiter.locks.all().len());
        self.budget.pay(CHANGE.saturating_mul(locks as u32))
    }

    /// Something, such as a flush or a new setting, has happened to all locks of a database; `None`: of all databases.
    pub fn touched_db(&mut self, db: Option<i32>) {
        let cursor = self.locks.as_ref().map_or(0, Locks::end);
        match self.sweeps.iter_mut().find(|sweep| sweep.db == db) {
            Some(sweep) => sweep.again = true,
            None => self.sweeps.push(Sweep { db, cursor, again: false }),
        }
    }

    /// Whether a walk may still have to visit this lock.
    pub(super) fn is_swept(&self, at: LockRef<'_>) -> bool {
        self.sweeps.iter().any(|sweep| sweep.db.is_none_or(|db| db == at.db))
    }

    /// Visits one more lock. Returns whether there was a walk.
    fn sweep(&mut self) -> bool {
        let Some(sweep) = self.sweeps.first_mut() else { return false };
        let next = self.locks.as_ref().and_then(|locks| locks.before(sweep.cursor));
        let (db, Some((next, id))) = (sweep.db, next) else {
            // A walk that begins anew comes after the others.
            let Sweep { db, again, .. } = self.sweeps.remove(0);
            let cursor = self.locks.as_ref().map_or(0, Locks::end);
            self.sweeps.extend(again.then_some(Sweep { db, cursor, again: false }));
            return true;
        };
        sweep.cursor = next;
        if db.is_none_or(|db| db == id.db) {
            let id = id.clone();
            self.touched(id.to_ref());
        }
        true
    }

    /// The server has swapped two databases.
    pub fn swapped(&mut self, first: i32, second: i32, now: Millis) {
        if first == second {
            return;
        }
        let moves = |id: &LockId| id.db == first || id.db == second;
        let answered = self.outgoing.iter().filter_map(|notice| match notice {
            Notice::Waiter(request) => Some(*request),
            _ => None,
        });
        let untold = answered.chain(self.replication.answers()).filter(|request| {
            let waiter = self.waiters.get(request).filter(|_| self.is_untold(*request));
            waiter.is_some_and(|waiter| waiter.locks.all().iter().any(|lock| moves(&lock.id)))
        });
        let untold: Vec<RequestId> = untold.collect();
        untold.into_iter().for_each(|request| self.untell(request));
        // Looks that were due at once may be due a little later now, because the server refused them.
        let is_soon = |(time, _): &&(Millis, LockId)| *time <= now.saturating_add(WHILE_REFUSED);
        let soon = self.wakes.iter().take_while(is_soon).chain(self.renewals.iter().take_while(is_soon));
        let soon: Vec<LockId> = soon.map(|(_, id)| id).filter(|id| moves(id)).cloned().collect();
        let mut strays: Vec<(LockId, Fence, u32)> = Vec::new();
        for id in soon {
            let to = LockId { db: if id.db == first { second } else { first }, ..id.clone() };
            self.change(id.to_ref(), None, |_, lock| {
                let lost: Vec<Fence> =
                    lock.records().filter(|it| it.to_take_back > 0).map(|it| it.fence).collect();
                for fence in lost {
                    let holds = lock.change(fence, |record| std::mem::take(&mut record.to_take_back));
                    strays.extend(holds.map(|holds| (to.clone(), fence, holds)));
                }
            });
        }
        strays.into_iter().for_each(|(id, fence, holds)| self.note_to_take_back(id.to_ref(), fence, holds));
        self.touched_db(Some(first));
        self.touched_db(Some(second));
    }

    /// This server becomes a replica: it drops what it knows of locks, little by little, and may become a primary again meanwhile. The
    /// server itself sends blocked clients away.
    pub fn demoted(&mut self) {
        self.earlier.extend(self.locks.take().filter(|locks| locks.len() > 0));
        self.observers.demoted(RequestId(self.last_request), self.queued.len());
        self.queued.demoted(RequestId(self.last_request));
        self.unused.add(std::mem::take(&mut self.wakes));
        self.unused.add(std::mem::take(&mut self.held_since));
        self.unused.add(std::mem::take(&mut self.renewals));
        let Connections { sessions, places, .. } =
            std::mem::replace(&mut self.connections, Connections::new());
        self.unused.add(sessions);
        self.unused.add(places);
        self.tries.clear();
        self.sweeps.clear();
        self.replication = Replication::new();
    }

    /// A lock now belongs to another server. Its places and listening holders are told so; the server itself sends blocked clients away.
    /// Returns in how many ms to go on, if not all are gone.
    pub(super) fn send_away(&mut self, at: LockRef<'_>) -> Option<Millis> {
        let (is_all, waits) =
            self.change(at, None, |table, lock| (table.drop_some(at, lock, false), !lock.queue.is_empty()));
        self.end_step();
        if is_all { waits.then_some(WHILE_REFUSED) } else { Some(1) }
    }

    /// Drops some of a lock's places and grants. Returns whether none are left. `is_earlier`: no index has anything of the lock.
    fn drop_some(&mut self, at: LockRef<'_>, lock: &mut LockState, is_earlier: bool) -> bool {
        let places = lock
            .queue
            .iter()
            .filter(|request| self.waiters.get(request).is_some_and(|waiter| waiter.channel.is_some()));
        let places: Vec<RequestId> = places.take(AT_A_TIME).collect();
        let grants = lock.records().take(AT_A_TIME - places.len()).map(|record| record.fence);
        let grants: Vec<Fence> = grants.collect();
        let mut are_all = places.len() + grants.len() < AT_A_TIME;
        for request in places {
            let owner = self.waiters.get(&request).map(|waiter| waiter.ask.owner.clone());
            let Some(owner) = owner.filter(|_| self.pays_for(request)) else {
                are_all = false;
                break;
            };
            lock.leave(request, &owner);
            self.leave_queues(request, Stage::Answered(Answer::Gone));
        }
        for fence in grants {
            if !self.budget.pay(CHANGE) {
                are_all = false;
                break;
            }
            // Otherwise, a client that goes away before it is told could end this grant, if the grant has moved back by then.
            lock.change(fence, |record| {
                record.pending.retain(|hold| hold.to_claim);
                if is_earlier {
                    (record.session, record.renewal) = (None, None);
                }
            });
            self.ended(at, lock, fence, Some(|_| MessageKind::Gone));
        }
        are_all
    }

    /// Does a little of the work on many locks. Returns whether there was any.
    pub(super) fn clear_up(&mut self) -> bool {
        self.budget.spend(LOOKUP);
        if let Some(mut locks) = self.earlier.pop() {
            if let Some((id, mut lock)) = locks.pop()
                && !self.drop_some(id.to_ref(), &mut lock, true)
            {
                locks.insert(id, lock);
            }
            self.earlier.extend(Some(locks).filter(|locks| locks.len() > 0));
            self.end_step();
            return true;
        }
        self.sweep() || self.end_next_dependent() || self.unused.free_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A million rows at once would stall other clients.
    #[test]
    fn a_demotion_frees_the_rows_of_indexes_little_by_little() {
        let (mut table, key) = (Table::<RequestId>::new(), Arc::<[u8]>::from(*b"lock"));
        for db in 0..1_000 {
            let id = LockId { db, key: Arc::clone(&key) };
            table.wakes.insert((1, id.clone()));
            table.renewals.insert((1, id.clone()));
            table.connections.sessions.insert((7, id, Fence::MIN));
        }
        table.demoted();
        let (mut left, mut most) = (Arc::strong_count(&key), 0);
        assert_eq!(left, 3_001);
        while table.clear_up() {
            most = most.max(left - Arc::strong_count(&key));
            left = Arc::strong_count(&key);
        }
        assert_eq!((left, table.next_due()), (1, None));
        assert!(most <= 100, "{most} at once");
    }
}
