//! How many instructions the server executes for one acquire and release, and for one handover. Callgrind counts them, so other work on the
//! machine has no influence.
//!
//! A count depends on the server's build, on the C library and on the processor. Its ratio to the count of `SET NX PX` and `DEL` on the
//! same server does not, so the guard checks this ratio.

use std::ops::RangeInclusive;
use std::process::{self, Command};
use std::rc::Rc;
use std::time::Duration;
use std::{fs, iter, thread};

use serde::{Deserialize, Serialize};

use crate::net::Net;
use crate::report::{Figure, Report, Row};
use crate::rivals::{
    self, BLMOVE, HASH_LUA, LEASE, LONG_LEASE, REDISLOCK, SET_DEL, SET_DEL_BESIDE_MODULE, SET_LUA,
};
use crate::rounds::{Plan, progress, spread};
use crate::server::{Server, Setup};
use crate::stats::Spread;
use crate::waiters::Circle;

/// How often each work is done on every counted server, so that what happens only at first cancels out.
const BEGIN: usize = 800;

const PIPELINE: usize = 16;
const KEYS: usize = 500;
const CLIENTS: usize = 8;

const OTHERS: usize = 400;

type Work<'a> = (&'static str, &'a str);

const PAIR: &str = "instructions of acquire + release, P=16";
/// A pair while clients wait for each of many other locks.
const PAIR_BESIDE: &str = "instructions of acquire + release, P=16, 400 other locks waited for";
const HANDOVER: &str = "instructions of a handover, 8 clients on one lock";

