//! Failovers by sentinels, under load: primaries killed, and primaries frozen that wake up later.

mod awakening;
mod group;
mod lost;
mod refused;

use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::Value;

use crate::support::{Belief, Link, Load, Outcome, Rng, Server, Setup, figure, freeze, grant, size, wake};
use group::{Group, LONG, patiently};

/// The leases of the clients, in ms: longer than a failover takes, or there would be nothing to keep apart.
const LEASE: u64 = 4000;

/// How a primary goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Exit {
    /// At once, and what it sent to its replicas last is lost.
    Killed,
    /// It stands still, and goes on as soon as a sentinel has begun to replace it.
    WokenEarly,
    /// It goes on when a replica has been promoted, while the other is still its own.
    WokenInBetween,
    /// It goes on some time after it was replaced.
    WokenLate,
}

const FREEZES: [Exit; 3] = [Exit::WokenInBetween, Exit::WokenLate, Exit::WokenEarly];

/// Failovers under load; the clients, still at work.
struct Trial {
    group: Group,
    load: Load,
    keys: Vec<String>,
    random: Rng,
    began: Instant,
}

impl Trial {
    fn start(setup: &Setup) -> Self {
        let began = Instant::now();
        let group = Group::start(setup);
        group.wait_for_health();
        let keys: Vec<String> = (0..5).map(|number| format!("lock{number}")).collect();
        // Some clients give up on a server that does not answer, others hang on until it wakes up.
        let patience = [400, 60_000].map(Duration::from_millis);
        let load = Load::start(group.routes(8), &keys, LEASE, &patience);
        Self { group, load, keys, random: Rng::new(), began }
    }

    /// Waits for so many grants by the primary from then on; which it is. On a busy machine the sentinels may replace one more.
    fn wait_for_grants(&self, count: usize, from: Instant) -> usize {
        let mut primary = None;
        patiently("grants by the primary", || {
            primary = self.group.primary();
            let port = primary.map(|primary| self.group.servers[primary].port());
            port.is_some_and(|port| self.load.ledger.count_since(from, port) >= count)
        });
        primary.expect("the sentinels agree")
    }

    /// One more client takes what locks it can get, and keeps each for its whole lease.
    fn keep_some(&mut self, server: usize) {
        let server = &self.group.servers[server];
        let mut link = Link::open(server.port(), LONG).expect("a connection");
        for key in &self.keys {
            let owner = format!("keeper:{}", self.load.ledger.len());
            let asked = Instant::now();
            let reply =
                reply_to(&mut link, &format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE} BLOCK 100"));
            if let Some(grant) = grant(reply) {
                let (until, since) = (grant.ends(asked, true), Instant::now());
                let (key, fence, server) = (key.clone(), grant.fence, server.port());
                self.load.ledger.add(Belief { key, owner, fence, server, asked, since, until });
            }
        }
    }

    /// One failover; how long it took until the new primary granted.
    fn round(&mut self, exit: Exit, careful: bool) -> Duration {
        self.group.wait_for_health();
        let old = self.wait_for_grants(20, Instant::now());
        sleep(self.random.up_to(300));
        let pinned =
            if careful && exit != Exit::Killed { Pinned::all(&self.group.servers[old]) } else { vec![] };
        if exit == Exit::Killed {
            self.group.relays[old].lose_effects(true);
            self.keep_some(old);
            self.group.servers[old].kill();
        } else {
            freeze(&self.group.servers[old]);
        }
        let began = Instant::now();
        match exit {
            Exit::Killed => self.group.relays[old].lose_effects(false),
            Exit::WokenEarly => {
                patiently("a failover to begin", || self.group.failover_has_begun());
                wake(&self.group.servers[old]);
            }
            Exit::WokenInBetween => {
                patiently("a promotion", || self.group.has_primary_beside(old));
                wake(&self.group.servers[old]);
            }
            Exit::WokenLate => {}
        }
        patiently("a new primary", || self.group.primary().is_some_and(|new| new != old));
        if exit == Exit::WokenLate {
            sleep(self.random.up_to(4000));
            wake(&self.group.servers[old]);
        }
        self.wait_for_grants(1, began);
        let took = began.elapsed();
        let new = self.wait_for_grants(20, began);
        if exit == Exit::Killed {
            self.group.servers[old].relaunch();
            self.group.follow(old, new);
        }
        for pinned in pinned {
            pinned.comes_back(&self.group.servers[new]);
        }
        self.group.wait_for_sync(old, new);
        took
    }

