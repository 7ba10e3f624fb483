//! However much falls due at once, the server serves other clients in between.

use std::time::Instant;

use redis::Value;

use crate::support::{
    Client, Mailbox, Server, Setup, Waiter, WallClock, grant, lease_end_after, server_time, wait_for,
    wait_until,
};

const MANY: usize = 30_000;
/// The number of locks whose leases can all be shortened well before the first of them ends.
const FEWER: usize = 5_000;

/// Returns how many ms an operation on all locks may need, from the time that a similar one took since `since`.
fn room(since: Instant) -> i64 {
    3000.max(3 * since.elapsed().as_millis() as i64)
}

fn acquires(options: impl Fn(usize) -> String) -> Vec<String> {
    (0..MANY).map(|lock| format!("LOCK.ACQUIRE lock:{lock} {}", options(lock))).collect()
}

/// Returns a server that gives clients much time to claim their grants.
fn patient() -> Server {
    Setup::new().set("lock.claim", "60000").start()
}

/// Acquires locks, and takes a place for each of them on one connection.
fn waited_for(server: &Server) -> (Client, Client) {
    let (mut holder, mut waiter) = (server.client(), server.client());
    holder.ask_all::<Value, _>(&acquires(|_| "OWNER alice EX 600".into()));
    waiter.ask_all::<Value, _>(&acquires(|_| "OWNER bob EX 600 BLOCK 0 NOTIFY told ONCE".into()));
    (holder, waiter)
}

/// The server stands still for longer than any lease here.
#[test]
fn a_late_turn_hands_all_over() {
    let server = patient();
    let (mut holder, mut waiter) = (server.client(), server.client());
    let _told = Mailbox::of(&server, "told");
    let lines = |options: &str| -> Vec<String> {
        (0..FEWER).map(|lock| format!("LOCK.ACQUIRE lapses:{lock} {options}")).collect()
    };
    holder.ask_all::<Value, _>(&lines("OWNER alice EX 600"));
    waiter.ask_all::<Value, _>(&lines("OWNER bob EX 600 BLOCK 0 NOTIFY told ONCE"));
    let short: Vec<String> =
        (0..FEWER).map(|lock| format!("LOCK.EXTEND lapses:{lock} alice PX 1500")).collect();
    holder.ask_all::<i64, _>(&short);
    holder.ask::<Value>("DEBUG SLEEP 3");
    wait_for("all is done", || holder.info("lock", "lock_handovers") == FEWER.to_string());
}

/// The waiter's lock is free, but other locks are handed over first, and the wait ends meanwhile.
#[test]
fn a_wait_that_ends_meanwhile_gets_what_is_free() {
    let server = patient();
    let began = Instant::now();
    let (mut holder, _waiter) = waited_for(&server);
    let _told = Mailbox::of(&server, "told");
    holder.acquire("z", "OWNER alice EX 600").unwrap();
    let end = server_time(&mut holder) + room(began);
    let mut ends: Vec<String> = (0..MANY).map(|lock| format!("PEXPIREAT lock:{lock} {end}")).collect();
    ends.push(format!("PEXPIREAT z {end}"));
    holder.ask_all::<i64, _>(&ends);
    let wait = (end + 20 - server_time(&mut holder)).max(1);
    let carol = server.client().ask(&format!("LOCK.ACQUIRE z OWNER carol BLOCK {wait}"));
    assert!(grant(carol).is_some(), "the lock was free");
}

/// The wall clock is set back while the server works. Its timers use this clock.
#[test]
fn a_clock_that_is_set_back_between_turns_delays_nobody() {
    let clock = WallClock::new();
    let server = clock.of(Setup::new()).start();
    let (mut client, mut other) = (server.client(), server.client());
    client.ask_all::<Value, _>(&acquires(|_| "OWNER alice EX 600 SESSION".into()));
    drop(client);
    clock.set(-3600);
    wait_for("all is done", || other.info("lock", "lock_sessions_ended") == MANY.to_string());
    other.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob BLOCK 0");
    other.ask::<i64>("LOCK.EXTEND k alice PX 100");
    bob.granted();
}

/// The wall clock is set back after a pause. When the pause began to end, nothing was due.
#[test]
fn a_clock_that_is_set_back_after_a_pause_delays_nobody() {
    let clock = WallClock::new();
    let server = clock.of(Setup::new()).start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let bob = Waiter::new(&server, "k", "OWNER bob BLOCK 0");
    let ends = lease_end_after(&mut client, "k", &["LOCK.EXTEND k alice PX 100", "CLIENT PAUSE 60000 WRITE"]);
    wait_until(&mut client, ends + 50);
    drop(bob);
    wait_for("bob is gone", || client.info("lock", "lock_waiters") == "0");
    let now = server_time(&mut client);
    wait_until(&mut client, now + 50);
    client.ask::<()>("CLIENT UNPAUSE");
    clock.set(-3600);
    client.acquire("l", "OWNER alice").unwrap();
    let mut carol = Waiter::new(&server, "l", "OWNER carol BLOCK 0");
    client.ask::<i64>("DEL l");
    carol.granted();
}