/// The order in which the works are done. The last ones make the server listen to keyspace events, which it then keeps doing.
const GUARDED: [Work<'_>; 4] =
    [(PAIR, SET_DEL), (PAIR, REDISLOCK), (PAIR_BESIDE, REDISLOCK), (HANDOVER, REDISLOCK)];

/// For two works of `GUARDED`, by index: the most instructions that the module's own code may take for a pair, without waiters, and with a
/// waiter for each of `OTHERS` locks.
const OWN: [(usize, f64); 2] = [(1, 1350.0), (2, 1580.0)];

fn perform((what, who): Work<'_>, server: &Rc<Server>, times: usize) {
    if what == HANDOVER {
        Circle::new(who, server, CLIENTS).run(times, Duration::MAX);
    } else {
        let _waiters = (what == PAIR_BESIDE).then(|| waiters(server));
        pairs(who, server, times);
    }
    server.wait_for_departures();
}

/// How often the work is done in addition: often enough that the varying cost of a server's start hardly counts.
fn more((_, who): Work<'_>) -> usize {
    // A script takes at least four times as many instructions, so a quarter of the runs is enough.
    if who == SET_LUA || who == HASH_LUA { 6_000 } else { 24_000 }
}

/// Does this many pairs of acquire and release on one connection.
fn pairs(who: &str, server: &Server, count: usize) {
    let rival = rivals::pair(who).on(server);
    let success = rival.success();
    let mut net = Net::with(1, server.port);
    let numbers: Vec<usize> = (0..count).collect();
    for batch in numbers.chunks(PIPELINE) {
        for number in batch {
            let key = format!("lock:{}", number % KEYS);
            net.out.send(0, &rival.acquire(&key, *number, LEASE));
            net.out.send(0, &rival.release(&key, *number));
        }
        let mut half = 0;
        net.replies(2 * batch.len(), |_, reply| {
            assert!(reply.starts_with(success[half]), "{who}: {}", reply.escape_ascii());
            half ^= 1;
        });
    }
}

/// Connects clients that wait, each for a lock of its own.
fn waiters(server: &Server) -> Net {
    let mut net = Net::with(OTHERS, server.port);
    net.fill(1, OTHERS, &format!("LOCK.ACQUIRE other:{{number}} OWNER holder PX {LONG_LEASE}"), b"*4\r\n");
    net.block(0, OTHERS, "LOCK.ACQUIRE other:{number} BLOCK 0");
    net.wait_until(|| server.blocked_clients() >= OTHERS);
    net
}

/// Returns the instructions of one execution of each work, and the part of them in the module's own code. Each is the difference between a
/// server that did the work more often and one that did not.
fn count(works: &[Work<'_>]) -> Vec<[f64; 2]> {
    let total = |extra: Option<usize>| {
        let server = Server::shared(Setup { callgrind: true, ..Setup::MODULE });
        // At first, each pair takes hundreds of instructions more, until the module has checked that nobody listens to what is replicated.
        // How many pairs this concerns depends on the machine's speed, so the check must be over.
        while server.info("server", "uptime_in_seconds") < 2.0 {
            thread::sleep(Duration::from_millis(50));
        }
        for (place, &work) in works.iter().enumerate() {
            perform(work, &server, if Some(place) == extra { BEGIN + more(work) } else { BEGIN });
        }
        Rc::into_inner(server).expect("a server that nobody uses").instructions()
    };
    // Two servers run at a time, because each keeps one processor busy. This does not change the counts.
    let servers: Vec<Option<usize>> = iter::once(None).chain((0..works.len()).map(Some)).collect();
    let totals = servers.chunks(2).flat_map(|some| {
        thread::scope(|scope| {
            let counting: Vec<_> = some.iter().map(|&extra| scope.spawn(move || total(extra))).collect();
            counting.into_iter().map(|total| total.join().expect("a count")).collect::<Vec<_>>()
        })
    });
    let totals: Vec<[f64; 2]> = totals.collect();
    let each = |(&work, total): (&Work<'_>, &[f64; 2])| {
        let [all, own] = [0, 1].map(|part| ((total[part] - totals[0][part]) / more(work) as f64).round());
        progress(&format!("  {}, {}: {all}, of which the module's own: {own}", work.0, work.1));
        [all, own]
    };
    works.iter().zip(&totals[1..]).map(each).collect()
}

pub(crate) fn run(_: &Plan, report: &mut Report) {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return report.note("instructions: left out, Valgrind is not installed".into());
    }
    let rivals = rivals::known_pairs(report);
    let mut works: Vec<Work<'_>> = rivals.iter().map(|rival| (PAIR, &rival.name[..])).collect();
    // All work is counted on a server with the module, so this contestant would be the same as `SET_DEL`.
    works.retain(|(_, who)| *who != SET_DEL_BESIDE_MODULE);
    works.extend([(PAIR_BESIDE, REDISLOCK), (HANDOVER, BLMOVE), (HANDOVER, REDISLOCK)]);
    let counts = count(&works);
    for what in [PAIR, PAIR_BESIDE, HANDOVER] {
        let of_its_kind = || works.iter().zip(&counts).filter(|(work, _)| work.0 == what);
        let (_, [ours, _]) = of_its_kind().find(|(work, _)| work.1 == REDISLOCK).expect("it was counted");
        for ((_, who), [count, _]) in of_its_kind() {
            if *who != REDISLOCK {
                report.rows.push(Row::ratio(what, who, Spread::one(count / ours)));
            }
            report.figures.push(Figure::new(what, who, "instructions", Spread::one(*count)));
        }
    }
}

/// The recorded counts, with which later counts are compared.
const RECORDED: &str = "benches/compare/instructions.json";
/// The allowed ratio of a count to the recorded one. A count far below means that something was not counted, or that the better count
/// should be recorded.
const ALLOWED: RangeInclusive<f64> = 0.85..=1.05;
/// How often each work is counted, for the median, if a figure is recorded, or if the first count seems to have changed too much: memory
/// addresses and hash seeds are random, and change a pair's count by half a percent, and a handover's by 1 %.
const COUNTS: usize = 3;

#[derive(Serialize, Deserialize)]
struct Counts {
    server: String,
    set_and_del: f64,
    acquire_and_release: f64,
    handover: f64,
    /// The module's own instructions, in the order of `OWN`.
    own: [f64; 2],
}

impl Counts {
    fn here(server: String, times: usize) -> Self {
        let counts: Vec<_> = (0..times).map(|_| count(&GUARDED)).collect();
        let median = |place: usize, part: usize| spread(&counts, |counts| counts[place][part]).median;
        let [set_and_del, acquire_and_release, _, handover] = [0, 1, 2, 3].map(|place| median(place, 0));
        Self {
            server,
            set_and_del,
            acquire_and_release,
            handover,
            own: OWN.map(|(place, _)| median(place, 1)),
        }
    }

    fn recorded() -> Self {
        let text = fs::read_to_string(RECORDED).unwrap_or_else(|error| panic!("{RECORDED}: {error}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{RECORDED}: {error}"))
    }

    /// Returns the counts that may not grow, with their ratios to `SET` and `DEL`.
    fn ratios(&self) -> [(&'static str, f64, f64); 2] {
        [("acquire + release", self.acquire_and_release), ("a handover", self.handover)]
            .map(|(what, count)| (what, count, count / self.set_and_del))
    }

    /// Prints how much each ratio has changed. Returns whether all changes are allowed.
    fn is_within(&self, recorded: &Self) -> bool {
        let mut within = true;
        for ((what, count, ratio), (_, then, ratio_then)) in self.ratios().into_iter().zip(recorded.ratios())
        {
            let growth = ratio / ratio_then;
            within &= ALLOWED.contains(&growth);
            let verdict = match growth {
                _ if growth > *ALLOWED.end() => ": GROWN TOO MUCH",
                _ if growth < *ALLOWED.start() => ": SO LITTLE IS NOT TO BE BELIEVED",
                _ => "",
            };
            let percent = (growth - 1.0) * 100.0;
            println!(
                "{what}: {count:.0}, {ratio:.3} times; recorded: {then:.0}, {ratio_then:.3} times; \
                 {percent:+.1} %{verdict}"
            );
        }
        for ((place, most), own) in OWN.into_iter().zip(self.own) {
            within &= own <= most;
            let verdict = if own > most { ": TOO MANY" } else { "" };
            println!("{}, the module's own: {own:.0} of at most {most}{verdict}", GUARDED[place].0);
        }
        within
    }
}

/// The kind of a server and the first two parts of its version: "Redis 7.0".
fn line(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(line, _)| line)
}

pub(crate) fn record(version: String) {
    let counts = Counts::here(version, COUNTS);
    let text = serde_json::to_string_pretty(&counts).expect("plain data");
    fs::write(RECORDED, text + "\n").unwrap_or_else(|error| panic!("{RECORDED}: {error}"));
    println!("recorded in {RECORDED}");
}

/// Compares with the recorded counts. Ends the process with 1 if a count has changed too much, and with 77 if there is nothing to compare
/// with.
pub(crate) fn check(version: String) {
    let recorded = Counts::recorded();
    if line(&version) != line(&recorded.server) {
        println!("the recorded counts are those of {}, this is {version}", recorded.server);
        process::exit(77);
    }
    println!("instructions, and times those of SET NX PX + DEL on the same server:");
    if [1, COUNTS].into_iter().any(|times| Counts::here(version.clone(), times).is_within(&recorded)) {
        return;
    }
    println!(
        "at most {:.0} % more is allowed, and {:.0} % less; on purpose? scripts/instructions --record",
        (ALLOWED.end() - 1.0) * 100.0,
        (1.0 - ALLOWED.start()) * 100.0,
    );
    process::exit(1);
}
