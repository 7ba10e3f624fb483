//! How many instructions the server executes for one acquire and release, and for one handover: counted by Callgrind, so
//! that nothing else that the machine does shows in it.
//!
//! A count depends on the server's build, on the C library and on the processor. What it is times that of `SET NX PX` and
//! `DEL`, counted in the same way on the same server, does not: that ratio is what the guard looks at.

use std::fs;
use std::iter;
use std::ops::RangeInclusive;
use std::process::{self, Command};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::net::Net;
use crate::plan::progress;
use crate::report::{Figure, Report, Row};
use crate::resp;
use crate::rivals::{LEASE, Rival, Scripts};
use crate::server::{Server, Setup};
use crate::stats::Spread;
use crate::waiters::Circle;

/// How often each work is done in any case, so that what happens only at first cancels out.
const BEGIN: usize = 800;

/// How many pairs are sent at once.
const PIPELINE: usize = 16;
/// How many locks they go round on.
const KEYS: usize = 500;
/// How many contend for the lock that is handed over.
const CLIENTS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Pair(Rival),
    /// A pair while each of many other locks is waited for.
    PairBeside,
    Handover,
    /// The same with a token that `BLMOVE` waits for.
    Token,
}

const PAIR: Work = Work::Pair(Rival::Redislock);
/// In the order in which they are done: those last for whom the server listens to keys from then on.
const GUARDED: [Work; 4] = [Work::Pair(Rival::SetDel), PAIR, Work::PairBeside, Work::Handover];

/// How many other locks are waited for.
const OTHERS: usize = 400;

/// The most instructions of the module's own for a pair: where nobody waits for anything, and where each of `OTHERS` locks is
/// waited for.
const OWN: [(Work, f64); 2] = [(PAIR, 1350.0), (Work::PairBeside, 1580.0)];

impl Work {
    fn perform(self, server: &mut Server, times: usize) {
        match self {
            Self::Pair(rival) => pairs(rival, server, times),
            Self::PairBeside => {
                let _waiters = waiters(server);
                pairs(Rival::Redislock, server, times);
            }
            Self::Handover => {
                Circle::new(server, CLIENTS).run(server, times);
            }
            Self::Token => {
                Circle::of_tokens(server, CLIENTS).run(server, times);
            }
        }
        server.wait_for_departures();
    }

    /// How often it is done beside: what a server does once, and differently each time, is to be little of it.
    fn more(self) -> usize {
        match self {
            // Four times as many instructions each, and more.
            Self::Pair(Rival::SetLua | Rival::HashLua) => 6_000,
            _ => 24_000,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pair(_) => "instructions of acquire + release, P=16",
            Self::PairBeside => "instructions of acquire + release, P=16, 400 other locks waited for",
            Self::Handover | Self::Token => "instructions of a handover, 8 clients on one lock",
        }
    }

    fn who(self) -> &'static str {
        match self {
            Self::Pair(rival) => rival.name(),
            Self::Handover | Self::PairBeside => "Redislock",
            Self::Token => "BLMOVE of a token",
        }
    }
}

/// So many pairs of acquire and release on one connection.
fn pairs(rival: Rival, server: &mut Server, count: usize) {
    let scripts = Scripts::load(server);
    let success = rival.success();
    let mut net = Net::with(1, server.port);
    let numbers: Vec<usize> = (0..count).collect();
    for batch in numbers.chunks(PIPELINE) {
        for number in batch {
            let (key, owner) = (format!("lock:{}", number % KEYS), resp::owner(*number));
            net.out.send(0, &scripts.acquire(rival, &key, &owner, LEASE));
            net.out.send(0, &scripts.release(rival, &key, &owner));
        }
        let mut half = 0;
        net.replies(2 * batch.len(), |_, reply| {
            assert!(reply.starts_with(success[half]), "{}: {}", rival.name(), reply.escape_ascii());
            half ^= 1;
        });
    }
}