    /// Ends it; how many overlaps there were. Whatever happens, fences rise.
    fn end(self, what: &str, times: &[(Exit, Duration)]) -> usize {
        let Self { group, load, began, .. } = self;
        let ledger = std::sync::Arc::clone(&load.ledger);
        let tally = load.stop();
        let overlaps = ledger.overlaps();
        let slowest = times.iter().map(|(_, took)| *took).max().unwrap_or_default();
        figure(
            what,
            format!(
                "{} failovers in {:?}, {} grants, {} overlaps, {tally:?}",
                times.len(),
                began.elapsed(),
                ledger.len(),
                overlaps.len()
            ),
        );
        figure(&format!("{what}: the longest time without grants"), format!("{slowest:?}"));
        println!("{times:?}");
        assert_eq!(ledger.disorder(true), [], "fences rise");
        assert_eq!(ledger.repeats(), [], "a fence is given once");
        let known = ["ASK", "GRACE", "NOREPLICAS", "NOTHELD", "READONLY", "UNBLOCKED", "LOADING"];
        let strange =
            tally.keys().find(|what| what.starts_with(char::is_uppercase) && !known.contains(&what.as_str()));
        assert_eq!(strange, None, "an error that does not belong here");
        assert!(tally["granted several"] > 5, "{tally:?}");
        drop(group);
        for (earlier, later) in overlaps.iter().take(5) {
            println!("  overlap: {earlier:?}\n       and {later:?}");
        }
        overlaps.len()
    }
}

/// A client that waits, without limit, for a lock whose owner never gives it back, or for others too.
struct Pinned {
    waiter: Link,
    line: String,
}

impl Pinned {
    fn all(server: &Server) -> Vec<Self> {
        let locks = ["ACQUIRE pinned", "MACQUIRE 3 free pinned other"];
        locks.iter().enumerate().map(|(number, locks)| Self::new(server, number, locks)).collect()
    }

    fn new(server: &Server, number: usize, locks: &str) -> Self {
        let open = || Link::open(server.port(), LONG).expect("a connection");
        reply_to(&mut open(), &format!("LOCK.ACQUIRE pinned OWNER holder ONCE PX {LEASE}"));
        let line = format!("LOCK.{locks} OWNER waiter{number} PX {LEASE} BLOCK 0");
        let mut waiter = open();
        waiter.begin(&line);
        patiently("a waiter", || {
            let info = server.client().lock_info("pinned");
            info.is_some_and(|info| info["waiters"] == (number + 1).to_string())
        });
        Self { waiter, line }
    }

    /// The old primary never grants it the lock, but sends it away; the new one grants it.
    fn comes_back(mut self, new: &Server) {
        let outcome = self.waiter.finish();
        assert!(outcome == Outcome::Gone || outcome.code() == Some("UNBLOCKED"), "{outcome:?}");
        let mut link = Link::open(new.port(), LONG).expect("a connection");
        assert!(matches!(reply_to(&mut link, &self.line), Value::Array(_)));
        for key in ["pinned", "free", "other"] {
            reply_to(&mut link, &format!("LOCK.BREAK {key}"));
        }
    }
}

/// The reply to a command. On a busy machine a server may find too few good replicas for a moment.
fn reply_to(link: &mut Link, line: &str) -> Value {
    let mut reply = None;
    patiently("a reply", || {
        match link.send(line) {
            Outcome::Reply(came) => reply = Some(came),
            outcome => assert_eq!(outcome.code(), Some("NOREPLICAS"), "{outcome:?}"),
        }
        reply.is_some()
    });
    reply.expect("there is one")
}

/// What keeps two owners apart over a failover. Beyond the longest lease, the grace covers the time in which an old primary
/// still takes its replicas for good: `min-replicas-max-lag`, and the seconds in which it and the sentinels look again.
fn careful() -> Setup {
    Setup::new()
        .set("min-replicas-to-write", "1")
        .set("min-replicas-max-lag", "1")
        .module_args("lock.default-lease 4000 lock.max-lease 4000 lock.failover-grace 7000")
}

#[test]
fn with_a_grace_no_two_owners_after_a_failover() {
    let mut trial = Trial::start(&careful());
    let rounds = size(2, 30);
    let mut times = Vec::new();
    for round in 0..rounds {
        let exit = if round % 2 == 0 { Exit::Killed } else { FREEZES[round / 2 % 3] };
        times.push((exit, trial.round(exit, true)));
    }
    assert_eq!(trial.end("failovers by sentinels with a grace", &times), 0, "two owners of a lock at a time");
}

#[test]
fn without_a_grace_fences_still_rise_over_failovers() {
    let mut trial = Trial::start(&Setup::new());
    let rounds = size(1, 10);
    let mut times = Vec::new();
    for round in 0..rounds {
        let exit = if round % 2 == 0 { Exit::Killed } else { FREEZES[(round / 2 + 1) % 3] };
        times.push((exit, trial.round(exit, false)));
    }
    trial.end("failovers by sentinels without a grace", &times);
}
