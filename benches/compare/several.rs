//! Several locks at once: taken and given back by one command each, beside a pipeline of as many commands for one lock, and
//! through a client beside Redisson's MultiLock; and what such waits cost who has nothing to do with them.

use std::borrow::Cow;

use crate::hosts::Kind;
use crate::joins;
use crate::load::{Halves, Load};
use crate::mixes::{self, Mix, Served};
use crate::net::Net;
use crate::plan::{Plan, order, progress};
use crate::programs::{JAVA, Lock};
use crate::report::Report;
use crate::resp::{owner, words};
use crate::rivals::{LEASE, Rival};
use crate::server::{Server, Setup};
use crate::throughput::Rounds;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for (keys, pipeline) in SETS {
        sets(plan, report, keys, pipeline);
    }
    bystanders(plan, report);
    joins::run(plan, report);
    mixes::run(plan, report, &MIXES, plan.pick(5, 2));
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
fn names(conn: usize, set: usize, keys: usize) -> impl Iterator<Item = String> {
    (0..keys).map(move |key| format!("lock:{conn}:{set}:{key}"))
}

fn together(server: &Server, keys: usize, pipeline: usize) -> Load {
    let set = |conn, set| {
        let (names, owner) =
            (names(conn, set, keys).collect::<Vec<_>>().join(" "), owner(conn * LOCKS + set));
        [
            words(&format!("LOCK.MACQUIRE {keys} {names} OWNER {owner} PX {LEASE}")),
            words(&format!("LOCK.MRELEASE {keys} {names} {owner}")),
        ]
    };
    let released = format!("*{keys}\r\n{}", ":0\r\n".repeat(keys));
    let halves = Halves::one([b"*4\r\n", released.as_bytes()]);
    let sets = |conn| (0..LOCKS / keys).map(|number| set(conn, number)).collect();
    Load::of(TOGETHER, halves, server, pipeline, sets)
}

fn pipelined(server: &Server, keys: usize, pipeline: usize) -> Load {
    let set = |conn, set| {
        let owner = owner(conn * LOCKS + set);
        let acquire = |name| words(&format!("LOCK.ACQUIRE {name} OWNER {owner} PX {LEASE}"));
        let release = |name| words(&format!("LOCK.RELEASE {name} {owner}"));
        [
            names(conn, set, keys).flat_map(acquire).collect(),
            names(conn, set, keys).flat_map(release).collect(),
        ]
    };
    let halves = Halves { each: keys, ..Halves::one([b"*4\r\n", b":0\r\n"]) };
    let sets = |conn| (0..LOCKS / keys).map(|number| set(conn, number)).collect();
    Load::of(PIPELINED, halves, server, pipeline, sets)
}

fn sets(plan: &Plan, report: &mut Report, keys: usize, pipeline: usize) {
    let work = format!("{keys} locks taken and given back, P={pipeline}");
    let (starts, rounds, length) = (plan.pick(3, 2), plan.pick(10, 5), plan.ms(200, 120));
    let mut samples = [TOGETHER, PIPELINED, ONE_LOCK].map(|who| (who, Vec::new()));
    for begun in 1..=starts {
        let mut server = Server::start(Setup::MODULE);
        let mut loads = [
            together(&server, keys, pipeline),
            pipelined(&server, keys, pipeline),
            Load::new(Rival::Redislock, &mut server, pipeline),
        ];
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
    report.rows(rounds.row(&work, TOGETHER, PIPELINED, Some(1.0)));
    report.rows(rounds.row(&work, TOGETHER, ONE_LOCK, None));
    for figure in rounds.figures(&work) {
        report.figure(figure);
    }
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
    let mut samples = OTHERS.map(|(who, ..)| (who, Vec::new()));
    for begun in 1..=starts {
        let mut servers = OTHERS.map(|_| Server::start(Setup::MODULE));
        let waits = servers.iter().zip(OTHERS);
        // Their places end with them.
        let _others: Vec<Net> =
            waits.map(|(server, (_, waiters, locks, _))| others(server, waiters, locks)).collect();
        let mut loads = servers.each_mut().map(|server| Load::new(Rival::Redislock, server, pipeline));
        for round in 0..=rounds {
            for place in order(loads.len(), round) {
                let sample = loads[place].run(&mut servers[place], length);
                if round > 0 {
                    samples[place].1.push(sample);
                }
            }
        }
        progress(&format!("  {work}: {begun}/{starts}"));
    }
    let rounds = Rounds(samples.into());
    rounds.warn(&work, report);
    for (who, _, _, bound) in OTHERS.into_iter().filter(|(who, ..)| *who != QUIET) {
        report.rows(rounds.row(&format!("{work}, while {who}"), who, QUIET, bound));
    }
    for figure in rounds.figures(&work) {
        report.figure(figure);
    }
}

/// So many wait, each for the first of its locks; the others of those are free, and reserved.
fn others(server: &Server, waiters: usize, locks: usize) -> Net {
    let mut net = Net::with(1, server.port);
    net.fill(1, (0..HELD).map(|number| format!("LOCK.ACQUIRE held:{number}:0 PX 3600000")), b"*4\r\n");
    let ask = if locks == 1 { "LOCK.ACQUIRE".into() } else { format!("LOCK.MACQUIRE {locks}") };
    let waits = (0..waiters).map(|number| {
        let names: Vec<_> = (0..locks).map(|lock| format!("held:{number}:{lock}")).collect();
        format!("{ask} {} PX {LEASE} BLOCK 0 NOTIFY told", names.join(" "))
    });
    net.fill(1, waits, b"+QUEUED\r\n");
    net
}

// Through a client.

const MACQUIRE: Lock =
    Lock { who: "several", name: "LOCK.MACQUIRE ... BLOCK 0 + LOCK.MRELEASE", host: Kind::Module };
const MULTILOCK: Lock = Lock { who: "multilock", name: "Redisson's MultiLock", host: Kind::Plain };

const MIXES: [Mix; 3] = [
    Mix {
        run: JAVA,
        mode: "alone-2",
        who: Cow::Borrowed("8 clients with 2 locks each of their own with Jedis"),
        served: Served::Alone,
        ours: MACQUIRE,
        peers: &[MULTILOCK],
    },
    Mix {
        run: JAVA,
        mode: "alone-10",
        who: Cow::Borrowed("8 clients with 10 locks each of their own with Jedis"),
        served: Served::Alone,
        ours: MACQUIRE,
        peers: &[MULTILOCK],
    },
    Mix {
        run: JAVA,
        mode: "two-of-8",
        who: Cow::Borrowed("16 clients, 2 of 8 locks each time with Jedis"),
        served: Served::Alike,
        ours: MACQUIRE,
        peers: &[
            Lock {
                name: "Redisson's MultiLock, locks in the order of their names",
                who: "multilock-in-order",
                ..MULTILOCK
            },
            Lock { name: "Redisson's MultiLock, locks in any order", ..MULTILOCK },
        ],
    },
];
