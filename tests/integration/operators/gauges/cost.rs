//! What `INFO lock` costs.

use std::time::Duration;

use redis::Value;

use crate::support::{Client, Mailbox, Setup, processor_time_in};

/// Returns the processor time of one `INFO lock`. The server answers all of them at once, so it does nothing else in between.
fn looked(client: &mut Client, times: u32) -> Duration {
    let mut lines = vec!["INFO cpu"];
    lines.extend((0..times).map(|_| "INFO lock"));
    lines.push("INFO cpu");
    let replies = client.ask_all::<String, _>(&lines);
    (processor_time_in(&replies[lines.len() - 1]) - processor_time_in(&replies[0])) / times
}

/// Clients wait for fifty thousand locks, which all change hands between two calls of `INFO`: it must stay fast. (Updating all statistics
/// at once would take 220 ms in an unoptimized build.)
#[test]
fn many_locks_cost_no_more_than_a_few() {
    const MANY: usize = 50_000;
    let server = Setup::new().module_args("claim 600000 max-places 0").start();
    let (mut client, mut places) = (server.client(), server.client());
    let best = |client: &mut Client| (0..5).map(|_| looked(client, 20)).min().unwrap();
    let few = best(&mut client);
    let each = |line: &str| (0..MANY).map(|n| line.replace('#', &n.to_string())).collect::<Vec<_>>();
    client.ask_all::<Value, _>(&each("LOCK.ACQUIRE k# OWNER alice PX 600000"));
    for owner in ["bob", "carol", "dave", "eve"] {
        let lines = each(&format!("LOCK.ACQUIRE k# OWNER {owner} BLOCK 0 NOTIFY ch PX 600000"));
        places.ask_all::<Value, _>(&lines);
    }
    let many = best(&mut client);
    println!("INFO lock: {many:?} with {MANY} locks that are waited for, {few:?} without");
    assert!(many < few * 3 + Duration::from_micros(100), "{many:?}, {few:?} without");
    let _mail = Mailbox::of(&server, "ch");
    client.ask_all::<Value, _>(&each("LOCK.BREAK k#"));
    let took = looked(&mut client, 1);
    println!("INFO lock: {took:?} where all have changed hands");
    assert!(took <= Duration::from_millis(10), "{took:?}");
}
