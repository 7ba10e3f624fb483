//! Several locks at once: taken and given back by one command each, beside a pipeline of as many commands for one lock, and
//! through a client beside Redisson's MultiLock; what such waits cost who has nothing to do with them; and what an acquire costs that
//! joins a queue on a server where 10,000 others wait: as it is, and with `DETECT`, which has the server look for more first.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use crate::clients;
use crate::load::{CONNECTIONS, Load, Pair, measure};
use crate::net::Net;
use crate::report::Report;
use crate::resp::{owner, said, words};
use crate::rivals::{self, LEASE, LONG_LEASE, REDISLOCK};
use crate::rounds::{Plan, Rounds, Sample};
use crate::server::{Server, Setup};

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for (keys, pipeline) in SETS {
        sets(plan, report, keys, pipeline);
    }
    bystanders(plan, report);
    joins(plan, report);
    clients::mixes(plan, report, "several");
}

// By one command, and by many.

/// How many locks are taken together, and how many such sets are in flight on each connection.
const SETS: [(usize, usize); 4] = [(2, 16), (2, 1), (10, 1), (100, 1)];
/// How many locks a connection goes round on, at least a set for each that is in flight.
const LOCKS: usize = 256;

const TOGETHER: &str = "LOCK.MACQUIRE + LOCK.MRELEASE";
const PIPELINED: &str = "LOCK.ACQUIRE of each + LOCK.RELEASE of each, in one pipeline";
const ONE_LOCK: &str = "LOCK.ACQUIRE + LOCK.RELEASE of one lock";

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
    let rounds = measure(plan, report, &work, [3, 2], start);
    report.rows.extend(rounds.row(&work, TOGETHER, PIPELINED).map(|row| row.at_least(1.0)));
    report.rows.extend(rounds.row(&work, TOGETHER, ONE_LOCK));
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
    let start = || {
        let load = |(who, waiters, locks, _): (&str, usize, usize, _)| {
            let server = Server::shared(Setup::MODULE);
            let others = others(&server, waiters, locks);
            (who.into(), Load::new(rivals::pair(REDISLOCK), &server, pipeline).beside(others))
        };
        OTHERS.map(load).into()
    };
    let rounds = measure(plan, report, &work, [4, 2], start);
    for (who, _, _, bound) in &OTHERS[1..] {
        let row = rounds.row(&format!("{work}, while {who}"), who, QUIET);
        report.rows.extend(row.map(|row| row.at_least(*bound)));
    }
}

/// So many wait, each for the first of its locks; the others of those are free, and reserved.
fn others(server: &Rc<Server>, waiters: usize, locks: usize) -> Net {
    let mut net = Net::with(1, server.port);
    net.fill(1, HELD, &format!("LOCK.ACQUIRE held:{{number}}:0 PX {LONG_LEASE}"), b"*4\r\n");
    let ask = if locks == 1 { "LOCK.ACQUIRE".into() } else { format!("LOCK.MACQUIRE {locks}") };
    let names: String = (0..locks).map(|lock| format!(" held:{{number}}:{lock}")).collect();
    net.fill(1, waiters, &format!("{ask}{names} PX {LEASE} BLOCK 0 NOTIFY told"), b"+QUEUED\r\n");
    net
}

// Who joins a queue.

const WAITS: usize = 10_000;
const JOINS: usize = 500;

const WITHOUT: &str = "LOCK.ACQUIRE ... BLOCK 0 NOTIFY";
const WITH: &str = "LOCK.ACQUIRE ... BLOCK 0 NOTIFY DETECT";

/// How many others wait, for which lock each, and who holds that of its number: in a chain it is the next one of those who wait, so
/// that a search that follows who waits for whom finds another one at each step.
const QUEUES: [(&str, usize, &str, &str); 4] = [
    ("nobody else waits", 0, "lock:{number}", "{owner}"),
    ("10,000 others wait, each for a lock of its own", WAITS, "lock:{number}", "{owner}"),
    ("10,000 others wait for that lock", WAITS, "lock:0", "{owner}"),
    ("10,000 others wait, each for what the next one holds", WAITS, "lock:{next}", "{owner2}"),
];

struct Scene {
    server: Server,
    net: Net,
    wanted: &'static str,
}

impl Scene {
    fn new(waits: usize, wanted: &'static str, holder: &str) -> Self {
        let server = Server::start(Setup::MODULE);
        // One connection has more places here than it may by default.
        server.ask("CONFIG SET lock.max-places 0");
        let mut net = Net::with(1, server.port);
        let take = |lock: &str, owner: &str| format!("LOCK.ACQUIRE {lock} OWNER {owner} PX {LONG_LEASE}");
        // With `NOTIFY` there is a reply when it has joined.
        let join = |lock, owner| take(lock, owner) + " BLOCK 0 NOTIFY told";
        net.fill(1, WAITS + 1, &take("lock:{number}", holder), b"*4\r\n");
        net.fill(1, waits, &join(wanted, "{owner2}"), b"+QUEUED\r\n");
        // Who joins holds a lock that another one waits for, so that a circle through it is not out of the question.
        net.fill(1, JOINS, &take("own:{number}", "{owner3}"), b"*4\r\n");
        net.fill(1, JOINS, &join("own:{number}", "{owner4}"), b"+QUEUED\r\n");
        Self { server, net, wanted }
    }

    /// Some join, each the queue of another lock where there are several, and leave. What one took to join, in µs.
    fn run(&mut self, word: &str) -> Sample {
        let Self { server, net, wanted } = self;
        let mut each = |line: String, expected: &[u8]| {
            let cpu = server.cpu_ns();
            (0..JOINS).for_each(|number| net.out.send(0, &said(&line, number)));
            let begin = Instant::now();
            net.replies(JOINS, |_, reply| assert_eq!(reply, expected, "{}", reply.escape_ascii()));
            let wall = begin.elapsed();
            Sample::each(JOINS, wall, server.cpu_ns() - cpu)
        };
        let join =
            format!("LOCK.ACQUIRE {wanted} OWNER {{owner3}} PX {LONG_LEASE} BLOCK 0 NOTIFY told{word}");
        let sample = each(join, b"+QUEUED\r\n");
        each(format!("LOCK.LEAVE {wanted} {{owner3}}"), b":1\r\n");
        sample
    }
}

/// The time of an acquire that joins a queue, with the word and without it.
fn joins(plan: &Plan, report: &mut Report) {
    for (name, waits, wanted, holder) in QUEUES {
        let start = || {
            let scene = Rc::new(RefCell::new(Scene::new(waits, wanted, holder)));
            let with = |who: &str, word| (who.into(), (Rc::clone(&scene), word));
            vec![with(WITHOUT, ""), with(WITH, " DETECT")]
        };
        let work = format!("joining a queue, {name}");
        let rounds = Rounds::play(&work, "µs", 1, 0..=plan.pick(30, 10), start, |(scene, word)| {
            scene.borrow_mut().run(word)
        });
        let row = rounds.row(&format!("joining a queue with DETECT, {name}"), WITH, WITHOUT);
        report.rows.extend(row.map(|row| row.beside("without DETECT")));
        report.figures.extend(rounds.figures(|_| format!("{JOINS} at once")));
    }
}
