//! Work on many locks at once, which is done piece by piece: a connection has closed, a database was flushed, this server has become a
//! replica.

use super::connections::Closed;
use super::lock_id::LockRef;
use super::sweep::{Kind, Next};
use super::{LockId, WaitTable};

impl<C: Copy> WaitTable<C> {
    /// Does a little of what is to be done to many locks; whether there was anything to do.
    pub(crate) fn clear_up(&mut self) -> bool {
        let swept = self.sweep();
        self.clear_closed() || swept
    }

    /// Takes one session and one place off a connection that has closed; whether there was such.
    pub(super) fn clear_closed(&mut self) -> bool {
        let Some(Closed { client, session, place }) = self.connections.next_of_closed() else {
            return false;
        };
        if let Some((id, fence)) = session {
            self.connections.remove_session(client, &id, fence);
            self.change(id.to_ref(), |entry| entry.change_session(fence, |session| session.over = true));
            self.look_by(id.to_ref(), 0);
        }
        if let Some(request) = place {
            self.connections.remove_place(client, request);
            self.give_up(request);
        }
        true
    }

    /// Something has happened to all keys of a database, or to all: locks that somebody waits for, or keeps alive, are looked
    /// at soon.
    pub(crate) fn touched_db(&mut self, db: Option<i32>) {
        self.sweeps.start(Kind::Touched(db), self.entries.end());
    }

    /// A setting that holds for all locks has changed: a waiter may fit now.
    pub(crate) fn rules_changed(&mut self) {
        self.sweeps.start(Kind::Rules, self.entries.end());
    }

    /// This server has become a replica, on which nothing is to be done.
    pub(crate) fn demoted(&mut self) {
        self.sweeps.start(Kind::Demoted, self.entries.end());
    }

    /// This server has become a primary: what it knew as one before is forgotten.
    pub(crate) fn promoted(&mut self) {
        while self.sweeps.is_under_way(Kind::Demoted) {
            self.sweep();
        }
    }

    /// Does what is to be done to one more entry; whether there was anything to do.
    pub(super) fn sweep(&mut self) -> bool {
        let (kind, number, id) = match self.sweeps.next(&self.entries) {
            Next::Nothing => return false,
            Next::End => return true,
            Next::Entry(kind, number, id) => (kind, number, id),
        };
        let done = match kind {
            Kind::Touched(_) if kind.touches(id.db) => {
                self.touched_by(id.to_ref(), number);
                true
            }
            Kind::Touched(_) => true,
            Kind::Rules => {
                self.recheck_by(id.to_ref(), 0);
                true
            }
            Kind::Demoted => self.demoted_at(&id),
        };
        if done {
            self.sweeps.advance();
        }
        true
    }

