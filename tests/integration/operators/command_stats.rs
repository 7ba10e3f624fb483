//! The server's statistics of commands: a wait is no execution time, and no slow command.

use std::collections::HashMap;

use redis::Value;

use crate::support::{Client, Setup, Waiter, convert, server_time, wait_for, wait_until, wait_until_gone};

/// The shortest time for which each client waits, in ms.
const WAIT: i64 = 1500;

/// Longer than any execution takes, and shorter than the wait; in ms.
const LONG: i64 = 1000;

fn setup() -> Setup {
    Setup::new()
        .set("slowlog-log-slower-than", "0")
        .set("slowlog-max-len", "10000")
        .set("latency-monitor-threshold", "1")
}

/// Lets the clients wait, some until their timeout.
#[track_caller]
fn let_wait(client: &mut Client) {
    let until = server_time(client) + WAIT;
    wait_until(client, until);
}

/// Returns the number after `name=` in the statistics of a command.
#[track_caller]
fn stat(client: &mut Client, command: &str, name: &str) -> i64 {
    let line = client.info("commandstats", &format!("cmdstat_{command}"));
    let value = line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in {line:?}")).parse().unwrap()
}

/// Panics if the server has measured a long execution of a command on locks.
#[track_caller]
fn check_nothing_was_slow(client: &mut Client) {
    let slow: Vec<Vec<Value>> = client.ask("SLOWLOG GET -1");
    let mut acquires = 0;
    for entry in slow {
        let (micros, words): (i64, Vec<String>) = (convert(entry[2].clone()), convert(entry[3].clone()));
        assert!(micros < LONG * 1000, "in the slow log: {micros} us of {words:?}");
        // Redis 7.0 does not log the words of a client that `CLIENT UNBLOCK` has sent away.
        acquires += i32::from(words.first().is_some_and(|word| word == "LOCK.ACQUIRE"));
    }
    assert!(acquires > 0, "nothing was logged");
    for command in ["lock.acquire", "lock.release"] {
        let micros = stat(client, command, "usec");
        assert!(micros < LONG * 1000, "in the statistics: {micros} us of {command}");
        let histogram: HashMap<String, HashMap<String, Value>> =
            client.ask(&format!("LATENCY HISTOGRAM {command}"));
        let buckets: HashMap<i64, i64> = convert(histogram[command]["histogram_usec"].clone());
        assert!(!buckets.is_empty());
        // A bucket is named after its upper bound, which is up to twice its lower bound.
        assert!(buckets.keys().all(|&micros| micros < LONG * 1000 * 2), "{command}: {buckets:?}");
    }
    let events: Vec<(String, i64, i64, i64)> =
        client.ask::<Vec<Vec<Value>>>("LATENCY LATEST").into_iter().map(latency_event).collect();
    for (event, _, _, most) in events {
        assert!(most < LONG, "latency event {event}: {most} ms");
    }
}

fn latency_event(parts: Vec<Value>) -> (String, i64, i64, i64) {
    let mut parts = parts.into_iter();
    let mut next = || parts.next().unwrap();
    (convert(next()), convert(next()), convert(next()), convert(next()))
}

/// Tests waits that a release or a lapse ends (the latter by a timer), and waits that time out.
#[test]
fn a_wait_is_not_slow_however_it_ends() {
    let (server, mut client) = setup().start_and_client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    client.acquire("lapses", &format!("OWNER alice PX {WAIT}")).unwrap();
    let mut by_timer = server.client();
    by_timer.begin("LOCK.ACQUIRE lapses OWNER bob BLOCK 600000");
    let mut timed_out = server.client();
    timed_out.begin(&format!("LOCK.ACQUIRE k OWNER bob BLOCK {WAIT}"));
    let mut waiters =
        [1, 2, 3].map(|n| Waiter::new(&server, "k", &format!("OWNER a{n} PX 600000 BLOCK 600000")));
    let mut sent_away = Waiter::new(&server, "k", "OWNER carol");
    let killed = Waiter::new(&server, "k", "OWNER dave");
    let closed = Waiter::new(&server, "k", "OWNER erin");
    let_wait(&mut client);
    assert_ne!(by_timer.finish(), Ok(Value::Nil));
    assert_eq!(timed_out.finish(), Ok(Value::Nil));
    client.ask::<()>(&format!("CLIENT UNBLOCK {} ERROR", sent_away.id));
    sent_away.refused();
    client.ask::<()>(&format!("CLIENT KILL ID {}", killed.id));
    wait_until_gone(&mut client, killed.id);
    let id = closed.id;
    drop(closed);
    wait_until_gone(&mut client, id);
    wait_for("three to wait", || client.lock_info("k").unwrap()["waiters"] == "3");
    client.ask::<()>("LOCK.RELEASE k alice");
    for (n, waiter) in waiters.iter_mut().enumerate() {
        waiter.granted();
        client.ask::<()>(&format!("LOCK.RELEASE k a{}", n + 1));
    }
    assert!(matches!(stat(&mut client, "lock.acquire", "calls"), 8 | 10)); // Redis 8.6.3 does not count clients whose connections ended
    check_nothing_was_slow(&mut client);
}
