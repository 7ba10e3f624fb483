//! Locks with several holders: `SHARED`, `LIMIT n`, and upgrades.

mod durable;
mod far;
mod fit;
pub(crate) mod hundred;
mod info;
mod input;
mod lease;
mod payload;
mod replica;
mod slots;

use redis::Value;

use crate::support::{Client, Grant, Server, Waiter};

/// Asks for `k`, for ten minutes unless the options have another lease.
#[track_caller]
fn take(client: &mut Client, owner: &str, options: &str) -> Option<Grant> {
    client.acquire("k", &words(owner, options))
}

/// As `take`, but the lock must be granted.
#[track_caller]
fn holds(client: &mut Client, owner: &str, options: &str) -> Grant {
    let Some(grant) = take(client, owner, options) else { panic!("{owner} {options}: null") };
    grant
}

/// Starts a client that waits for `k`, with a lease of ten minutes unless the options have another one.
#[track_caller]
fn waits(server: &Server, owner: &str, options: &str) -> Waiter {
    Waiter::new(server, "k", &words(owner, options))
}

fn words(owner: &str, options: &str) -> String {
    let lease = if options.contains("PX") { "" } else { "PX 600000" };
    format!("OWNER {owner} {lease} {options}")
}

/// Makes each of these owners hold `k` with `SHARED`.
#[track_caller]
fn readers<const N: usize>(client: &mut Client, owners: [&str; N]) -> [Grant; N] {
    owners.map(|owner| holds(client, owner, "SHARED"))
}

/// Releases one hold of `k`. Returns how many are left.
#[track_caller]
fn release(client: &mut Client, owner: &str) -> i64 {
    client.ask(&format!("LOCK.RELEASE k {owner}"))
}

/// Returns a field of `LOCK.INFO k`.
#[track_caller]
fn shown(client: &mut Client, field: &str) -> String {
    let Some(value) = client.lock_info("k").expect("a held lock").remove(field) else {
        panic!("no {field}")
    };
    value
}

/// Returns a number of `INFO lock`.
#[track_caller]
fn count(client: &mut Client, field: &str) -> i64 {
    client.info("lock", field).parse().unwrap_or_else(|_| panic!("no {field}"))
}

/// Checks that the request gets null, and changes nothing.
#[track_caller]
fn gets_null(client: &mut Client, owner: &str, options: &str) {
    let before = client.snapshot();
    let holders: Vec<_> =
        client.holders("k").into_iter().map(|holder| (holder.owner, holder.limit)).collect();
    assert_eq!(
        client.ask::<Value>(&format!("LOCK.ACQUIRE k {}", words(owner, options))),
        Value::Nil,
        "{owner} {options}"
    );
    let after: Vec<_> = client.holders("k").into_iter().map(|holder| (holder.owner, holder.limit)).collect();
    assert_eq!(after, holders, "{owner} {options}");
    assert_eq!(client.snapshot(), before, "{owner} {options}");
}
