//! Locks with several holders (`SHARED`): what a reader's acquire and release cost beside other readers, and what a grant
//! takes in memory; then readers that wait for a writer.

use std::time::Instant;

use crate::load::{CONNECTIONS, Load, measure};
use crate::net::Net;
use crate::report::{Figure, Report, Row};
use crate::resp::{integer, owner, said, words};
use crate::rivals::LONG_LEASE;
use crate::rounds::{Plan, Rounds, Sample, percentiles, progress, times};
use crate::server::{Server, Setup};
use crate::stats::{Spread, sorted};

/// Of what comes later, and so ends later, as it does where all leases are alike.
const LATER_LEASE: &str = "7200000";
/// As many holders as there are; else 1,000.
const WITHOUT_CAP: &str = "CONFIG SET lock.max-holders 0";

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    pairs(plan, report);
    memory(report);
    readers(plan, report);
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
    let start = || {
        // One server for all: each has locks of its own, and a look-up does not depend on how many there are.
        let server = Server::shared(Setup::MODULE);
        server.ask(WITHOUT_CAP);
        let load = |(place, (who, others, _)): (usize, (&str, Option<usize>, _))| {
            // One lock for each connection: with 1,000 holders each, more of them would measure the processor's caches.
            let acquire = format!("LOCK.ACQUIRE lock:{place}:{{number}} OWNER");
            let shared = if others.is_some() { " SHARED" } else { "" };
            let mut net = Net::with(CONNECTIONS, server.port);
            for other in 1..=others.unwrap_or(0) {
                let line = format!("{acquire} {} PX {LONG_LEASE}{shared}", owner(other));
                net.fill(CONNECTIONS, CONNECTIONS, &line, b"*4\r\n");
            }
            let pairs = |conn| {
                let (owner, lease) = (owner(0), LATER_LEASE);
                let release = format!("LOCK.RELEASE lock:{place}:{{number}} {owner}");
                let acquire = format!("{acquire} {owner} PX {lease}{shared}");
                vec![[acquire, release].map(|line| said(&line, conn)); PIPELINE]
            };
            (who.into(), Load::of(CONNECTIONS, [vec![b"*4\r\n"], vec![b":0\r\n"]], &server, PIPELINE, pairs))
        };
        PAIRS.into_iter().enumerate().map(load).collect()
    };
    let work = format!("acquire + release, P={PIPELINE}, on {CONNECTIONS} locks");
    let rounds = measure(plan, report, &work, [6, 2], start);
    for (who, _, bound) in &PAIRS[1..] {
        let row = rounds.row(&format!("acquire + release {who}, P={PIPELINE}"), who, PLAIN);
        report.rows.extend(row.map(|row| row.at_least(*bound)));
    }
}

/// How many grants there are, on as many locks as that takes.
const GRANTS: usize = 200_000;
const CONNS: usize = 4;
/// Each with so many holders of a lock.
const HOLDERS: [(&str, usize); 5] = [
    ("a plain lock", 1),
    ("SHARED, 1 holder", 1),
    ("SHARED, 2 holders", 2),
    ("SHARED, 100 holders", 100),
    ("SHARED, 1,000 holders", 1_000),
];

fn memory(report: &mut Report) {
    let mut plain = None;
    for (who, holders) in HOLDERS {
        let shared = if plain.is_none() { "" } else { " SHARED" };
        let server = Server::start(Setup::MODULE);
        let locks = GRANTS / holders;
        let bytes = server.bytes_of_each(GRANTS, || {
            let requests = (0..GRANTS).map(|number| {
                let lock = number % locks;
                said(&format!("LOCK.ACQUIRE lock:{lock:08} OWNER {{owner}} PX {LONG_LEASE}{shared}"), number)
            });
            // The connections go before the memory is read.
            Net::with(CONNS, server.port).send_all(CONNS, requests, b"*4\r\n");
            server.wait_for_departures();
        });
        let usage = integer(&server.ask("MEMORY USAGE lock:00000000")).expect("the size of a lock");
        let usage = usage as f64 / holders as f64;
        progress(&format!("  memory, {who}: {bytes:.1} bytes a grant"));
        if let Some(plain) = plain {
            let ratio = Spread::one(bytes / plain);
            let row = Row::ratio(format!("memory of a grant, {who}"), HOLDERS[0].0, ratio);
            report.rows.push(row.at_most(2.0));
        }
        plain = plain.or(Some(bytes));
        let figure = Figure::new("memory of a grant, UUID owner", who, "bytes", Spread::one(bytes));
        let remark = format!("MEMORY USAGE of such a lock: {usage:.1} bytes a grant; {locks} locks");
        report.figures.push(figure.remark(remark));
    }
}

const READERS: usize = 10_000;
const BLOCKED: &str = "clients blocked in LOCK.ACQUIRE, SHARED";
/// The server's own way to wake all at once. Nobody is granted anything.
const XREAD: &str = "clients blocked in XREAD, and one XADD";
/// What is said first, what the readers say, each on a connection of its own, and what lets them in.
const WAYS: [(&str, Setup, [&str; 3]); 2] = [
    (
        BLOCKED,
        Setup::MODULE,
        [
            "LOCK.ACQUIRE lock OWNER writer PX 3600000",
            "LOCK.ACQUIRE lock OWNER {owner} PX 7200000 SHARED BLOCK 0",
            "LOCK.RELEASE lock writer",
        ],
    ),
    (XREAD, Setup::PLAIN, ["PING", "XREAD BLOCK 0 STREAMS stream $", "XADD stream * field value"]),
];

/// How soon all are in when a writer gives the lock back.
fn readers(plan: &Plan, report: &mut Report) {
    let work = format!("until {READERS} readers behind a writer have it");
    let start = || WAYS.map(|(who, setup, said)| (who.into(), (setup, said))).into();
    let turns = 1..=plan.pick(3, 2);
    let rounds = Rounds::play(&work, "ms", 1, turns, start, |(setup, said)| let_in(*setup, *said));
    let row = rounds.row(&format!("until {READERS} {BLOCKED} have it"), BLOCKED, XREAD);
    report.rows.extend(row.map(|row| row.at_most(2.0)));
    report.figures.extend(rounds.figures(|samples| {
        let [half, most, _] = percentiles(&times(samples));
        format!("one of them p50 {half:.1}, p99 {most:.1} ms")
    }));
}

/// Until the last had it, and when each had it, in ms.
fn let_in(setup: Setup, [first, wait, event]: [&str; 3]) -> Sample {
    let server = Server::start(setup);
    if setup.module {
        server.ask(WITHOUT_CAP);
    }
    server.ask(first);
    let mut net = Net::with(READERS, server.port);
    net.block(0, READERS, wait);
    net.wait_until(|| server.blocked_clients() >= READERS);
    let writes = net.connect(server.port);
    let (cpu, begin) = (server.cpu_ns(), Instant::now());
    net.out.send(writes, &words(event));
    let mut had = Vec::with_capacity(READERS);
    net.replies(READERS + 1, |conn, _| {
        if conn != writes {
            had.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    });
    let (times, cpu_us) = (sorted(had), (server.cpu_ns() - cpu) / 1e3 / READERS as f64);
    Sample { value: times[READERS - 1], cpu_us, times, ..Sample::default() }
}