/// Clients that wait, each for a lock of its own.
fn waiters(server: &mut Server) -> Net {
    let mut net = Net::with(OTHERS, server.port);
    for conn in 0..OTHERS {
        server.ask(&format!("LOCK.ACQUIRE other:{conn} OWNER holder PX {LEASE}0"));
        net.out.send(conn, &resp::words(&format!("LOCK.ACQUIRE other:{conn} BLOCK 0")));
    }
    net.out.flush();
    while server.blocked_clients() < OTHERS {
        thread::sleep(std::time::Duration::from_millis(5));
    }
    net
}

/// What one time of a work takes.
#[derive(Clone, Copy)]
struct Cost {
    all: f64,
    /// Of the module's code alone, without what it calls of the server's.
    own: f64,
}

/// The instructions of one time of each work: those of a server that did it more often, beyond those of one that did not.
fn count(works: &[Work]) -> Vec<(Work, Cost)> {
    let total = |more: Option<Work>| {
        let mut server = Server::start(Setup { callgrind: true, ..Setup::MODULE });
        for &work in works {
            work.perform(&mut server, if Some(work) == more { BEGIN + work.more() } else { BEGIN });
        }
        server.instructions()
    };
    // Two at a time: each keeps one processor busy, and what else runs does not change a count.
    let servers: Vec<Option<Work>> = iter::once(None).chain(works.iter().copied().map(Some)).collect();
    let totals: Vec<(f64, f64)> = servers
        .chunks(2)
        .flat_map(|some| {
            thread::scope(|scope| {
                let counting: Vec<_> = some.iter().map(|&more| scope.spawn(move || total(more))).collect();
                counting.into_iter().map(|total| total.join().expect("a count")).collect::<Vec<_>>()
            })
        })
        .collect();
    let (base, totals) = totals.split_first().expect("the first is the base");
    let each = |(&work, total): (&Work, &(f64, f64))| {
        let each = |count: f64, base: f64| ((count - base) / work.more() as f64).round();
        let cost = Cost { all: each(total.0, base.0), own: each(total.1, base.1) };
        let Cost { all, own } = cost;
        progress(&format!("  {}, {}: {all}, of which the module's own: {own}", work.name(), work.who()));
        (work, cost)
    };
    works.iter().zip(totals).map(each).collect()
}

fn has_callgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

pub(crate) fn run(report: &mut Report) {
    if !has_callgrind() {
        report.note("instructions: left out, Valgrind is not installed".into());
        return;
    }
    let mut rivals = Rival::all(&mut Server::start(Setup::PLAIN), report);
    // All are counted on a server with the module.
    rivals.retain(|rival| *rival != Rival::SetDelBesideModule);
    let works = rivals.into_iter().map(Work::Pair).chain([Work::PairBeside, Work::Token, Work::Handover]);
    let counts = count(&works.collect::<Vec<_>>());
    for ours in [PAIR, Work::PairBeside, Work::Handover] {
        let of_its_kind = || counts.iter().filter(move |(work, _)| work.name() == ours.name());
        let (_, our_count) = of_its_kind().find(|(work, _)| *work == ours).expect("it was counted");
        for &(work, Cost { all: count, .. }) in of_its_kind() {
            if work != ours {
                report.row(Row {
                    work: work.name().into(),
                    beside: work.who().into(),
                    bound: None,
                    unit: "x".into(),
                    value: Spread::one(count / our_count.all),
                    cpu: None,
                });
            }
            report.figure(Figure {
                work: work.name().into(),
                who: work.who().into(),
                unit: "instructions".into(),
                value: Spread::one(count),
                cpu_us: None,
                remark: String::new(),
            });
        }
    }
}

/// Where the counts stand that later ones are compared with.
const RECORDED: &str = "benches/compare/instructions.json";
/// What a count may be of the recorded one. Far below, it has not counted all there is, or is so much better that the better
/// one is to be kept.
const ALLOWED: RangeInclusive<f64> = 0.85..=1.05;
/// How often each is counted, for the median: where a server's memory lies, and how its tables are hashed, is luck, which
/// moves a pair's count by half a percent to either side, a handover's by 1 %.
const COUNTS: usize = 3;
/// How often that is done, where a count seems to have changed by more.
const TRIES: usize = 2;

