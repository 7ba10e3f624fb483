//! Panics in commands, alone and inside scripts and transactions, and in `INFO` and settings.

use redis::Value;

use super::{INTERNAL, arm, goes_on, server, struck};
use crate::support::{Waiter, transaction};

const COMMANDS: [&str; 6] = [
    "LOCK.ACQUIRE free OWNER bob",
    "LOCK.RELEASE held alice",
    "LOCK.EXTEND held alice PX 5",
    "LOCK.BREAK held",
    "LOCK.INFO held FULL",
    "LOCK.APPLY held",
];

fn name(line: &str) -> String {
    line.split(' ').next().unwrap().to_lowercase()
}

#[test]
fn a_command_is_refused_and_changes_nothing() {
    let (server, mut client) = server();
    client.acquire("held", "OWNER alice PX 600000").unwrap();
    for line in COMMANDS {
        let before = client.snapshot();
        arm(&mut client, &name(line));
        assert_eq!(client.refused(line), INTERNAL, "{line}");
        assert_eq!(client.snapshot(), before, "{line}");
        struck(&server, &mut client, &name(line));
        if !line.contains("APPLY") {
            client.ask::<Value>(line);
        }
        client.acquire("held", "OWNER alice PX 600000 ONCE").unwrap();
    }
    goes_on(&server);
}

#[test]
fn within_a_transaction_and_a_script_the_others_go_on() {
    let (server, mut client) = server();
    for line in COMMANDS {
        client.acquire("held", "OWNER alice PX 600000 ONCE").unwrap();
        arm(&mut client, &name(line));
        let replies = transaction(&mut client, &["SET other 1", line, "SET other 2"]);
        assert_eq!(replies[1], Err(INTERNAL.into()), "{line}");
        assert!(replies[0].is_ok() && replies[2].is_ok(), "{replies:?}");
        arm(&mut client, &name(line));
        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
        let script = format!("local reply = redis.pcall({}); return reply.err or 'none'", words.join(","));
        let said: String = client.ask_words(["EVAL", &script, "0"]);
        assert!(said.contains("internal error"), "{line}: {said}");
        struck(&server, &mut client, &name(line));
        assert_eq!(client.holder("held").unwrap().owner, "alice", "{line}");
    }
    goes_on(&server);
}

/// A timer has no client to get an error, so its work is tried again.
#[test]
fn a_hand_over_by_timer_is_made_a_moment_later() {
    let (server, mut client) = server();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut waiter = Waiter::new(&server, "k", "OWNER bob");
    arm(&mut client, "lock.settle");
    client.ask::<()>("DEL k");
    struck(&server, &mut client, "lock.settle");
    let grant = crate::support::grant(waiter.client.finish().unwrap()).unwrap();
    assert_eq!(grant.owner, "bob");
    goes_on(&server);
}

#[test]
fn a_panic_in_info_leaves_its_section_out_once() {
    let (server, mut client) = server();
    arm(&mut client, "info");
    assert_eq!(client.info("lock", "lock_waiters"), "");
    struck(&server, &mut client, "info");
    assert_eq!(client.info("lock", "lock_waiters"), "0");
    goes_on(&server);
}

#[test]
fn a_setting_is_refused_and_stays() {
    let (server, mut client) = server();
    arm(&mut client, "config-set");
    let error = client.refused("CONFIG SET lock.default-lease 5000");
    assert!(error.contains("internal error"), "{error}");
    struck(&server, &mut client, "config-set");
    assert_eq!(client.acquire("k", "").unwrap().lease, 300_000);
    client.ask::<()>("CONFIG SET lock.default-lease 5000");
    assert_eq!(client.acquire("l", "").unwrap().lease, 5000);
    goes_on(&server);
}
