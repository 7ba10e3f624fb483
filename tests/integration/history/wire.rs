//! Turns calls into commands for the server, and its replies into records.

use std::collections::HashMap;

use redis::Value;

use super::record::{Call, Reply, Room, Shown, id};
use crate::several::{counted, grants};
use crate::support::{Grant, Outcome, convert, grant};

/// The locks that a command names.
#[derive(Clone)]
pub(super) struct Locks<'k> {
    pub(super) keys: Vec<&'k str>,
    /// Whether one command names all the locks.
    at_once: bool,
}

impl<'k> Locks<'k> {
    pub(super) fn one(key: &'k str) -> Self {
        Self { keys: vec![key], at_once: false }
    }

    pub(super) fn all(keys: impl IntoIterator<Item = &'k str>) -> Self {
        Self { keys: keys.into_iter().collect(), at_once: true }
    }

    /// Adds the locks that are not yet there.
    pub(super) fn add(&mut self, others: &Self) {
        for key in &others.keys {
            if !self.keys.contains(key) {
                self.keys.push(key);
            }
        }
        self.at_once |= self.keys.len() > 1;
    }

    /// Returns the value of `with` in a record.
    pub(super) fn with(&self) -> Vec<String> {
        if self.at_once { self.keys.iter().copied().map(String::from).collect() } else { Vec::new() }
    }
}

pub(super) fn outcome_of(value: Value) -> Outcome {
    match value {
        Value::ServerError(error) => Outcome::Refused(error.code().into()),
        value => Outcome::Reply(value),
    }
}

pub(super) fn line(locks: &Locks<'_>, call: &Call) -> String {
    let keys = locks.keys.join(" ");
    let (m, key) = if locks.at_once { ("M", counted(&keys)) } else { ("", keys) };
    match call {
        Call::Acquire { owner, lease, block, once, session, max_hold, room, slot } => {
            let block = block.map_or_else(String::new, |block| format!("BLOCK {block}"));
            let once = if *once { "ONCE" } else { "" };
            let session = if *session { "SESSION" } else { "" };
            let max_hold = max_hold.map_or_else(String::new, |age| format!("MAXHOLD {age}"));
            let room = words(*room);
            let slot = slot.map_or_else(String::new, |slot| format!("SLOT {slot}"));
            format!(
                "LOCK.{m}ACQUIRE {key} OWNER {owner} PX {lease} {block} {once} {session} {max_hold} {room} {slot}"
            )
        }
        Call::Release { owner, all } => {
            format!("LOCK.{m}RELEASE {key} {owner} {}", if *all { "ALL" } else { "" })
        }
        Call::Extend { owner, lease } => format!("LOCK.{m}EXTEND {key} {owner} PX {lease}"),
        Call::Break => format!("LOCK.BREAK {key}"),
        Call::Info => format!("LOCK.INFO {key} FULL"),
        Call::Kill(number) => format!("CLIENT KILL ID {}", id(*number)),
        Call::Close => "QUIT".into(),
    }
}

/// Returns the reply for each lock.
pub(super) fn replies(locks: &Locks<'_>, call: &Call, outcome: Outcome) -> Vec<Reply> {
    match (call, outcome) {
        (Call::Acquire { .. }, Outcome::Reply(value @ Value::Array(_))) if locks.at_once => {
            let all = grants(value).expect("grants");
            let slots = all.slots.into_iter().map(Some).chain(std::iter::repeat(None));
            let each = all.fences.into_iter().zip(all.holds).zip(slots);
            each.map(|((fence, holds), slot)| Reply::Granted { fence, holds, lease: all.lease, slot })
                .collect()
        }
        (Call::Release { .. }, Outcome::Reply(Value::Array(left))) => {
            let not_held = || Reply::Refused("NOTHELD".into());
            left.into_iter()
                .map(|left| convert::<Option<i64>>(left).map_or_else(not_held, Reply::Number))
                .collect()
        }
        (call, outcome) => vec![reply(call, outcome); locks.keys.len()],
    }
}

fn reply(call: &Call, outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Gone | Outcome::Unreachable => Reply::Gone,
        Outcome::Refused(text) => Reply::Refused(text.split(' ').next().unwrap_or_default().into()),
        Outcome::Reply(Value::Int(number)) => Reply::Number(number),
        Outcome::Reply(Value::Nil) => Reply::Null,
        Outcome::Reply(value) if *call == Call::Info => held(value),
        Outcome::Reply(value) => match grant(value) {
            Some(Grant { fence, holds, lease, slot, .. }) => Reply::Granted { fence, holds, lease, slot },
            None => Reply::Null,
        },
    }
}

fn words(room: Room) -> String {
    match room {
        Room::Plain => String::new(),
        Room::Limit(most) => format!("LIMIT {most}"),
        Room::Shared => "SHARED".into(),
    }
}

fn held(value: Value) -> Reply {
    let mut info: HashMap<String, Value> = convert(value);
    let mut all = |name| -> Vec<HashMap<String, String>> { convert(info.remove(name).unwrap()) };
    let grants = all("grants").into_iter().map(|mut grant| Shown {
        fence: grant["fence"].parse().unwrap(),
        // 0 means any number of holders.
        most: Some(grant["limit"].parse().unwrap()).filter(|most| *most > 0).unwrap_or(i64::MAX),
        slot: grant["slot"].parse().unwrap(),
        owner: grant.remove("owner").unwrap(),
    });
    let grants = grants.collect();
    let queue = all("queue").iter().map(|waiter| waiter["client-id"].parse().unwrap()).collect();
    Reply::Held { grants, queue }
}
