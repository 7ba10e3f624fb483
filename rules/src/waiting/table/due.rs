//! Work whose time has come, and work on many locks that is done little by little: after a connection has closed, a database was flushed,
//! or the server was demoted.

use super::connections::Closed;
use super::outgoing::{MessageKind, Notice};
use super::waiter::{Answer, Phase};
use super::{AT_A_TIME, LockId, LockRef, WaitTable};
use crate::lock::Millis;

impl<C: Copy> WaitTable<C> {
    /// Returns the next lock at which work is due that might still grant the lock to the waiter whose time was up first. The caller must do
    /// this work, and tell the waiter that its time is up only when no such lock is left. This may take several turns of the event loop,
    /// but each lock is returned at most once.
    pub(crate) fn next_overdue_with_wait(&mut self, now: Millis) -> Option<LockId> {
        let request = self.waiters.timers.first_timed_out(now)?;
        let locks = self.waiters.get(request)?.locks.all();
        let seen = self.waiters.timers.last_looks(request);
        let mut unseen = (seen..).zip(locks.iter().skip(seen)).map(|(number, lock)| (number, &lock.id));
        let next = unseen.find(|(_, id)| self.is_overdue(id, now));
        let seen = next.map_or(locks.len(), |(number, _)| number + 1);
        let id = next.map(|(_, id)| id.clone());
        self.waiters.timers.note_last_looks(request, seen);
        id
    }

    /// Times out the waiter whose time was up first. If the waiter is in its queue, it is told so. If the waiter waits for replicas, it is
    /// told that they have not confirmed in time. Otherwise, the waiter is a place, and its unclaimed grant is taken back. Returns whether
    /// the waiter was in its queue; `None` if nobody's time is up.
    pub(crate) fn time_out(&mut self, now: Millis) -> Option<bool> {
        let request = self.waiters.timers.first_timed_out(now)?;
        let phase = self.waiters.phase(request);
        match phase {
            Some(Phase::Queued) => self.answer(request, Answer::TimedOut),
            Some(Phase::Unconfirmed(_)) => {
                self.end_unconfirmed(request);
                self.outgoing.push_back(Notice::Waiter(request));
            }
            _ => _ = self.give_up(request),
        }
        Some(phase == Some(Phase::Queued))
    }

    /// Returns when the next work is due, in ms since 1970; 0: now.
    pub fn next_due(&self) -> Option<Millis> {
        if self.connections.has_closed() || !self.locks.sweeps.is_empty() {
            return Some(0);
        }
        let timeout = self.waiters.timers.next_timeout();
        let tries = self.waiters.timers.has_tries().then(|| self.locks.timers.not_paused(0));
        let due = [self.locks.timers.next_due(), timeout, tries].into_iter().flatten().min();
        if self.earlier.is_empty() { due } else { self.next_due_earlier().into_iter().chain(due).min() }
    }

    /// Does a little of the work on many locks: visits one more lock of a walk, drops some of what this server knew as a primary before a
    /// demotion, and ends one session and one place of a connection that has closed. Returns how many units of work this was; 0 if there is
    /// nothing to do.
    pub(crate) fn clear_up(&mut self) -> usize {
        usize::from(self.locks.sweep()) + self.drop_some_earlier() + usize::from(self.clear_up_closed())
    }

    fn clear_up_closed(&mut self) -> bool {
        let Some(Closed { session, place }) = self.connections.next_of_closed() else {
            return false;
        };
        if let Some((id, fence)) = session {
            self.sessions().closed(&id, fence);
        }
        if let Some(request) = place {
            self.give_up(request);
        }
        true
    }

    /// Handles a lock whose key now has a value of another type: its waiters are answered, and its listening holders are told that they
    /// have lost their grants. Returns how many of the lost grants the module had kept although their leases ended while this server was
    /// frozen.
    pub fn overwritten(&mut self, at: LockRef<'_>) -> usize {
        for _ in 0..AT_A_TIME {
            let Some(request) = self.locks.lock(at).head() else { break };
            self.answer(request, Answer::WrongType);
        }
        // There may be more waiters than `AT_A_TIME`. If so, a timer handles the others.
        self.locks.look_by(at, 0);
        let kept = self.locks.lock(at).grants.counts().expired;
        self.end_grants(at, AT_A_TIME, MessageKind::Lost, false);
        (kept - self.locks.lock(at).grants.counts().expired) as usize
    }
}

#[cfg(test)]
mod tests {

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{Arrival, Lane, RequestId, Session, WaitKind, WaitTable};
    use super::*;
    use crate::lock::{AcquireRequest, Deadline, Fence, Got, Now, Owner};

    fn key(number: u8) -> [u8; 1] {
        [number]
    }

    /// Makes an owner wait for the lock with this number, on a connection with the same number.
    fn join(table: &mut WaitTable<RequestId>, db: i32, number: u8) -> RequestId {
        let owner = Owner::new(b"a").unwrap().into_owned();
        let ask = AcquireRequest::new(owner, 10);
        let request = table.waiters.next_request();
        let way = WaitKind::Blocked(request);
        let arrival = Arrival { ask, way, client_id: number.into(), since: 0, timeout: 0, confirm: None };
        table.join(&[LockRef { db, key: &key(number) }], false, 0, request, arrival);
        request
    }

