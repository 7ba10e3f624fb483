//! `LOCK.ACQUIRE ... NOTIFY` and `LOCK.LEAVE`: waiting without a connection.

mod claims;
mod input;
mod keyspace;
mod rights;
mod start;

use redis::Value;

use crate::support::{Client, Mailbox, Server, heard};

/// As `heard`, and alice holds `k`.
#[track_caller]
fn held(settings: &str) -> (Server, Client, Mailbox) {
    let (server, mut client, mail) = heard(settings);
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    (server, client, mail)
}

/// Takes a place in the queue of `k`.
#[track_caller]
fn queue_up(client: &mut Client, owner: &str, options: &str) {
    assert_eq!(ask(client, owner, options), Value::SimpleString("QUEUED".into()), "{owner}");
}

/// Asks for `k` with `NOTIFY ch`, with a limit of a minute unless the options have one.
#[track_caller]
fn ask(client: &mut Client, owner: &str, options: &str) -> Value {
    let block = if options.contains("BLOCK") { "" } else { "BLOCK 60000" };
    client.ask(&format!("LOCK.ACQUIRE k OWNER {owner} ONCE {block} NOTIFY ch {options}"))
}
