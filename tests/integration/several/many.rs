//! Many locks at once, many waits, and nothing that stays of them.

use redis::Value;

use super::{ask, count, granted, grants, holds, release, take, waits, waits_for_one};
use crate::support::{Client, Mailbox, Server, Setup, blocked_clients, wait_for};

fn names(count: usize) -> String {
    (0..count).map(|n| format!("k{n}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_thousand_locks() {
    let (server, mut client) = Server::and_client();
    let keys = names(1000);
    let reversed = keys.split(' ').rev().collect::<Vec<_>>().join(" ");
    let all = holds(&mut client, &keys, "alice", "");
    assert_eq!((&all.fences, &all.holds), (&vec![all.fences[0]; 1000], &vec![1; 1000]));
    assert_eq!(count(&mut client, "lock_keys"), 1000);
    assert_eq!(client.ask::<i64>(&format!("LOCK.MEXTEND 1000 {keys} alice PX 700000")), 700_000);
    let mut waiter = waits(&server, &reversed, "bob", "");
    let mut ones = ["k0", "k500", "k999"].map(|key| waits_for_one(&server, key, "carol"));
    assert_eq!(release(&mut client, &keys, "alice"), vec![Some(0); 1000]);
    let bobs = granted(&mut waiter);
    assert_eq!((&bobs.fences, &bobs.holds), (&vec![bobs.fences[0]; 1000], &vec![1; 1000]));
    assert_eq!(count(&mut client, "lock_handovers"), 1000);
    assert_eq!(take(&mut client, &keys, "late", ""), None);
    client.ask::<()>(&format!("CLIENT KILL ID {}", waiter.id));
    assert_eq!(release(&mut client, &reversed, "bob"), vec![Some(0); 1000]);
    for waiter in &mut ones {
        waiter.granted();
    }
}

/// They get free one by one, in any order, with many who wait for many.
#[test]
fn a_thousand_locks_that_are_freed_one_by_one() {
    let (server, mut client) = Server::and_client();
    let keys = names(1000);
    holds(&mut client, &keys, "alice", "");
    let mut waiters: Vec<_> = (0..10).map(|n| waits(&server, &keys, &format!("o{n}"), "")).collect();
    let lines: Vec<_> = (0..1000).map(|n| format!("LOCK.RELEASE k{} alice", n * 7 % 1000)).collect();
    client.ask_all::<i64, _>(&lines);
    for (n, waiter) in waiters.iter_mut().enumerate() {
        let reply = grants(waiter.client.finish().unwrap()).unwrap();
        assert_eq!((&reply.owner, &reply.holds[..]), (&format!("o{n}"), &[1; 1000][..]));
        release(&mut client, &keys, &reply.owner);
    }
    assert_eq!((client.ask::<i64>("DBSIZE"), count(&mut client, "lock_waiters")), (0, 0));
}

/// The memory in use, once nothing is left and only this client is connected.
#[track_caller]
fn memory(client: &mut Client) -> i64 {
    wait_for("the others to be gone", || client.info("clients", "connected_clients") == "1");
    assert_eq!(blocked_clients(client), 0);
    for field in ["lock_waiters", "lock_places", "lock_sessions", "lock_keys"] {
        wait_for(field, || count(client, field) == 0);
    }
    client.ask::<()>("MEMORY PURGE");
    client.info("memory", "used_memory").parse().unwrap()
}

/// What the server itself may keep for the sake of speed, in bytes.
const SLACK: i64 = 96 * 1024;

/// Does it some times, and then many: the memory in use has not grown.
#[track_caller]
fn nothing_stays(rounds: usize, work: impl Fn(&Server, usize)) {
    let (server, mut client) = Setup::new().module_args("claim 600000").start_and_client();
    work(&server, rounds / 5);
    let mut before = i64::MAX;
    for _ in 0..20 {
        before = before.min(memory(&mut client));
    }
    work(&server, rounds);
    let mut after = memory(&mut client);
    wait_for(&format!("memory as before: {before}, after the work {after}"), || {
        after = memory(&mut client);
        after - before <= SLACK
    });
}

#[test]
fn nothing_stays_of_waits_and_grants() {
    const CROWD: usize = 20;
    nothing_stays(10_000, |server, rounds| {
        let mut client = server.client();
        let mut crowd: Vec<_> = (0..CROWD).map(|_| server.client()).collect();
        for _ in 0..rounds / CROWD {
            holds(&mut client, "a b c", "alice", "");
            for (n, waiter) in crowd.iter_mut().enumerate() {
                waiter.begin(&ask(&format!("b k{} a", n % 7), "bob", "BLOCK 0"));
            }
            // All are bob's: each re-enters.
            wait_for("all to wait", || count(&mut client, "lock_waiters") == CROWD as i64);
            release(&mut client, "c a b", "alice");
            for waiter in &mut crowd {
                grants(waiter.finish().unwrap()).unwrap();
            }
            let left: Vec<Option<i64>> = client.ask("LOCK.MRELEASE 9 a b k0 k1 k2 k3 k4 k5 k6 bob ALL");
            assert_eq!(left, [Some(0); 9]);
        }
    });
}

#[test]
fn nothing_stays_of_timeouts_kills_and_places() {
    nothing_stays(5_000, |server, rounds| {
        let (mut client, mut mail) = (server.client(), Mailbox::of(server, "ch"));
        for round in 0..rounds / 50 {
            holds(&mut client, "a b", "alice", "");
            let mut crowd: Vec<_> = (0..20).map(|_| server.client()).collect();
            for (n, waiter) in crowd.iter_mut().enumerate() {
                waiter.begin(&ask(
                    &format!("a f{n} b"),
                    &format!("o{n}"),
                    if n % 2 == 0 { "BLOCK 1" } else { "BLOCK 0 SESSION" },
                ));
            }
            for waiter in crowd.iter_mut().step_by(2) {
                assert_eq!(waiter.finish(), Ok(Value::Nil));
            }
            drop(crowd);
            let mut asker = server.client();
            for n in 0..30 {
                asker.ask::<Value>(&ask(
                    &format!("b g{n} a"),
                    &format!("p{}", n % 5),
                    "ONCE BLOCK 0 NOTIFY ch",
                ));
            }
            for n in 0..10 {
                asker.ask::<Value>(&format!("LOCK.LEAVE g{n} p{}", n % 5));
            }
            release(&mut client, "a b", "alice");
            wait_for("a grant to a place", || client.ask::<i64>("EXISTS a b") == 2);
            if round % 2 == 0 {
                let owner = client.holder("a").unwrap().owner;
                client.ask::<Value>(&format!("LOCK.MRELEASE 2 a b {owner} ALL"));
            }
            drop(asker);
            wait_for("no places", || count(&mut client, "lock_places") == 0);
            mail.rest(&mut client);
            client.ask::<()>("FLUSHALL");
            // One whose connection has closed may be granted the locks before the server notices that.
            for field in ["lock_waiters", "lock_sessions", "lock_keys"] {
                wait_for(field, || count(&mut client, field) == 0);
            }
        }
    });
}

/// How long a wait for several takes goes into the same buckets, once.
#[test]
fn the_counters_are_plausible() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let mut waiter = waits(&server, "a b c", "bob", "");
    assert_eq!(take(&mut client, "c d", "late", ""), None);
    release(&mut client, "a b", "alice");
    granted(&mut waiter);
    holds(&mut client, "a", "bob", "");
    let expected = [
        ("lock_grants", 5),
        ("lock_grants_shared", 0),
        ("lock_reentries", 1),
        ("lock_refusals", 1),
        ("lock_handovers", 3),
        ("lock_releases", 2),
        ("lock_keys", 3),
        ("lock_waiters", 0),
        ("lock_waits_all", 1),
        ("lock_timeouts", 0),
    ];
    for (field, value) in expected {
        assert_eq!(count(&mut client, field), value, "{field}");
    }
}
