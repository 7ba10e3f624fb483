//! What this server knew as a primary before it was demoted. The module drops a little of this in each turn of the event loop, and sends
//! the message `Gone` to places (waiters that are not blocked) and to listening holders. Meanwhile, the server may become a primary again,
//! with a new, empty table.

use super::queue::RequestId;
use super::shown::Observers;
use super::{AT_A_TIME, Earlier, WaitTable};
use crate::lock::Millis;

impl<C: Copy> Earlier<C> {
    /// Drops a little of what this table knows of the next lock. Returns how many units of work this was; 0 if no lock is left.
    fn drop_some(&mut self) -> usize {
        let Some(id) = self.table.locks.entries.before(&mut self.cursor).cloned() else { return 0 };
        let sent_away = self.table.demoted_at(&id);
        if sent_away < AT_A_TIME {
            self.cursor.advance();
        }
        1 + sent_away
    }

    fn has_locks_to_drop(&self) -> bool {
        self.table.locks.entries.before(&mut self.cursor.clone()).is_some()
    }

    fn is_over(&self) -> bool {
        self.table.locks.is_empty() && self.table.waiters.is_empty()
    }
}

impl<C: Copy> WaitTable<C> {
    /// Sets this server's table aside (see `Earlier`), and begins an empty one, because the server has become a replica. From now on, no
    /// session renews a lease, and the new primary takes care of the locks. The server itself sends away blocked clients.
    pub fn demoted(&mut self) {
        let mut table = std::mem::replace(self, Self::new());
        // The new table continues the numbers of requests, so that no number is used twice, and takes over the answers that are still to be
        // sent.
        self.waiters.last_request = table.waiters.last_request;
        self.outgoing = std::mem::take(&mut table.outgoing);
        self.earlier = std::mem::take(&mut table.earlier);
        self.sent = std::mem::take(&mut table.sent);
        self.observers = std::mem::replace(&mut table.observers, Observers::new());
        self.observers.ungranted += table.waiters.queued() as u64;
        let earlier = Earlier { cursor: table.locks.entries.end(), table };
        if !earlier.is_over() {
            self.earlier.push(earlier);
        }
    }

    /// Runs `body` on the table that knows this request: the present table, or one from before a demotion.
    #[inline]
    pub fn with_table_of<R>(&mut self, request: RequestId, body: impl FnOnce(&mut Self) -> R) -> R {
        self.with_first(|table| request <= table.waiters.last_request(), body)
    }

    /// Runs `body` on an earlier table with a wait that has timed out by `now`, if there is one, or else on the present table.
    pub(crate) fn with_timed_out<R>(&mut self, now: Millis, body: impl FnOnce(&mut Self) -> R) -> R {
        self.with_first(|table| table.waiters.timers.first_timed_out(now).is_some(), body)
    }

    /// Runs `body` on the first of the earlier tables (from before demotions) for which `is_meant` is true. If there is none, runs `body`
    /// on the present table.
    #[inline]
    fn with_first<R>(&mut self, is_meant: impl Fn(&Self) -> bool, body: impl FnOnce(&mut Self) -> R) -> R {
        let number = self.earlier.iter().position(|earlier| is_meant(&earlier.table));
        let table = match number.and_then(|number| self.earlier.get_mut(number)) {
            Some(earlier) => &mut earlier.table,
            None => &mut *self,
        };
        let result = body(table);
        if let Some(number) = number {
            self.take_over(number);
        }
        result
    }

    /// Drops a little of an earlier table. Returns how many units of work this was; 0 if there is nothing to drop.
    pub(super) fn drop_some_earlier(&mut self) -> usize {
        let Some(number) = self.earlier.iter().position(Earlier::has_locks_to_drop) else { return 0 };
        let work = self.earlier.get_mut(number).map_or(0, Earlier::drop_some);
        self.take_over(number);
        work
    }

    /// Returns when the next work on an earlier table is due: now if the table has locks to drop, or else when one of its clients that are
    /// still blocked times out. This function is `cold`, so that `next_due` stays fast if there is no earlier table.
    #[cold]
    pub(super) fn next_due_earlier(&self) -> Option<Millis> {
        let next = |earlier: &Earlier<C>| match earlier.has_locks_to_drop() {
            true => Some(0),
            false => earlier.table.waiters.timers.next_timeout(),
        };
        self.earlier.iter().filter_map(next).min()
    }

