//! What must be true when nothing is left to do: each holder has been told, and nobody waits for a free lock.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::table::{Case, Way};
use crate::support::convert;

/// What a client was told. Owners and keys lack the case's number.
#[derive(Debug)]
pub(super) enum Told {
    /// The owner has a lock, with this fence and this number of holds; 0: the reply has no number.
    Got(String, String, i64, i64),
    /// The owner holds the lock, with an unknown fence.
    Extended(String, String),
    /// The owner has this many holds of the lock left.
    Left(String, String, i64),
    /// An unconfirmed hold of alice has ended with its connection.
    Dropped,
    /// The owner has lost the grant with this fence.
    Lost(String, i64),
    /// Any other end of the owner's wait.
    Other(String),
}

#[derive(Debug)]
pub(super) struct Holding {
    pub(super) db: i64,
    pub(super) key: String,
    pub(super) owner: String,
    pub(super) fence: i64,
    pub(super) holds: i64,
    pub(super) client: i64,
    pub(super) room: i64,
}

#[derive(Debug)]
pub(super) struct Wait {
    pub(super) owner: String,
    pub(super) holders: i64,
    pub(super) reserved_for: String,
    pub(super) room: i64,
}

/// A client of the case, as the server shows it.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) id: i64,
    pub(super) gone: bool,
    pub(super) answer: Option<Result<Value, String>>,
}

/// Everything that the test observes.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) holdings: Vec<Holding>,
    pub(super) waits: Vec<Wait>,
    pub(super) people: Vec<Shown>,
    /// The replies to each command of the pair.
    pub(super) pair: [Vec<Told>; 2],
    /// The replies before the pair, and after it.
    pub(super) before: Vec<Told>,
    pub(super) after: Vec<Told>,
}

/// Returns what the reply to `line` says about holds.
pub(super) fn said(line: &str, reply: &Result<Value, String>) -> Vec<Told> {
    let words: Vec<&str> = line.split(' ').collect();
    let word = |at: usize| words[at].to_owned();
    let after_owner = || word(1 + words.iter().position(|word| *word == "OWNER").unwrap());
    let Ok(reply) = reply else { return Vec::new() };
    let all = |value: &Value| match value {
        Value::Array(_) => convert::<Vec<Option<i64>>>(value.clone()),
        one => vec![convert(one.clone())],
    };
    // A command for several keys has their number first.
    let keys = &words[1 + usize::from(line.starts_with("LOCK.M"))..];
    match (words[0], reply) {
        ("LOCK.ACQUIRE" | "LOCK.MACQUIRE", Value::Array(parts)) if parts[3] != Value::Int(0) => {
            let each =
                all(&parts[1]).into_iter().flatten().zip(all(&parts[2]).into_iter().flatten()).zip(keys);
            each.map(|((fence, holds), key)| Told::Got(after_owner(), (*key).into(), fence, holds)).collect()
        }
        ("LOCK.RELEASE", Value::Int(holds)) => vec![Told::Left(word(2), word(1), *holds)],
        ("LOCK.MRELEASE", each) => {
            let each = all(each).into_iter().zip(keys);
            each.filter_map(|(holds, key)| Some(Told::Left(word(4), (*key).into(), holds?))).collect()
        }
        ("LOCK.EXTEND", Value::Int(1..)) => vec![Told::Extended(word(2), word(1))],
        ("LOCK.LEAVE", Value::Int(1)) => vec![Told::Other(word(2))],
        ("CLIENT", Value::Int(1)) if line == "CLIENT KILL ID {h}" => vec![Told::Dropped],
        _ => Vec::new(),
    }
}

/// Returns the first fault. Commands on two connections may run in either order, so one order without faults is enough.
pub(super) fn fault(case: &Case, view: &View) -> Option<String> {
    let found = fault_in_order(case, view, [0, 1])?;
    if case.way == Way::Connections { fault_in_order(case, view, [1, 0]) } else { Some(found) }
}