    #[derive(Clone, Debug)]
    enum Step {
        Sweep,
        Again,
        Join(u8),
        Leave(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Sweep),
            Just(Step::Again),
            (0..20u8).prop_map(Step::Join),
            (0..20u8).prop_map(Step::Leave)
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// A sweep visits every lock for which somebody waits during the whole sweep, whoever comes and goes meanwhile.
        #[test]
        fn a_sweep_leaves_out_no_lock(before in vec(0..20u8, 0..20), steps in vec(step(), 0..40)) {
            let mut table = WaitTable::new();
            let mut waiting: Vec<(u8, RequestId)> =
                before.into_iter().map(|number| (number, join(&mut table, 0, number))).collect();
            let mut to_be_seen = waiting.clone();
            table.locks.touched_db(Some(0));
            for step in steps {
                match step {
                    Step::Again => {
                        to_be_seen = waiting.clone();
                        table.locks.touched_db(Some(0));
                    }
                    Step::Sweep => _ = table.clear_up(),
                    Step::Join(number) => waiting.push((number, join(&mut table, 0, number))),
                    Step::Leave(number) => {
                        to_be_seen.retain(|(waits, _)| *waits != number);
                        for (_, request) in waiting.extract_if(.., |(waits, _)| *waits == number) {
                            table.depart(request);
                            table.forget(request);
                        }
                    }
                }
            }
            while table.clear_up() > 0 {}
            for (number, _) in to_be_seen {
                let entry = table.locks.lock(LockRef { db: 0, key: &key(number) });
                prop_assert!(entry.timers.is_at_once(), "lock {}", number);
            }
        }
    }

    #[test]
    fn flushes_that_keep_coming_leave_out_no_lock() {
        let mut table = WaitTable::new();
        let locks = [1, 2, 3];
        for number in locks {
            join(&mut table, 0, number);
        }
        for _ in locks {
            table.locks.touched_db(Some(0));
            table.clear_up();
        }
        let timers = |number| &table.locks.lock(LockRef { db: 0, key: &key(number) }).timers;
        assert!(locks.into_iter().all(|number| timers(number).is_at_once()));
    }

    #[test]
    fn a_flush_of_one_database_is_no_other_s_business() {
        let mut table = WaitTable::new();
        join(&mut table, 0, 1);
        join(&mut table, 1, 2);
        assert_eq!((table.waiters.queued(), table.connections.sessions()), (2, 0));
        table.locks.touched_db(Some(1));
        assert!(table.locks.sweeps.is_touched_since(1, 0) && !table.locks.sweeps.is_touched_since(0, 0));
        while table.clear_up() > 0 {}
        let timers = |db, number| &table.locks.lock(LockRef { db, key: &key(number) }).timers;
        assert!(!timers(0, 1).is_set() && timers(1, 2).is_at_once());
        assert!(!table.locks.sweeps.is_touched_since(1, 0));
    }

    #[test]
    fn a_connection_that_closed_keeps_nothing_alive_from_then_on() {
        let mut table = WaitTable::<RequestId>::new();
        let fence = Fence::new(1).unwrap();
        for number in 0..3 {
            let at = LockRef { db: 0, key: &key(number) };
            let session = Session { client: 7, fence, lease: 9, renew_at: 3, over: false };
            table.sessions().start(at, session);
        }
        assert_eq!((table.waiters.queued(), table.connections.sessions()), (0, 3));
        assert!(table.connections.close(7) && !table.connections.close(8));
        let is_alive = |table: &WaitTable<RequestId>, number| {
            table.session_client(LockRef { db: 0, key: &key(number) }, fence).is_some()
        };
        assert!((0..3).all(|number| !is_alive(&table, number)));
        assert!(!table.locks.is_empty());
        assert_eq!([0; 4].map(|_| table.clear_up()), [1, 1, 1, 0]);
        assert_eq!(table.next_due(), Some(0));
        assert!((0..3).all(|number| !is_alive(&table, number)));
        assert_eq!((table.waiters.queued(), table.connections.sessions()), (0, 0));
    }

    /// If the grant moves back from another server later, it still has all its holds, although the client has gone away meanwhile.
    #[test]
    fn a_client_that_goes_after_its_lock_has_moved_away_takes_no_hold_with_it() {
        let mut table = WaitTable::new();
        let request = join(&mut table, 0, 1);
        let at = LockRef { db: 0, key: &key(1) };
        let fence = Fence::new(1).unwrap();
        table.grant(
            request,
            &[Got { fence, holds: 1, slot: None }],
            Deadline::At(9),
            Now { micros: 1000, start: 1 },
        );
        table.send_away(at);
        table.depart(request);
        assert_eq!(table.locks.change(at, |entry| entry.take_undeliverable()), None);
        table.forget(request);
        assert!(table.locks.is_empty());
    }

    /// If a turn of the event loop ends before a renewal that was due has been made, the renewal counts as overdue.
    #[test]
    fn a_session_whose_renewal_is_left_for_the_next_turn_may_outlive_its_lease() {
        let mut table = WaitTable::<RequestId>::new();
        let fence = Fence::new(1).unwrap();
        for (number, renew_at) in [(1, 3), (2, 4)] {
            let session = Session { client: 7, fence, lease: 9, renew_at, over: false };
            table.sessions().start(LockRef { db: 0, key: &key(number) }, session);
        }
        assert!(table.locks.take_due(Lane::Renewal, 5).is_some());
        table.locks.timers.end_run(5);
        let overdue = |number| table.overdue_sessions(LockRef { db: 0, key: &key(number) }, 5);
        assert_eq!([1, 2].map(overdue), [vec![], vec![fence]]);
    }
}
