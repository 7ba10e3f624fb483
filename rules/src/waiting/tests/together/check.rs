//! Checks what must be true after each step, and after all due work.

use std::collections::BTreeMap;

use super::{Fault, NAMES, Want, World};
use crate::lock::{Fence, Held, Owner, Room};
use crate::waiting::tests::server::{Conn, Lock, Queued, QueuedRequest};

const LOCKS: std::ops::Range<Lock> = 0..3;

impl World {
    /// Returns the clients in all queues.
    pub(super) fn queued(&self) -> Vec<Conn> {
        LOCKS.flat_map(|lock| self.queue(lock)).collect()
    }

    /// Returns the clients in the queue of a lock, in order of arrival.
    pub(super) fn queue(&self, lock: Lock) -> Vec<Conn> {
        self.server.asks_of(lock).iter().map(|asked| self.conn(&asked.by)).collect()
    }

    fn conn(&self, queued: &Queued) -> Conn {
        match queued {
            Queued::Blocked(conn) => *conn,
            // Each client with a place has its own name, so the name says the client.
            Queued::Notified(owner) => {
                NAMES.iter().position(|name| Owner::new(name).as_ref() == Some(owner)).unwrap() as Conn
            }
        }
    }

    pub(super) fn check(&mut self, before: &Self) {
        self.server.check();
        for lock in LOCKS {
            self.check_exclusion(lock);
            self.check_new(lock, before);
            self.check_given(lock, before);
        }
        if !self.is_due() {
            self.check_quiet();
        }
    }

    fn check_exclusion(&mut self, lock: Lock) {
        let held = self.server.holders_of(lock, self.now);
        if held.iter().any(|holder| held.len() > size(holder.grant.room())) {
            self.faults.insert(Fault::TooMany);
        }
    }

    /// Checks that waiters still have the grants that they got in this step.
    fn check_given(&mut self, lock: Lock, before: &Self) {
        let held: Vec<Fence> = self.server.all_held_of(lock).iter().map(|held| held.grant.fence()).collect();
        let (given, earlier) = (self.server.given(lock), before.server.given(lock));
        let mut new = given.difference(&earlier).map(|(fence, _)| fence);
        if new.any(|fence| !held.contains(fence)) {
            self.faults.insert(Fault::OverAtOnce);
        }
    }

    /// Checks that no new grant passes over an earlier client, and that new grants have greater fences.
    fn check_new(&mut self, lock: Lock, before: &Self) {
        let known: Vec<Fence> =
            before.server.all_held_of(lock).iter().map(|held| held.grant.fence()).collect();
        let held = self.server.all_held_of(lock);
        let new = held.iter().filter(|held| !known.contains(&held.grant.fence()));
        let new: BTreeMap<Fence, Owner<'static>> =
            new.map(|held| (held.grant.fence(), held.grant.owner().into_owned())).collect();
        let holders: Vec<Owner<'static>> = held.iter().map(|held| held.grant.owner().into_owned()).collect();
        let rank = |conn: Conn| before.arrivals.iter().position(|other| *other == conn);
        // A client that left and came back in this step has lost its place.
        let stood = before.queue(lock);
        let still: Vec<Conn> = self.queue(lock).into_iter().filter(|conn| stood.contains(conn)).collect();
        for (fence, owner) in &new {
            // The grant went to the first waiter with this name, or else to a client that has just come.
            let waited = (0..self.waits.len() as Conn).filter(|conn| self.owner(*conn) == *owner);
            let waited = waited.filter(|conn| before.waits[usize::from(*conn)].is_some());
            let mine = waited.filter_map(rank).min().unwrap_or(usize::MAX);
            let waits = |conn: &&Conn| self.waits[usize::from(**conn)].is_some();
            let passed = still.iter().filter(|conn| waits(conn) && !holders.contains(&self.owner(**conn)));
            if passed.filter_map(|conn| rank(*conn)).any(|other| other < mine) {
                self.faults.insert(Fault::NotTheFirst);
            }
            if before.highest.is_some_and(|highest| *fence <= highest) {
                self.faults.insert(Fault::Fences);
            }
            self.highest = self.highest.max(Some(*fence));
        }
    }

