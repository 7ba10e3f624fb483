//! Nothing remains of what has ended: memory, blocked clients, waiters and sessions are the same after thousands of rounds as after a few.

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::Value;

use crate::several::{ask, grants};
use crate::support::{Client, Mailbox, Server, blocked_clients, figure, size, wait_for};

/// The memory, in bytes, that the server may keep as a cache. A leak of a few bytes per round exceeds it.
const SLACK: i64 = 96 * 1024;

/// How many connections are used in turn.
const CLIENTS: usize = 100;

/// Returns the used memory, once only this client is left.
#[track_caller]
fn memory(client: &mut Client) -> i64 {
    wait_for("the others to be gone", || client.info("clients", "connected_clients") == "1");
    assert_eq!(blocked_clients(client), 0);
    assert_eq!(client.info("lock", "lock_waiters"), "0");
    wait_for("no places", || client.info("lock", "lock_places") == "0");
    wait_for("no sessions", || client.info("lock", "lock_sessions") == "0");
    wait_for("no keys", || client.ask::<i64>("DBSIZE") == 0);
    client.ask::<()>("MEMORY PURGE");
    client.info("memory", "used_memory").parse().unwrap()
}

/// Returns the used memory once it has stopped falling: memory of closed connections is freed a moment later, and must not hide a leak.
#[track_caller]
fn least_memory(client: &mut Client) -> i64 {
    let (mut least, mut since) = (i64::MAX, Instant::now());
    while since.elapsed() < Duration::from_secs(2) {
        let now = memory(client);
        if now < least {
            (least, since) = (now, Instant::now());
        }
        sleep(Duration::from_millis(10));
    }
    least
}

/// Runs `work` a few times, and then many times: the used memory must not grow.
#[track_caller]
fn nothing_stays(name: &str, mut work: impl FnMut(&Server, usize)) {
    let rounds = size(20_000, 1_000_000);
    let (server, mut client) = Server::and_client();
    work(&server, 3_000);
    let before = least_memory(&mut client);
    work(&server, rounds);
    // The server frees a connection's memory a moment after it has closed.
    let mut after = memory(&mut client);
    wait_for(&format!("memory as before: {before} bytes, after the work {after}"), || {
        after = memory(&mut client);
        after - before <= SLACK
    });
    figure(name, format!("{rounds} times, {:+} bytes", after - before));
}

#[test]
fn memory_does_not_grow_by_acquires_releases_and_lapses() {
    nothing_stays("acquire, release and lapse", |server, rounds| {
        let mut client = server.client();
        let lines: Vec<String> = (0..rounds)
            .flat_map(|round| {
                let key = round % 100;
                [
                    format!("LOCK.ACQUIRE k{key} OWNER name{key} MAXHOLD 60000"),
                    format!("LOCK.RELEASE k{key} name{key}"),
                    format!("LOCK.ACQUIRE lapse{round} OWNER alice PX 1"),
                ]
            })
            .collect();
        for reply in client.send_all(&lines) {
            reply.unwrap();
        }
    });
}

#[test]
fn memory_does_not_grow_by_places_claims_and_leaves() {
    nothing_stays("place, claim and leave", |server, rounds| {
        let (mut client, mut mail) = (server.client(), Mailbox::of(server, "ch"));
        let lines: Vec<String> = (0..rounds)
            .flat_map(|round| {
                let key = format!("k{}", round % 100);
                [
                    format!("LOCK.ACQUIRE {key} OWNER alice NOTIFY ch"),
                    format!("LOCK.ACQUIRE {key} OWNER bob BLOCK 0 NOTIFY ch ONCE"),
                    format!("LOCK.ACQUIRE {key} OWNER carol BLOCK 0 NOTIFY ch ONCE"),
                    format!("LOCK.RELEASE {key} alice"),
                    format!("LOCK.ACQUIRE {key} OWNER bob ONCE SESSION"),
                    format!("LOCK.BREAK {key}"),
                    format!("LOCK.LEAVE {key} carol"),
                ]
            })
            .collect();
        // The server would disconnect a subscriber that reads too little, so lines are sent in parts.
        for some in lines.chunks(7_000) {
            for reply in client.send_all(some) {
                reply.unwrap();
            }
            mail.rest(&mut client);
        }
    });
}

