//! `LOCK.INFO` of a lock with several holders.

use std::collections::HashMap;

use redis::Value;

use super::{count, holds, readers, release, waits};
use crate::support::{Client, Server, convert};

#[track_caller]
fn parts(reply: &Value, name: &str) -> Vec<Value> {
    let mut map: HashMap<String, Value> = convert(reply.clone());
    let Some(Value::Array(parts)) = map.remove(name) else { panic!("no array {name} in {reply:?}") };
    parts
}

#[test]
fn the_queue_says_what_each_asks_for() {
    let (server, mut client) = Server::and_client();
    readers(&mut client, ["a", "b"]);
    let _waiters = [("w", ""), ("l", "LIMIT 4"), ("r", "SHARED"), ("a", "")]
        .map(|(owner, options)| waits(&server, owner, options));
    let full: Value = client.ask("LOCK.INFO k FULL");
    let queue: Vec<_> = parts(&full, "queue")
        .into_iter()
        .map(|one| {
            let mut one: HashMap<String, String> = convert(one);
            ["owner", "mode", "limit"].map(|name| one.remove(name).unwrap())
        })
        .collect();
    let expected =
        [["a", "exclusive", "1"], ["w", "exclusive", "1"], ["l", "shared", "4"], ["r", "shared", "0"]];
    assert_eq!(queue, expected.map(|one| one.map(String::from)));
}

#[test]
fn what_is_said_of_the_oldest_is_what_is_said_of_it_in_full() {
    let (server, mut client) = Server::and_client();
    let mut session = server.client();
    holds(&mut session, "a", "SHARED SESSION");
    holds(&mut client, "a", "SHARED");
    readers(&mut client, ["b"]);
    let replies = crate::support::transaction(&mut client, &["LOCK.INFO k", "LOCK.INFO k FULL"]);
    let [short, full] = [0, 1].map(|place| replies[place].clone().unwrap());
    let short: HashMap<String, String> = convert(short);
    let oldest: HashMap<String, String> = convert(parts(&full, "grants").remove(0));
    // Times change even between two commands of a transaction.
    for (name, value) in oldest.iter().filter(|(name, _)| !name.ends_with("-ms")) {
        assert_eq!(short[name], *value, "{name}");
    }
    assert_eq!((&oldest["holds"][..], &oldest["session"][..]), ("2", "1"));
}

#[test]
fn the_counters_count_each_shared_grant() {
    let (server, mut client) = Server::and_client();
    let expect = |client: &mut Client, grants, shared, upgrades| {
        let counts = ["lock_grants", "lock_grants_shared", "lock_upgrades"].map(|name| count(client, name));
        assert_eq!(counts, [grants, shared, upgrades]);
    };
    holds(&mut client, "w", "");
    release(&mut client, "w");
    expect(&mut client, 1, 0, 0);
    readers(&mut client, ["a", "b", "a"]);
    holds(&mut client, "c", "LIMIT 4");
    expect(&mut client, 4, 3, 0);
    holds(&mut client, "c", "LIMIT 3");
    expect(&mut client, 4, 3, 1);
    assert_eq!(count(&mut client, "lock_keys"), 1, "one lock, however many hold it");
    let mut writer = waits(&server, "w", "");
    client.ask::<()>("LOCK.BREAK k");
    writer.granted();
    expect(&mut client, 5, 3, 1);
    assert_eq!(count(&mut client, "lock_breaks"), 3);
    assert_eq!(count(&mut client, "lock_deadlocks"), 0);
}
