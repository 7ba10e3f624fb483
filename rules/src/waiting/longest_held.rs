//! Finds, among all locks with waiters, the lock that has been held longest, and for how long.

use super::access::Environment;
use super::table::LockId;
use crate::lock::Millis;

/// The most locks that one query (`INFO`) looks at.
const MOST: usize = 200;

/// Returns the longest time, in ms, for which any lock with waiters has been held; 0 if nobody holds any of them. `oldest` must return when
/// a lock's oldest grant was made; `None` if the lock is free. The table notes this time when the first waiter comes, and the note of a
/// lock that has changed hands since is too early. A query starts with the earliest notes, and corrects them until it finds a note that is
/// right. After `MOST` locks, the query stops: the result is then the longest time of these locks, and the next query looks at further
/// locks.
pub fn longest_held<A: Environment>(
    env: &mut A,
    now: Millis,
    mut oldest: impl FnMut(&mut A, &LockId) -> Option<Millis>,
) -> Millis {
    let mut longest = 0;
    for _ in 0..MOST {
        let Some((noted, id)) = env.table(|table| table.locks.longest_held()) else { break };
        let held = oldest(env, &id);
        longest = held.map_or(longest, |since| longest.max(now.saturating_sub(since)));
        let since = held.unwrap_or(now);
        if since <= noted {
            break;
        }
        env.table(|table| table.locks.held_since(&id, since));
    }
    longest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::budget::Budget;
    use super::super::table::{Arrival, LockRef, RequestId, WaitKind, WaitTable};
    use super::*;
    use crate::lock::{AcquireRequest, Limits, Owner};

    /// The table of waiters, and since when each lock is held.
    struct World {
        table: WaitTable<RequestId>,
        held: BTreeMap<u8, Millis>,
        waiting: Vec<(u8, RequestId)>,
        looks: usize,
    }

    impl Environment for World {
        type Client = RequestId;

        fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<RequestId>) -> R) -> R {
            body(&mut self.table)
        }

        fn limits(&mut self) -> Limits {
            Limits { max_lease: 10, max_hold: None, expiry_slack: 0, max_holders: 1, may_lengthen: true }
        }

        fn is_open(&self, _: u64) -> bool {
            true
        }

        fn budget<R>(&mut self, body: impl FnOnce(&mut Budget) -> R) -> R {
            body(&mut Budget::new())
        }
    }

    impl World {
        fn new() -> Self {
            Self { table: WaitTable::new(), held: BTreeMap::new(), waiting: Vec::new(), looks: 0 }
        }

        fn join(&mut self, lock: u8, now: Millis) {
            let owner = Owner::new(b"a").unwrap().into_owned();
            let ask = AcquireRequest::new(owner, 10);
            let request = self.table.waiters.next_request();
            let way = WaitKind::Blocked(request);
            let arrival = Arrival { ask, way, client_id: 7, since: now * 1000, timeout: 0, confirm: None };
            let key = [lock];
            let at = LockRef { db: 0, key: &key };
            self.table.join(&[at], false, 0, request, arrival);
            self.table.locks.note_held(at, self.held.get(&lock).copied().unwrap_or(now));
            self.waiting.push((lock, request));
        }

        fn leave(&mut self, which: usize) {
            let (_, request) = self.waiting.remove(which);
            self.table.depart(request);
            self.table.forget(request);
        }

        fn longest_held(&mut self, now: Millis) -> Millis {
            super::longest_held(self, now, |world, id| {
                world.looks += 1;
                world.held.get(&id.key[0]).copied()
            })
        }

        fn truth(&self, now: Millis) -> Millis {
            let waited_for = self.waiting.iter().filter_map(|(lock, _)| self.held.get(lock));
            waited_for.min().map_or(0, |since| now - since)
        }
    }

    #[derive(Clone, Debug)]
    enum Action {
        Join(u8),
        Leave(usize),
        /// A new owner gets the lock, whoever had it before.
        Grant(u8),
        Free(u8),
        Ask,
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            3 => (0..8u8).prop_map(Action::Join),
            2 => (0..8usize).prop_map(Action::Leave),
            3 => (0..8u8).prop_map(Action::Grant),
            1 => (0..8u8).prop_map(Action::Free),
            2 => Just(Action::Ask),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_result_is_exact(actions in vec(action(), 0..60)) {
            let mut world = World::new();
            for (now, action) in (1..).zip(actions) {
                match action {
                    Action::Join(lock) => world.join(lock, now),
                    Action::Leave(which) if which < world.waiting.len() => world.leave(which),
                    Action::Leave(_) => (),
                    Action::Grant(lock) => _ = world.held.insert(lock, now),
                    Action::Free(lock) => _ = world.held.remove(&lock),
                    Action::Ask => prop_assert_eq!(world.longest_held(now), world.truth(now)),
                }
            }
            while !world.waiting.is_empty() {
                world.leave(0);
            }
            prop_assert!(world.table.locks.longest_held().is_none());
        }
    }

    /// A query looks once at each lock that has changed hands, and then at the lock that has been held longest.
    #[test]
    fn what_has_not_changed_is_not_looked_at() {
        let mut world = World::new();
        for lock in 0..=255 {
            world.held.insert(lock, i64::from(lock));
            world.join(lock, 300);
        }
        assert_eq!((world.longest_held(1000), world.looks), (1000, 1));
        (0..100).for_each(|lock| _ = world.held.insert(lock, 500));
        assert_eq!((world.longest_held(1000), world.looks), (900, 1 + 101));
        assert_eq!((world.longest_held(1000), world.looks), (900, 1 + 101 + 1));
    }
}