    /// Takes over the answers and messages of an earlier table, and removes that table if nothing is left in it.
    fn take_over(&mut self, number: usize) {
        let Some(earlier) = self.earlier.get_mut(number) else { return };
        self.outgoing.append(&mut earlier.table.outgoing);
        if earlier.is_over() {
            self.earlier.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Arrival, Channel, LockRef, Outgoing, Session, WaitKind};
    use super::*;
    use crate::lock::{AcquireRequest, Fence, Owner};

    const AT: LockRef<'static> = LockRef { db: 0, key: b"k" };

    fn fence(number: u64) -> Fence {
        Fence::new(number).unwrap()
    }

    fn session(number: u64) -> Session {
        Session { client: 7, fence: fence(number), lease: 9, renew_at: 3, over: false }
    }

    /// Calls `clear_up` until there is nothing to do. Returns the number of pieces of work, and the size of the largest piece.
    fn clear_up(table: &mut WaitTable<RequestId>) -> (usize, usize) {
        let (mut pieces, mut most) = (0, 0);
        loop {
            table.check();
            match table.clear_up() {
                0 => return (pieces, most),
                work => (pieces, most) = (pieces + 1, most.max(work)),
            }
        }
    }

    /// A client can have more sessions than one turn of the event loop can end.
    #[test]
    fn a_server_that_is_demoted_and_promoted_drops_each_lock_in_a_turn_of_its_own() {
        let mut table = WaitTable::<RequestId>::new();
        for number in 0..200_u8 {
            table.sessions().start(LockRef { db: 0, key: &[number] }, session(1));
        }
        table.demoted();
        assert_eq!((table.connections.sessions(), table.locks.is_empty()), (0, true));
        assert_eq!((table.next_due(), clear_up(&mut table)), (Some(0), (200, 2)));
        assert_eq!((table.next_due(), table.earlier.len()), (None, 0));
    }

    #[test]
    fn a_lock_of_very_many_holders_is_dropped_in_several_turns() {
        let mut table = WaitTable::<RequestId>::new();
        (1..=2_500).for_each(|number| table.sessions().start(AT, session(number)));
        table.demoted();
        assert_eq!(clear_up(&mut table), (25, 1 + AT_A_TIME));
        assert_eq!(table.earlier.len(), 0);
    }

    /// The present table knows nothing of the earlier one, and the earlier table knows nothing of the present one.
    #[test]
    fn a_session_of_the_new_role_outlives_those_of_the_earlier_one() {
        let mut table = WaitTable::<RequestId>::new();
        table.sessions().start(AT, session(1));
        table.demoted();
        table.sessions().start(AT, session(2));
        assert_eq!(table.connections.weight_of(7), 1);
        clear_up(&mut table);
        assert_eq!([1, 2].map(|number| table.session(AT, fence(number)).is_some()), [false, true]);
    }

    #[test]
    fn places_of_earlier_times_are_told() {
        let mut table = WaitTable::<RequestId>::new();
        for _ in 0..3 {
            let channel = Channel { address: [1].into(), wanted: true, start: None };
            join(&mut table, WaitKind::Notified(channel), 0);
            table.demoted();
        }
        assert_eq!((table.earlier.len(), table.waiters.queued(), table.connections.places()), (3, 0, 0));
        assert_eq!(table.shown().ungranted(), 3);
        assert_eq!(clear_up(&mut table), (3, 2));
        let mut told = Vec::new();
        while let Some(Outgoing::Place(request)) = table.next_answer() {
            told.extend(table.with_table_of(request, |table| table.tell(request)).map(|told| told.answer));
            table.with_table_of(request, |table| table.forget(request));
        }
        assert_eq!(told, [Answer::Gone; 3]);
        assert_eq!(table.earlier.len(), 0);
    }

    /// Some servers do not send blocked clients away at once when they are demoted.
    #[test]
    fn a_client_that_is_still_blocked_is_told_that_its_time_is_up() {
        let mut table = WaitTable::new();
        let request = table.waiters.next_request();
        join(&mut table, WaitKind::Blocked(request), 5);
        table.demoted();
        clear_up(&mut table);
        let mut time_out = |now| (table.next_due(), table.with_timed_out(now, |table| table.time_out(now)));
        assert_eq!([5, 6].map(&mut time_out), [(Some(6), None), (Some(6), Some(true))]);
        assert!(matches!(table.next_answer(), Some(Outgoing::Client(client)) if client == request));
        let told = table.with_table_of(request, |table| table.tell(request));
        assert_eq!(told.map(|told| told.answer), Some(Answer::TimedOut));
        assert_eq!(table.earlier.len(), 1);
        table.with_table_of(request, |table| table.forget(request));
        assert_eq!((table.earlier.len(), table.next_due()), (0, None));
    }

    fn join(table: &mut WaitTable<RequestId>, way: WaitKind<RequestId>, timeout: Millis) {
        let ask = AcquireRequest::new(Owner::new(b"a").unwrap(), 10);
        let request = match way {
            WaitKind::Blocked(request) => request,
            WaitKind::Notified(_) => table.waiters.next_request(),
        };
        let arrival = Arrival { ask, way, client_id: 7, since: 0, timeout, confirm: None };
        table.join(&[AT], false, 0, request, arrival);
    }
}