fn fault_in_order(case: &Case, view: &View, order: [usize; 2]) -> Option<String> {
    let mut told = BTreeMap::<(&str, &str, i64), i64>::new();
    let mut extended = BTreeSet::new();
    let mut ever = BTreeSet::new();
    let mut losses: BTreeMap<(&str, i64), usize> = BTreeMap::new();
    let mut heard_of = BTreeSet::new();
    let pair = order.iter().flat_map(|half| &view.pair[*half]);
    for one in view.before.iter().chain(pair).chain(&view.after) {
        let mut leave = |owner: &str, key: &str, left: &dyn Fn(i64) -> i64| {
            told.iter_mut()
                .filter(|(of, _)| (of.0, of.1) == (owner, key))
                .for_each(|(_, has)| *has = left(*has));
            told.retain(|of, has| (of.0, of.1) != (owner, key) || *has > 0);
        };
        match one {
            Told::Left(owner, key, holds) => leave(owner, key, &|_| *holds),
            Told::Dropped if case.is_unconfirmed() => leave("alice", "k", &|has| has - 1),
            Told::Got(owner, key, fence, holds) => {
                let most = told.entry((owner, key, *fence)).or_default();
                *most = (*most).max(*holds);
                ever.insert((&owner[..], *fence));
            }
            Told::Extended(owner, key) => _ = extended.insert((&owner[..], &key[..])),
            Told::Lost(owner, fence) => *losses.entry((owner, *fence)).or_default() += 1,
            Told::Other(_) | Told::Dropped => {}
        }
        match one {
            Told::Dropped => {}
            Told::Got(owner, ..) | Told::Extended(owner, _) | Told::Left(owner, ..) => {
                _ = heard_of.insert(&owner[..])
            }
            Told::Lost(owner, _) | Told::Other(owner) => _ = heard_of.insert(&owner[..]),
        }
    }
    let moved = case.moves_grants();
    for held in &view.holdings {
        let Holding { db, key, owner, fence, holds, client, .. } = held;
        let right = match told.get(&(owner, key, *fence)) {
            // A holder is not told that its lock was moved. Grants of which a waiter has not been told are not moved.
            _ if moved && (*db, &key[..]) != (0, "k") && !owner.starts_with('w') => true,
            None if extended.contains(&(&owner[..], &key[..])) => true,
            _ if moved => ever.contains(&(&owner[..], *fence)),
            Some(said) => *said == 0 || said == holds,
            None => false,
        };
        if !right {
            return Some(format!("was not told so: {held:?}"));
        }
        // A claim on another connection also counts, and so does `START`, whose message begins the work.
        let is_claimed = ["LOCK.EXTEND k w0", "LOCK.ACQUIRE k OWNER w0"].iter().any(|start| case.has(start));
        let ends_unclaimed = case.waits_by_message() && !case.starts() && !is_claimed;
        let gone = |who: &&Shown| who.gone && (who.id == *client || ends_unclaimed && who.name == owner);
        if let Some(who) = view.people.iter().find(gone) {
            return Some(format!("{} is gone, and holds: {held:?}", who.name));
        }
    }
    let is_gone = |name: &str| view.people.iter().any(|who| who.name == name && who.gone);
    let mut missing: BTreeMap<(&str, i64), usize> = BTreeMap::new();
    for (owner, key, fence) in told.keys() {
        // A waiter is told of the lock where it is in the end.
        let may_move = moved && !owner.starts_with('w');
        let held = view.holdings.iter().any(|held| {
            (&held.owner[..], held.fence) == (owner, *fence)
                && (may_move || (held.db, &held.key[..]) == (0, key))
        });
        if !held && !is_gone(owner) {
            *missing.entry((owner, *fence)).or_default() += 1;
        }
    }
    for (who, count) in &missing {
        if losses.get(who).is_none_or(|losses| losses < count) {
            return Some(format!("believes that it holds {count} locks more than it does: {who:?}"));
        }
    }
    for (who, count) in &losses {
        if !ever.contains(who) {
            return Some(format!("heard of the loss of what it was not told of: {who:?}"));
        }
        if !moved && missing.get(who).is_none_or(|missing| missing < count) && !is_gone(who.0) {
            return Some(format!("heard {count} times of a loss, and has lost less: {who:?}"));
        }
    }
    // Waiters are shown in the order of the queue.
    for (place, wait) in view.waits.iter().enumerate() {
        let rooms = view.holdings.iter().filter(|held| held.key == "k").map(|held| held.room);
        let rooms = rooms.chain([wait.room]).map(|room| if room == 0 { i64::MAX } else { room });
        let fits = place == 0 && !case.several() && rooms.min().is_some_and(|room| wait.holders < room);
        if fits || wait.holders == 0 && (wait.reserved_for.is_empty() || wait.reserved_for == wait.owner) {
            return Some(format!("waits for what is free: {wait:?}"));
        }
    }
    for who in view.people.iter().filter(|who| who.name != "h" && !who.gone) {
        let waits = view.waits.iter().any(|wait| wait.owner == who.name);
        let heard = if case.waits_by_message() { heard_of.contains(who.name) } else { who.answer.is_some() };
        if !waits && !heard {
            return Some(format!("waits for nothing, and was told nothing: {who:?}"));
        }
        if waits && who.answer.is_some() && !case.waits_by_message() {
            return Some(format!("was answered, and waits: {who:?}"));
        }
    }
    None
}