/// Counts of one server.
#[derive(Serialize, Deserialize)]
struct Counts {
    server: String,
    set_and_del: f64,
    acquire_and_release: f64,
    handover: f64,
    /// Of the module's own, in the order of `OWN`.
    own: [f64; 2],
}

impl Counts {
    fn here(server: String) -> Self {
        let counts: Vec<_> = (0..COUNTS).map(|_| count(&GUARDED)).collect();
        let median = |which: Work, part: fn(&Cost) -> f64| {
            let of = |counts: &Vec<(Work, Cost)>| {
                let (_, cost) = counts.iter().find(|(work, _)| *work == which).expect("it was counted");
                part(cost)
            };
            Spread::of(counts.iter().map(of)).median
        };
        Self {
            server,
            set_and_del: median(GUARDED[0], |cost| cost.all),
            acquire_and_release: median(PAIR, |cost| cost.all),
            handover: median(Work::Handover, |cost| cost.all),
            own: OWN.map(|(work, _)| median(work, |cost| cost.own)),
        }
    }

    fn recorded() -> Self {
        let text = fs::read_to_string(RECORDED).unwrap_or_else(|error| panic!("{RECORDED}: {error}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{RECORDED}: {error}"))
    }

    /// What may not grow, and how many times as much as `SET` and `DEL` it takes.
    fn ratios(&self) -> [(&'static str, f64, f64); 2] {
        [("acquire + release", self.acquire_and_release), ("a handover", self.handover)]
            .map(|(what, count)| (what, count, count / self.set_and_del))
    }

    /// Whether nothing has changed too much; prints how much.
    fn is_within(&self, recorded: &Self) -> bool {
        let mut within = true;
        for ((what, count, ratio), (_, count_then, ratio_then)) in
            self.ratios().into_iter().zip(recorded.ratios())
        {
            let growth = ratio / ratio_then;
            within &= ALLOWED.contains(&growth);
            println!(
                "{what}: {count:.0}, {ratio:.3} times; recorded: {count_then:.0}, {ratio_then:.3} times; {:+.1} %{}",
                (growth - 1.0) * 100.0,
                if growth > *ALLOWED.end() {
                    ": GROWN TOO MUCH"
                } else if growth < *ALLOWED.start() {
                    ": SO LITTLE IS NOT TO BE BELIEVED"
                } else {
                    ""
                },
            );
        }
        for ((work, most), own) in OWN.into_iter().zip(self.own) {
            within &= own <= most;
            let verdict = if own > most { ": TOO MANY" } else { "" };
            println!("{}, the module's own: {own:.0} of at most {most}{verdict}", work.name());
        }
        within
    }
}

/// The kind of a server and the first two parts of its version: "Redis 7.0".
fn line(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(line, _)| line)
}

/// Writes the counts of this server down.
pub(crate) fn record(version: String) {
    let counts = Counts::here(version);
    let text = serde_json::to_string_pretty(&counts).expect("plain data");
    fs::write(RECORDED, text + "\n").unwrap_or_else(|error| panic!("{RECORDED}: {error}"));
    println!("recorded in {RECORDED}");
}

/// Compares with what was written down; ends the process with 1 where a count has changed too much, and with 77 where nothing
/// can be said.
pub(crate) fn check(version: String) {
    let recorded = Counts::recorded();
    if line(&version) != line(&recorded.server) {
        println!("the recorded counts are those of {}, this is {version}", recorded.server);
        process::exit(77);
    }
    println!("instructions, and times those of SET NX PX + DEL on the same server:");
    if (0..TRIES).any(|_| Counts::here(version.clone()).is_within(&recorded)) {
        return;
    }
    println!(
        "at most {:.0} % more is allowed, and {:.0} % less; on purpose? scripts/instructions --record",
        (ALLOWED.end() - 1.0) * 100.0,
        (1.0 - ALLOWED.start()) * 100.0,
    );
    process::exit(1);
}
