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

/// What `LOCK.MACQUIRE` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grants {
    pub(crate) owner: String,
    pub(crate) fences: Vec<i64>,
    pub(crate) holds: Vec<i64>,
    pub(crate) lease: i64,
    /// The numbers of the permits; empty without `LIMIT`.
    pub(crate) slots: Vec<i64>,
}

/// A reply of `LOCK.MACQUIRE`.
#[track_caller]
pub(crate) fn grants(reply: Value) -> Option<Grants> {
    let mut parts = convert::<Option<Vec<Value>>>(reply)?;
    let slots = parts.get(4).cloned().map(convert).unwrap_or_default();
    parts.truncate(4);
    let (owner, fences, holds, lease) = convert(Value::Array(parts));
    Some(Grants { owner, fences, holds, lease, slots })
}

/// The names between blanks, and their number in front.
pub(crate) fn counted(keys: &str) -> String {
    format!("{} {keys}", keys.split_whitespace().count())
}

/// `LOCK.MACQUIRE` of those keys for that owner: for ten minutes where the options say nothing else.
pub(crate) fn ask(keys: &str, owner: &str, options: &str) -> String {
    let lease = if options.contains("PX") { "" } else { "PX 600000" };
    format!("LOCK.MACQUIRE {} OWNER {owner} {lease} {options}", counted(keys))
}

#[track_caller]
fn take(client: &mut Client, keys: &str, owner: &str, options: &str) -> Option<Grants> {
    grants(client.ask(&ask(keys, owner, options)))
}

/// `take` that must be granted.
#[track_caller]
fn holds(client: &mut Client, keys: &str, owner: &str, options: &str) -> Grants {
    let Some(grants) = take(client, keys, owner, options) else {
        panic!("{keys} {owner} {options}: null")
    };
    grants
}

/// Takes one lock alone, which must be granted.
#[track_caller]
fn holds_one(client: &mut Client, key: &str, owner: &str) -> i64 {
    client.acquire(key, &format!("OWNER {owner} PX 600000")).expect("a grant").fence
}

/// A client that waits for those locks: without limit, where the options have no `BLOCK`.
#[track_caller]
pub(crate) fn waits(server: &Server, keys: &str, owner: &str, options: &str) -> Waiter {
    waits_on(server, server.client(), keys, owner, options)
}

/// `waits` on a connection that is there already.
#[track_caller]
fn waits_on(server: &Server, client: Client, keys: &str, owner: &str, options: &str) -> Waiter {
    let block = if options.contains("BLOCK") { "" } else { "BLOCK 0" };
    let line = ask(keys, owner, &format!("{options} {block}"));
    Waiter::of_words(server, client, line.split_whitespace())
}

/// One that waits for one lock alone.
#[track_caller]
fn waits_for_one(server: &Server, key: &str, owner: &str) -> Waiter {
    Waiter::new(server, key, &format!("OWNER {owner} PX 600000"))
}

/// What one that waited is granted, which must come soon.
#[track_caller]
pub(crate) fn granted(waiter: &mut Waiter) -> Grants {
    match waiter.reply() {
        Ok(reply) => grants(reply).expect("grants, not null"),
        Err(error) => panic!("not granted: {error}"),
    }
}

/// Gives back one hold of each; how many are left of each.
#[track_caller]
fn release(client: &mut Client, keys: &str, owner: &str) -> Vec<Option<i64>> {
    client.ask(&format!("LOCK.MRELEASE {} {owner}", counted(keys)))
}

/// Gives back the only hold of one lock.
#[track_caller]
fn free(client: &mut Client, key: &str, owner: &str) {
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE {key} {owner}")), 0, "{key}");
}

/// Who holds each of them; a dash where it is free.
#[track_caller]
fn holders<const N: usize>(client: &mut Client, keys: [&str; N]) -> [String; N] {
    keys.map(|key| client.holder(key).map_or_else(|| "-".into(), |grant| grant.owner))
}

/// A number of `INFO lock`.
#[track_caller]
fn count(client: &mut Client, field: &str) -> i64 {
    client.info("lock", field).parse().unwrap_or_else(|_| panic!("no {field}"))
}

/// That line gets null, and changes nothing.
#[track_caller]
fn gets_null(client: &mut Client, line: &str) {
    let before = client.snapshot();
    assert_eq!(client.ask::<Value>(line), Value::Nil, "{line}");
    assert_eq!(client.snapshot(), before, "{line}");
}

/// That line is refused with that error, and changes nothing.
#[track_caller]
fn is_refused(client: &mut Client, line: &str, error: &str) {
    let before = client.snapshot();
    assert_eq!(client.refused(line), error, "{line}");
    assert_eq!(client.snapshot(), before, "{line}");
}
