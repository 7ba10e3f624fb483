//! Several locks at once: taken and given back by one command each, beside a pipeline of as many commands for one lock, and
//! through a client beside Redisson's MultiLock; and what such waits cost who has nothing to do with them.

use std::rc::Rc;

use crate::load::{CONNECTIONS, Load, Pair};
use crate::net::Net;
use crate::report::Report;
use crate::resp::{owner, words};
use crate::rivals::{self, LEASE, LONG_LEASE, REDISLOCK};
use crate::rounds::{Plan, Rounds, busy};
use crate::server::{Server, Setup};
use crate::{joins, mixes};

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for (keys, pipeline) in SETS {
        sets(plan, report, keys, pipeline);
    }
    bystanders(plan, report);
    joins::run(plan, report);
    mixes::run(plan, report, "several");
}

// By one command, and by many.

/// How many locks are taken together, and how many such sets are in flight on each connection.
const SETS: [(usize, usize); 4] = [(2, 16), (2, 1), (10, 1), (100, 1)];
/// How many locks a connection goes round on, at least a set for each that is in flight.
const LOCKS: usize = 256;

const TOGETHER: &str = "LOCK.MACQUIRE + LOCK.MRELEASE";
const PIPELINED: &str = "LOCK.ACQUIRE of each + LOCK.RELEASE of each, in one pipeline";
const ONE_LOCK: &str = "LOCK.ACQUIRE + LOCK.RELEASE of one lock";

/// The locks of a set.
fn names(conn: usize, set: usize, keys: usize) -> Vec<String> {
    (0..keys).map(|key| format!("lock:{conn}:{set}:{key}")).collect()
}

fn together(names: &[String], owner: &str) -> Pair {
    let (keys, names) = (names.len(), names.join(" "));
    [
        words(&format!("LOCK.MACQUIRE {keys} {names} OWNER {owner} PX {LEASE}")),
        words(&format!("LOCK.MRELEASE {keys} {names} {owner}")),
    ]
}

fn pipelined(names: &[String], owner: &str) -> Pair {
    let acquire = |name| words(&format!("LOCK.ACQUIRE {name} OWNER {owner} PX {LEASE}"));
    let release = |name| words(&format!("LOCK.RELEASE {name} {owner}"));
    [names.iter().flat_map(acquire).collect(), names.iter().flat_map(release).collect()]
}

fn sets(plan: &Plan, report: &mut Report, keys: usize, pipeline: usize) {
    let released = format!("*{keys}\r\n{}", ":0\r\n".repeat(keys));
    let start = || {
        let server = Server::shared(Setup::MODULE);
        let load = |success, pair: fn(&[String], &str) -> Pair| {
            let set = |conn, set| pair(&names(conn, set, keys), &owner(conn * LOCKS + set));
            let sets = |conn| (0..LOCKS / keys).map(|number| set(conn, number)).collect();
            Load::of(CONNECTIONS, success, &server, pipeline, sets)
        };
        let of_each: [&[u8]; 2] = [b"*4\r\n", b":0\r\n"];
        vec![
            (TOGETHER.into(), load([vec![b"*4\r\n"], vec![released.as_bytes()]], together)),
            (PIPELINED.into(), load(of_each.map(|reply| vec![reply; keys]), pipelined)),
            (ONE_LOCK.into(), Load::new(rivals::pair(REDISLOCK), &server, pipeline)),
        ]
    };
    let work = format!("{keys} locks taken and given back, P={pipeline}");
    let (starts, rounds, length) = (plan.pick(3, 2), plan.pick(10, 5), plan.ms(200, 120));
    let rounds = Rounds::play(&work, "pairs/s", starts, 0..=rounds, start, |load| load.run(length));
    rounds.warn(report);
    report.rows.extend(rounds.row(&work, TOGETHER, PIPELINED).map(|row| row.at_least(1.0)));
    report.rows.extend(rounds.row(&work, TOGETHER, ONE_LOCK));
    report.figures.extend(rounds.figures(busy));
}

// Who has nothing to do with them.

/// How many locks others hold, whether anybody waits for them or not: it is waits that are looked at, not keys.
const HELD: usize = 10_000;
const QUIET: &str = "nobody waits";
/// How many others wait, for how many locks each, and how many times as good as on a quiet server a pair is to be.
const OTHERS: [(&str, usize, usize, Option<f64>); 3] = [
    (QUIET, 0, 1, None),
    ("1,000 others wait, for 10 locks each", 1_000, 10, Some(0.9)),
    ("10,000 others wait, for one lock each", 10_000, 1, None),
];

/// A plain pair on a server where others wait for several locks, which are reserved.
fn bystanders(plan: &Plan, report: &mut Report) {
    let pipeline = 16;
    let work = format!("acquire + release, P={pipeline}, of other locks");
    let (starts, rounds, length) = (plan.pick(4, 2), plan.pick(10, 5), plan.ms(200, 120));
    let start = || {
        let load = |(who, waiters, locks, _): (&str, usize, usize, _)| {
            let server = Server::shared(Setup::MODULE);
            // Their places end with them.
            let others = others(&server, waiters, locks);
            (who.into(), (Load::new(rivals::pair(REDISLOCK), &server, pipeline), others))
        };
        OTHERS.map(load).into()
    };
    let rounds = Rounds::play(&work, "pairs/s", starts, 0..=rounds, start, |(load, _)| load.run(length));
    rounds.warn(report);
    for (who, _, _, bound) in &OTHERS[1..] {
        let row = rounds.row(&format!("{work}, while {who}"), who, QUIET);
        report.rows.extend(row.map(|row| row.at_least(*bound)));
    }
    report.figures.extend(rounds.figures(busy));
}

/// So many wait, each for the first of its locks; the others of those are free, and reserved.
fn others(server: &Rc<Server>, waiters: usize, locks: usize) -> Net {
    let mut net = Net::with(1, server.port);
    let held = (0..HELD).map(|number| format!("LOCK.ACQUIRE held:{number}:0 PX {LONG_LEASE}"));
    net.fill(1, held, b"*4\r\n");
    let ask = if locks == 1 { "LOCK.ACQUIRE".into() } else { format!("LOCK.MACQUIRE {locks}") };
    let waits = (0..waiters).map(|number| {
        let names: Vec<_> = (0..locks).map(|lock| format!("held:{number}:{lock}")).collect();
        format!("{ask} {} PX {LEASE} BLOCK 0 NOTIFY told", names.join(" "))
    });
    net.fill(1, waits, b"+QUEUED\r\n");
    net
}