#[test]
fn memory_does_not_grow_by_waiters_that_are_killed() {
    nothing_stays("wait and kill", |server, rounds| {
        let mut holder = server.client();
        holder.ask::<()>("ACL SETUSER guest on nopass +@all ~*");
        holder.acquire("k", "OWNER alice PX 600000").unwrap();
        for round in 0..rounds / CLIENTS {
            let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
            let mut ids: Vec<i64> = Vec::new();
            for client in &mut clients {
                client.ask::<()>("AUTH guest any");
                ids.push(client.ask("CLIENT ID"));
                client.begin("LOCK.ACQUIRE k OWNER bob SESSION BLOCK 0");
            }
            wait_for("waiters", || holder.info("lock", "lock_waiters") == CLIENTS.to_string());
            match round % 4 {
                0 => holder.ask::<()>("CLIENT KILL USER guest"),
                // All connections close at once, in the step in which one of them gets the lock.
                1 => {
                    holder.ask::<()>("MULTI");
                    holder.ask::<()>("LOCK.RELEASE k alice");
                    holder.ask::<()>("CLIENT KILL USER guest");
                    holder.ask::<Value>("EXEC");
                }
                2 => {
                    for (number, id) in ids.iter().enumerate() {
                        let how = ["ERROR", "TIMEOUT"][number % 2];
                        assert_eq!(holder.ask::<i64>(&format!("CLIENT UNBLOCK {id} {how}")), 1);
                    }
                }
                _ => {}
            }
            drop(clients);
            wait_for("no waiters", || holder.info("lock", "lock_waiters") == "0");
            wait_for("the lock to be alice's", || {
                holder.acquire("k", "OWNER alice PX 600000 ONCE").is_some()
            });
        }
        holder.ask::<i64>("LOCK.RELEASE k alice ALL");
    });
}

#[test]
fn memory_does_not_grow_by_connections_that_close() {
    nothing_stays("sessions, places and a close", |server, rounds| {
        let mut holder = server.client();
        holder.acquire("k", "OWNER alice PX 600000").unwrap();
        for round in 0..rounds / CLIENTS {
            let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
            for (number, client) in clients.iter_mut().enumerate() {
                client.begin(&format!("LOCK.ACQUIRE k{round}:{number} SESSION PX 600000"));
                client.begin(&format!("LOCK.ACQUIRE k OWNER o{number} BLOCK 0 NOTIFY ch ONCE"));
            }
            for client in &mut clients {
                client.finish().unwrap();
                client.finish().unwrap();
            }
        }
        wait_for("no places", || holder.info("lock", "lock_places") == "0");
        holder.ask::<i64>("LOCK.RELEASE k alice");
    });
}

#[test]
fn memory_does_not_grow_by_waits_for_several_locks() {
    const CROWD: usize = 20;
    nothing_stays("waits for several locks, and grants", |server, rounds| {
        let mut client = server.client();
        let mut crowd: Vec<_> = (0..CROWD).map(|_| server.client()).collect();
        for _ in 0..rounds / 2 / CROWD {
            client.ask::<Value>(&ask("a b c", "alice", ""));
            for (n, waiter) in crowd.iter_mut().enumerate() {
                waiter.begin(&ask(&format!("b k{} a", n % 7), "bob", "BLOCK 0"));
            }
            // All waiters have the owner bob, so each re-enters.
            wait_for("all to wait", || client.info("lock", "lock_waiters") == CROWD.to_string());
            client.ask::<Value>("LOCK.MRELEASE 3 c a b alice");
            for waiter in &mut crowd {
                grants(waiter.finish().unwrap()).unwrap();
            }
            let left: Vec<Option<i64>> = client.ask("LOCK.MRELEASE 9 a b k0 k1 k2 k3 k4 k5 k6 bob ALL");
            assert_eq!(left, [Some(0); 9]);
        }
    });
}

#[test]
fn waits_for_several_that_time_out_are_killed_and_have_places() {
    nothing_stays("waits for several locks, timeouts, kills and places", |server, rounds| {
        let (mut client, mut mail) = (server.client(), Mailbox::of(server, "ch"));
        for round in 0..rounds / 200 {
            client.ask::<Value>(&ask("a b", "alice", ""));
            let mut crowd: Vec<_> = (0..20).map(|_| server.client()).collect();
            for (n, waiter) in crowd.iter_mut().enumerate() {
                let options = if n % 2 == 0 { "BLOCK 1" } else { "BLOCK 0 SESSION" };
                waiter.begin(&ask(&format!("a f{n} b"), &format!("o{n}"), options));
            }
            for waiter in crowd.iter_mut().step_by(2) {
                assert_eq!(waiter.finish(), Ok(Value::Nil));
            }
            drop(crowd);
            let mut asker = server.client();
            for n in 0..30 {
                let place = ask(&format!("b g{n} a"), &format!("p{}", n % 5), "ONCE BLOCK 0 NOTIFY ch");
                asker.ask::<Value>(&place);
            }
            for n in 0..10 {
                asker.ask::<Value>(&format!("LOCK.LEAVE g{n} p{}", n % 5));
            }
            client.ask::<Value>("LOCK.MRELEASE 2 a b alice");
            wait_for("a grant to a place", || client.ask::<i64>("EXISTS a b") == 2);
            if round % 2 == 0 {
                let owner = client.holder("a").unwrap().owner;
                client.ask::<Value>(&format!("LOCK.MRELEASE 2 a b {owner} ALL"));
            }
            drop(asker);
            wait_for("no places", || client.info("lock", "lock_places") == "0");
            mail.rest(&mut client);
            client.ask::<()>("FLUSHALL");
            // A client whose connection has closed may be granted the locks before the server notices it.
            for field in ["lock_waiters", "lock_sessions", "lock_keys"] {
                wait_for(field, || client.info("lock", field) == "0");
            }
        }
    });
}