    /// Checks, when nothing is due, that no client that could have all its locks waits, and that no owner has a grant without knowing it.
    fn check_quiet(&mut self) {
        for conn in 0..self.waits.len() as Conn {
            let Some(want) = self.waits[usize::from(conn)] else { continue };
            let is_queued = |lock: &Lock| self.queue(*lock).contains(&conn);
            let queues = LOCKS.filter(is_queued).count();
            if queues > 0 && (queues != want.locks.len() || !want.locks.iter().all(is_queued)) {
                self.faults.insert(Fault::HalfAPlace);
            }
        }
        for conn in self.queued() {
            let Some(want) = self.waits[usize::from(conn)] else { continue };
            if want.locks.iter().all(|lock| self.could_have(conn, want, *lock)) && !self.refused {
                self.faults.insert(Fault::Stuck);
            }
        }
        for lock in LOCKS {
            for held in self.server.holders_of(lock, self.now) {
                let fence = held.grant.fence();
                // If a message is lost, nobody claims the grant in time, so an unclaimed grant counts as known.
                let known = self.told.contains(&(lock, fence)) || self.server.is_unclaimed(lock, fence);
                if !known && !self.refused {
                    self.faults.insert(Fault::ToNobody);
                    return;
                }
                let told = self.holds.as_ref().map(|holds| holds.get(&(lock, fence)).copied().unwrap_or(0));
                if told.is_some_and(|told| held.grant.holds() > told) && !self.refused {
                    self.faults.insert(Fault::HoldsUntold);
                    return;
                }
            }
        }
        let held: Vec<_> = LOCKS
            .flat_map(|lock| {
                self.server.all_held_of(lock).into_iter().map(move |held| (lock, held.grant.fence()))
            })
            .collect();
        self.told.retain(|told| held.contains(told));
        self.holds.iter_mut().for_each(|holds| holds.retain(|grant, _| held.contains(grant)));
    }

    /// Checks that the message `granted` has the fence of the new grants, which is the greatest fence that the owner has of these locks.
    pub(super) fn check_message(&mut self, conn: Conn, fence: Fence) {
        let Some(want) = self.waits[usize::from(conn)] else { return };
        let owner = self.owner(conn);
        let latest = want.locks.iter().filter_map(|lock| self.server.fence_of(*lock, &owner, self.now)).max();
        if latest.is_some_and(|latest| latest != fence) {
            self.faults.insert(Fault::WrongFence);
        }
    }

    /// Whether a client could have one of its locks now: it is next and fits, or already holds the lock.
    fn could_have(&self, conn: Conn, want: Want, lock: Lock) -> bool {
        let held = self.server.holders_of(lock, self.now);
        let owner = self.owner(conn);
        let (own, others): (Vec<&Held<'_>>, Vec<&Held<'_>>) =
            held.iter().partition(|held| held.grant.owner() == owner);
        let fits = others.len() < size(want.room)
            && others.iter().all(|held| others.len() < size(held.grant.room()));
        let waits_to_upgrade = |asked: &QueuedRequest| {
            held.iter().any(|held| held.grant.owner() == asked.owner && asked.room < held.grant.room())
        };
        let is_unclaimed = |held: &Held<'_>| self.server.is_unclaimed(lock, held.grant.fence());
        // At most two other waiters of the owner that can't have the lock yet are passed over.
        let is_reached = || {
            let queue = self.queue(lock);
            let ahead = queue.iter().take_while(|other| **other != conn);
            ahead.filter(|other| self.owner(**other) == owner).count() < 2
        };
        let is_next = || self.server.next_in(lock).is_some_and(|queued| self.conn(&queued) == conn);
        match own.first() {
            // In a slow world, a place re-enters only when the lock has no unclaimed grant.
            Some(_) if self.slow && want.notify && held.iter().any(is_unclaimed) => false,
            Some(own) if own.grant.room() > want.room => fits && (is_reached() || is_next()),
            Some(_) => is_reached(),
            None => {
                let asks = self.server.asks_of(lock);
                fits && !asks.iter().any(waits_to_upgrade) && self.queue(lock).first() == Some(&conn)
            }
        }
    }
}

fn size(room: Room) -> usize {
    room.most().map_or(usize::MAX, |most| most as usize)
}
