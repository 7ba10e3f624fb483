//! Several locks at once: `LOCK.MACQUIRE`, `LOCK.MRELEASE`, `LOCK.MEXTEND`.

mod at_once;
mod grace;
mod info;
mod input;
mod keyspace;
mod notify;
mod replica;
mod shared;
mod soak_killed;
mod wait;

use redis::Value;

use crate::support::{Client, Server, Waiter, convert};

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// A reply of `LOCK.MACQUIRE` with grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grants {
    pub(crate) owner: String,
    pub(crate) fences: Vec<i64>,
    pub(crate) holds: Vec<i64>,
    pub(crate) lease: i64,
    /// The slots; empty without `LIMIT`.
    pub(crate) slots: Vec<i64>,
}

/// Reads a reply of `LOCK.MACQUIRE`.
#[track_caller]
pub(crate) fn grants(reply: Value) -> Option<Grants> {
    let mut parts = convert::<Option<Vec<Value>>>(reply)?;
    let slots = parts.get(4).cloned().map(convert).unwrap_or_default();
    parts.truncate(4);
    let (owner, fences, holds, lease) = convert(Value::Array(parts));
    Some(Grants { owner, fences, holds, lease, slots })
}

/// Returns the number of the keys, and the keys.
pub(crate) fn counted(keys: &str) -> String {
    format!("{} {keys}", keys.split_whitespace().count())
}

/// Returns a `LOCK.MACQUIRE` of these keys for this owner, for ten minutes unless the options have another lease.
pub(crate) fn ask(keys: &str, owner: &str, options: &str) -> String {
    let lease = if options.contains("PX") { "" } else { "PX 600000" };
    format!("LOCK.MACQUIRE {} OWNER {owner} {lease} {options}", counted(keys))
}

#[track_caller]
fn take(client: &mut Client, keys: &str, owner: &str, options: &str) -> Option<Grants> {
    grants(client.ask(&ask(keys, owner, options)))
}

/// As `take`, but the locks must be granted.
#[track_caller]
fn holds(client: &mut Client, keys: &str, owner: &str, options: &str) -> Grants {
    let Some(grants) = take(client, keys, owner, options) else {
        panic!("{keys} {owner} {options}: null")
    };
    grants
}

/// Acquires a single lock, which must be granted.
#[track_caller]
fn holds_one(client: &mut Client, key: &str, owner: &str) -> i64 {
    client.acquire(key, &format!("OWNER {owner} PX 600000")).expect("a grant").fence
}

/// Starts a client that waits for these locks, without limit unless the options have `BLOCK`.
#[track_caller]
pub(crate) fn waits(server: &Server, keys: &str, owner: &str, options: &str) -> Waiter {
    waits_on(server, server.client(), keys, owner, options)
}

/// As `waits`, on an existing connection.
#[track_caller]
fn waits_on(server: &Server, client: Client, keys: &str, owner: &str, options: &str) -> Waiter {
    let block = if options.contains("BLOCK") { "" } else { "BLOCK 0" };
    let line = ask(keys, owner, &format!("{options} {block}"));
    Waiter::of_words(server, client, line.split_whitespace())
}

/// Starts a client that waits for a single lock.
#[track_caller]
fn waits_for_one(server: &Server, key: &str, owner: &str) -> Waiter {
    Waiter::new(server, key, &format!("OWNER {owner} PX 600000"))
}

/// Returns what a waiter is granted, which must happen soon.
#[track_caller]
pub(crate) fn granted(waiter: &mut Waiter) -> Grants {
    match waiter.reply() {
        Ok(reply) => grants(reply).expect("grants, not null"),
        Err(error) => panic!("not granted: {error}"),
    }
}

/// Releases one hold of each lock. Returns how many holds are left of each.
#[track_caller]
fn release(client: &mut Client, keys: &str, owner: &str) -> Vec<Option<i64>> {
    client.ask(&format!("LOCK.MRELEASE {} {owner}", counted(keys)))
}

/// Releases the only hold of one lock.
#[track_caller]
fn free(client: &mut Client, key: &str, owner: &str) {
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE {key} {owner}")), 0, "{key}");
}

/// Returns the owner of each lock, or a dash if it is free.
#[track_caller]
fn holders<const N: usize>(client: &mut Client, keys: [&str; N]) -> [String; N] {
    keys.map(|key| client.holder(key).map_or_else(|| "-".into(), |grant| grant.owner))
}

/// Returns a number of `INFO lock`.
#[track_caller]
fn count(client: &mut Client, field: &str) -> i64 {
    client.info("lock", field).parse().unwrap_or_else(|_| panic!("no {field}"))
}

/// Checks that the command gets null, and changes nothing.
#[track_caller]
fn gets_null(client: &mut Client, line: &str) {
    let before = client.snapshot();
    assert_eq!(client.ask::<Value>(line), Value::Nil, "{line}");
    assert_eq!(client.snapshot(), before, "{line}");
}

/// Checks that the command is refused with this error, and changes nothing.
#[track_caller]
fn is_refused(client: &mut Client, line: &str, error: &str) {
    let before = client.snapshot();
    assert_eq!(client.refused(line), error, "{line}");
    assert_eq!(client.snapshot(), before, "{line}");
}
