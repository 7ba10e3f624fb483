//! The state of the screen: the last looks, the order, and the selected lock. This file neither draws nor asks a server.

use serde_json::Value;

use crate::text::count;
use crate::top::look::{Lock, Seen};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Order {
    Waiters,
    Held,
    Wait,
}

pub(crate) struct View {
    pub(crate) address: String,
    pub(crate) filter: String,
    /// Whether the user is typing the filter.
    pub(crate) types: bool,
    pub(crate) order: Order,
    /// The error of the last look, if it failed.
    pub(crate) trouble: Option<String>,
    /// The locks that are shown, in order. The server has applied the filter.
    pub(crate) locks: Vec<Lock>,
    pub(crate) at: usize,
    /// The lock whose details are shown, and its state at the last look.
    into: Option<String>,
    detail: Option<Value>,
    last: Option<Seen>,
    before: Option<Seen>,
}

impl View {
    pub(crate) fn new(address: String, filter: String) -> Self {
        Self {
            address,
            filter,
            types: false,
            order: Order::Waiters,
            trouble: None,
            locks: Vec::new(),
            at: 0,
            into: None,
            detail: None,
            last: None,
            before: None,
        }
    }

    pub(crate) fn seen(&mut self, seen: Seen) {
        self.trouble.clone_from(&seen.down);
        self.before = self.last.replace(seen);
        self.sort();
    }

    pub(crate) fn order(&mut self, order: Order) {
        self.order = order;
        self.sort();
    }

    pub(crate) fn sort(&mut self) {
        let all = self.last.as_ref().map(|seen| seen.locks.as_slice()).unwrap_or_default();
        let mut locks = all.to_vec();
        let rank = |lock: &Lock| match self.order {
            Order::Waiters => lock.waiters,
            Order::Held => lock.held_ms,
            Order::Wait => lock.wait_ms,
        };
        locks.sort_by(|one, other| rank(other).cmp(&rank(one)).then_with(|| one.key.cmp(&other.key)));
        // The same lock stays selected when its row moves.
        let chosen = self.chosen().and_then(|key| locks.iter().position(|lock| lock.key == key));
        self.locks = locks;
        self.at = chosen.unwrap_or(self.at).min(self.locks.len().saturating_sub(1));
    }

    pub(crate) fn move_selection(&mut self, by: isize) {
        self.at = self.at.saturating_add_signed(by).min(self.locks.len().saturating_sub(1));
    }

    pub(crate) fn chosen(&self) -> Option<String> {
        self.locks.get(self.at).map(|lock| lock.key.clone())
    }

    pub(crate) fn open(&mut self) {
        self.into = self.chosen();
    }

    /// Closes the details. Returns whether they were open.
    pub(crate) fn close(&mut self) -> bool {
        self.detail = None;
        self.into.take().is_some()
    }

    /// The lock whose details are shown.
    pub(crate) fn looked_into(&self) -> Option<String> {
        self.into.clone()
    }

    pub(crate) fn detail_is(&mut self, lock: Value) {
        self.detail = Some(lock);
    }

    pub(crate) fn detail(&self) -> Option<&Value> {
        self.detail.as_ref()
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.last.as_ref().and_then(|seen| seen.counters.get(name)).copied().unwrap_or_default()
    }

    /// "500 of 10,004": how many locks are shown, and how many pass the filter.
    pub(crate) fn shown(&self) -> String {
        let number = |number: usize| count(u64::try_from(number).unwrap_or_default());
        match self.last.as_ref().map(|seen| seen.found).filter(|found| *found > self.locks.len()) {
            Some(found) => format!("{} of {}", number(self.locks.len()), number(found)),
            None => number(self.locks.len()),
        }
    }

    /// The longest time for which one lock has been held, among the locks shown and all locks with waiters.
    pub(crate) fn longest_held(&self) -> u64 {
        let shown = self.locks.iter().map(|lock| lock.held_ms).max().unwrap_or_default();
        shown.max(self.count("lock_longest_held_ms"))
    }

    /// How much the counter `name` grew per second between the last two looks.
    pub(crate) fn rate(&self, name: &str) -> u64 {
        let (Some(last), Some(before)) = (&self.last, &self.before) else { return 0 };
        let of = |seen: &Seen| seen.counters.get(name).copied().unwrap_or_default();
        // A restarted server counts from 0.
        let more = of(last).saturating_sub(of(before));
        let ms = last.at.saturating_duration_since(before.at).as_millis().max(1);
        u64::try_from(u128::from(more) * 1_000 / ms).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use super::*;

    fn lock(key: &str, waiters: u64, held_ms: u64, wait_ms: u64) -> Lock {
        Lock { key: key.to_owned(), waiters, held_ms, wait_ms, ..Lock::default() }
    }

    fn seen(at: Instant, grants: u64) -> Seen {
        let locks = vec![lock("a", 1, 30, 7), lock("b", 3, 10, 9), lock("ab", 2, 20, 8)];
        Seen {
            at,
            counters: BTreeMap::from([("lock_grants".to_owned(), grants)]),
            found: 10_004,
            down: None,
            locks,
        }
    }

    fn keys(view: &View) -> Vec<&str> {
        view.locks.iter().map(|lock| lock.key.as_str()).collect()
    }

    #[test]
    fn locks_are_sorted_and_counted() {
        let mut view = View::new(String::new(), String::new());
        view.seen(seen(Instant::now(), 0));
        assert_eq!(keys(&view), ["b", "ab", "a"]);
        view.order(Order::Held);
        assert_eq!(keys(&view), ["a", "ab", "b"]);
        view.order(Order::Wait);
        assert_eq!(keys(&view), ["b", "ab", "a"]);
        assert_eq!((view.shown().as_str(), view.longest_held()), ("3 of 10,004", 30));
    }

    #[test]
    fn what_is_chosen_stays_within_the_list() {
        let mut view = View::new(String::new(), String::new());
        assert_eq!(view.chosen(), None);
        view.seen(seen(Instant::now(), 0));
        view.move_selection(9);
        assert_eq!(view.chosen().as_deref(), Some("a"));
        view.move_selection(-1);
        assert_eq!(view.chosen().as_deref(), Some("ab"));
        view.order(Order::Held);
        assert_eq!(view.chosen().as_deref(), Some("ab"));
        view.seen(Seen { locks: Vec::new(), ..seen(Instant::now(), 0) });
        assert_eq!(view.chosen(), None);
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let (mut view, begin) = (View::new(String::new(), String::new()), Instant::now());
        view.seen(seen(begin, 1_000));
        assert_eq!(view.rate("lock_grants"), 0);
        view.seen(seen(begin + Duration::from_millis(500), 1_100));
        assert_eq!(view.rate("lock_grants"), 200);
        view.seen(seen(begin + Duration::from_secs(1), 3));
        assert_eq!(view.rate("lock_grants"), 0);
    }
}
