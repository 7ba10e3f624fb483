//! Locks with several holders (`SHARED`): what a reader's acquire and release cost beside other readers, and what a grant
//! takes in memory.

use crate::load::{CONNECTIONS, Halves, Load};
use crate::net::Net;
use crate::plan::{Plan, order, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::{integer, owner, words};
use crate::server::{Server, Setup};
use crate::stats::Spread;
use crate::throughput::Rounds;

/// In ms; longer than this takes.
pub(crate) const LEASE: &str = "3600000";
/// Of what comes later, and so ends later, as it does where all leases are alike.
pub(crate) const LATER_LEASE: &str = "7200000";

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    pairs(plan, report);
    memory(report);
}

/// As many holders as there are; else 1,000.
pub(crate) fn without_cap(server: &mut Server) {
    assert_eq!(server.ask("CONFIG SET lock.max-holders 0"), b"+OK\r\n");
}

/// Who takes the locks and gives them back; of readers, how many others hold each lock meanwhile, and how many times as good
/// as a plain pair theirs is to be.
const PAIRS: [(&str, Option<usize>, Option<f64>); 5] = [
    (PLAIN, None, None),
    ("with SHARED, no other holder", Some(0), Some(0.9)),
    ("with SHARED, 1 other holder", Some(1), None),
    ("with SHARED, 10 other holders", Some(10), None),
    ("with SHARED, 1,000 other holders", Some(1_000), Some(0.6)),
];
const PLAIN: &str = "without SHARED";
const PIPELINE: usize = 16;

fn pairs(plan: &Plan, report: &mut Report) {
    let work = format!("acquire + release, P={PIPELINE}, on {CONNECTIONS} locks");
    let (starts, rounds, length) = (plan.pick(6, 2), plan.pick(10, 5), plan.ms(200, 120));
    let mut samples = PAIRS.map(|(who, ..)| (who, Vec::new()));
    for begun in 1..=starts {
        // One server for all: each has locks of its own, and a look-up does not depend on how many there are.
        let mut server = Server::start(Setup::MODULE);
        without_cap(&mut server);
        let mut loads: Vec<Load> = Vec::new();
        for (place, (who, others, _)) in PAIRS.into_iter().enumerate() {
            // One lock for each connection: with 1,000 holders each, more of them would measure the processor's caches.
            let key = |conn: usize| format!("lock:{place}:{conn}");
            let shared = if others.is_some() { " SHARED" } else { "" };
            let others =
                (1..=others.unwrap_or(0)).flat_map(|other| (0..CONNECTIONS).map(move |conn| (other, conn)));
            let requests = others.map(|(other, conn)| {
                format!("LOCK.ACQUIRE {} OWNER {} PX {LEASE}{shared}", key(conn), owner(other))
            });
            Net::with(CONNECTIONS, server.port).fill(CONNECTIONS, requests, b"*4\r\n");
            let pair = |conn| {
                let (key, owner) = (key(conn), owner(0));
                [
                    words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LATER_LEASE}{shared}")),
                    words(&format!("LOCK.RELEASE {key} {owner}")),
                ]
            };
            let pairs = |conn| vec![pair(conn); PIPELINE];
            loads.push(Load::of(who, Halves::one([b"*4\r\n", b":0\r\n"]), &server, PIPELINE, pairs));
        }
        for round in 0..=rounds {
            for place in order(loads.len(), round) {
                let sample = loads[place].run(&mut server, length);
                // The first round warms up.
                if round > 0 {
                    samples[place].1.push(sample);
                }
            }
        }
        progress(&format!("  {work}: {begun}/{starts}"));
    }
    let rounds = Rounds(samples.into());
    rounds.warn(&work, report);
    for (who, _, bound) in PAIRS.into_iter().filter(|(_, others, _)| others.is_some()) {
        report.rows(rounds.row(&format!("acquire + release {who}, P={PIPELINE}"), who, PLAIN, bound));
    }
    for figure in rounds.figures(&work) {
        report.figure(figure);
    }
}

/// How many grants there are, on as many locks as that takes.
const GRANTS: usize = 200_000;
const CONNS: usize = 4;

fn memory(report: &mut Report) {
    let work = "memory of a grant, UUID owner";
    let mut plain = 0.0;
    for (who, holders) in [
        ("a plain lock", 1),
        ("SHARED, 1 holder", 1),
        ("SHARED, 2 holders", 2),
        ("SHARED, 100 holders", 100),
        ("SHARED, 1,000 holders", 1_000),
    ] {
        let is_plain = plain == 0.0;
        let shared = if is_plain { "" } else { " SHARED" };
        let mut server = Server::start(Setup::MODULE);
        let (locks, before) = (GRANTS / holders, server.used_memory());
        // The connections go before the memory is read.
        let requests = (0..GRANTS).map(|number| {
            let (lock, owner) = (number % locks, owner(number));
            format!("LOCK.ACQUIRE lock:{lock:08} OWNER {owner} PX {LEASE}{shared}")
        });
        Net::with(CONNS, server.port).fill(CONNS, requests, b"*4\r\n");
        server.wait_for_departures();
        let bytes = (server.used_memory() - before) / GRANTS as f64;
        // To a tenth of a byte: the rest is the server's own housekeeping.
        let bytes = (bytes * 10.0).round() / 10.0;
        let usage = integer(&server.ask("MEMORY USAGE lock:00000000")).expect("the size of a lock");
        progress(&format!("  memory, {who}: {bytes:.1} bytes a grant"));
        if is_plain {
            plain = bytes;
        } else {
            report.row(Row {
                work: format!("memory of a grant, {who}"),
                beside: "a plain lock".into(),
                bound: Some(Bound::AtMost(2.0)),
                unit: "x".into(),
                value: Spread::one(bytes / plain),
                cpu: None,
            });
        }
        report.figure(Figure {
            work: work.into(),
            who: who.into(),
            unit: "bytes".into(),
            value: Spread::one(bytes),
            cpu_us: None,
            remark: format!(
                "MEMORY USAGE of such a lock: {:.1} bytes a grant; {locks} locks",
                usage as f64 / holders as f64
            ),
        });
    }
}