    /// On a replica nothing is to be done: the server sends away those who are blocked, and we the others; sessions end with
    /// the lease, and the rest is the primary's to tell. Whether all are sent away.
    pub(crate) fn demoted_at(&mut self, id: &LockId) -> bool {
        let at: LockRef<'_> = id.to_ref();
        let done = self.send_away(at);
        self.cancel_timers(at);
        done
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{Arrival, Lane, RequestId, Session, WaitKind, WaitTable};
    use super::*;
    use crate::lock::{AcquireRequest, Deadline, Fence, Got, Owner, Room};

    fn key(number: u8) -> [u8; 1] {
        [number]
    }

    /// Somebody waits for that lock, on a connection of its own number.
    fn join(table: &mut WaitTable<RequestId>, db: i32, number: u8) -> RequestId {
        let owner = Owner::new(b"a").unwrap().into_owned();
        let ask = AcquireRequest {
            owner,
            lease: 10,
            max_hold: None,
            once: false,
            session: false,
            room: Room::ONE,
            slot: None,
            label: None,
        };
        let request = table.next_request();
        let way = WaitKind::Blocked(request);
        let arrival = Arrival { ask, way, client_id: number.into(), since: 0, timeout: 0, confirm: None };
        table.join(LockRef { db, key: &key(number) }, request, arrival);
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

        /// Whatever comes and goes meanwhile.
        #[test]
        fn a_sweep_leaves_out_no_lock(before in vec(0..20u8, 0..20), steps in vec(step(), 0..40)) {
            let mut table = WaitTable::new();
            let mut waiting: Vec<(u8, RequestId)> =
                before.into_iter().map(|number| (number, join(&mut table, 0, number))).collect();
            let mut to_be_seen = waiting.clone();
            table.touched_db(Some(0));
            for step in steps {
                match step {
                    Step::Again => {
                        to_be_seen = waiting.clone();
                        table.touched_db(Some(0));
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
            while table.clear_up() {}
            for (number, _) in to_be_seen {
                let entry = table.lock(LockRef { db: 0, key: &key(number) });
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
            table.touched_db(Some(0));
            table.clear_up();
        }
        let timers = |number| &table.lock(LockRef { db: 0, key: &key(number) }).timers;
        assert!(locks.into_iter().all(|number| timers(number).is_at_once()));
    }

    #[test]
    fn flushes_that_keep_coming_hold_up_no_demotion() {
        let mut table = WaitTable::new();
        let request = join(&mut table, 0, 1);
        table.touched_db(None);
        table.demoted();
        for _ in 0..10 {
            table.touched_db(None);
            table.clear_up();
        }
        assert!(!table.sweeps.is_under_way(Kind::Demoted));
        table.depart(request);
    }

    #[test]
    fn a_flush_of_one_database_is_no_other_s_business() {
        let mut table = WaitTable::new();
        join(&mut table, 0, 1);
        join(&mut table, 1, 2);
        table.touched_db(Some(1));
        assert!(table.sweeps.is_touched_since(1, 0) && !table.sweeps.is_touched_since(0, 0));
        while table.clear_up() {}
        let timers = |db, number| &table.lock(LockRef { db, key: &key(number) }).timers;
        assert!(!timers(0, 1).is_set() && timers(1, 2).is_at_once());
        assert!(!table.sweeps.is_touched_since(1, 0));
    }

    #[test]
    fn a_connection_that_closed_keeps_nothing_alive_from_then_on() {
        let mut table = WaitTable::<RequestId>::new();
        let fence = Fence::new(1).unwrap();
        for number in 0..3 {
            let at = LockRef { db: 0, key: &key(number) };
            let session = Session { client: 7, fence, lease: 9, renew_at: 3, over: false };
            table.start_session(at, session);
        }
        assert_eq!(table.totals(), (0, 3));
        assert!(table.connections.close(7) && !table.connections.close(8));
        let is_alive = |table: &WaitTable<RequestId>, number| {
            table.session_client(LockRef { db: 0, key: &key(number) }, fence).is_some()
        };
        assert!((0..3).all(|number| !is_alive(&table, number)));
        assert!(table.clear_up() && table.clear_up() && table.clear_up());
        assert!(!table.clear_up());
        assert_eq!(table.next_due(), Some(0));
        assert!((0..3).all(|number| !is_alive(&table, number)));
        assert_eq!(table.totals(), (0, 0));
    }

    /// Should the same grant come back to this server, it is whole.
    #[test]
    fn a_client_that_goes_after_its_lock_has_moved_away_takes_no_hold_with_it() {
        let mut table = WaitTable::new();
        let request = join(&mut table, 0, 1);
        let at = LockRef { db: 0, key: &key(1) };
        let fence = Fence::new(1).unwrap();
        table.grant(request, &[Got { fence, holds: 1, slot: None }], Deadline::At(9), 1000);
        table.moved_away(at);
        table.depart(request);
        assert_eq!(table.change(at, |entry| entry.take_undeliverable()), None);
        table.forget(request);
        assert!(table.is_empty());
    }

    #[test]
    fn a_replica_forgets_what_it_knew_as_a_primary() {
        let mut table = WaitTable::new();
        let request = join(&mut table, 0, 1);
        let fence = Fence::new(1).unwrap();
        let at = LockRef { db: 0, key: &key(2) };
        table.start_session(at, Session { client: 7, fence, lease: 9, renew_at: 3, over: false });
        table.demoted();
        table.promoted();
        assert_eq!(table.next_due(), None);
        assert_eq!(table.session(at, fence).map(|session| session.client), None);
        // The server sends it away.
        table.depart(request);
        table.forget(request);
        assert!(table.is_empty());
        assert_eq!(request.0, NonZeroU64::new(2).unwrap());
    }

    /// What a turn has not come to has not been seen to.
    #[test]
    fn a_session_whose_renewal_is_left_for_the_next_turn_may_outlive_its_lease() {
        let mut table = WaitTable::<RequestId>::new();
        let fence = Fence::new(1).unwrap();
        for (number, renew_at) in [(1, 3), (2, 4)] {
            let session = Session { client: 7, fence, lease: 9, renew_at, over: false };
            table.start_session(LockRef { db: 0, key: &key(number) }, session);
        }
        assert!(table.take_due(Lane::Renewal, 5).is_some());
        table.timers.end_run(5);
        let is_overdue =
            |number| table.overdue_session(LockRef { db: 0, key: &key(number) }, fence, 5).is_some();
        assert_eq!([1, 2].map(is_overdue), [false, true]);
    }
}
