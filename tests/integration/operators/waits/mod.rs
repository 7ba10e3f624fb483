//! `LOCK.WAITS`: who waits for whom.

mod holders;
mod many;
mod pages;
mod rights;
mod top;

use std::collections::HashMap;

use redis::Value;

use crate::support::{Client, convert};

/// A waiter, as `LOCK.WAITS` shows it.
#[derive(Clone, Debug)]
struct Shown(HashMap<String, Value>);

impl Shown {
    #[track_caller]
    fn text(&self, field: &str) -> String {
        convert(self.0.get(field).unwrap_or_else(|| panic!("no {field} in {self:?}")).clone())
    }

    #[track_caller]
    fn number(&self, field: &str) -> i64 {
        convert(self.0.get(field).unwrap_or_else(|| panic!("no {field} in {self:?}")).clone())
    }

    fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Returns all keys for which the waiter waits, if there are several.
    #[track_caller]
    fn keys(&self) -> Vec<String> {
        convert(self.0["keys"].clone())
    }

    #[track_caller]
    fn holders(&self) -> Vec<Self> {
        let each: Vec<HashMap<String, Value>> = convert(self.0["holders"].clone());
        each.into_iter().map(Self).collect()
    }

    /// Returns the holders of the lock that are shown.
    #[track_caller]
    fn holding(&self) -> Vec<String> {
        self.holders().iter().map(|holder| holder.text("owner")).collect()
    }
}

/// Returns a page: the cursor of the next page, and the waiters.
#[track_caller]
fn page(client: &mut Client, words: &str) -> (String, Vec<Shown>) {
    let (cursor, each): (String, Vec<HashMap<String, Value>>) = client.ask(&format!("LOCK.WAITS {words}"));
    (cursor, each.into_iter().map(Shown).collect())
}

/// Returns all waiters, which must fit on one page.
#[track_caller]
fn waits(client: &mut Client, words: &str) -> Vec<Shown> {
    let (cursor, all) = page(client, words);
    assert_eq!(cursor, "0", "{words}: a page that is not the last");
    all
}

/// Returns the only waiter.
#[track_caller]
fn only(client: &mut Client, words: &str) -> Shown {
    let all = waits(client, words);
    let [one] = &all[..] else { panic!("{words}: {all:?}") };
    one.clone()
}

/// Takes a place in the queue of this lock.
#[track_caller]
pub(super) fn queue_up(client: &mut Client, key: &str, owner: &str, options: &str) {
    let line = format!("LOCK.ACQUIRE {key} OWNER {owner} PX 600000 BLOCK 600000 NOTIFY ch {options}");
    assert_eq!(client.ask::<String>(&line), "QUEUED", "{line}");
}

fn owners(shown: &[Shown]) -> Vec<String> {
    shown.iter().map(|shown| shown.text("owner")).collect()
}
