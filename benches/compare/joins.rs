//! What an acquire costs that joins a queue, on a server where 10,000 others wait: as it is, and with a word that has the
//! server look for more before it waits.

use std::time::Instant;

use crate::net::Net;
use crate::plan::{Plan, order, progress};
use crate::report::{Figure, Report, Row};
use crate::resp::{owner, words};
use crate::server::{Server, Setup};
use crate::stats::Spread;

/// The words that are looked at, each beside an acquire without it.
const WORDS: &[&str] = &["DETECT"];

/// How many wait.
const WAITS: usize = 10_000;
/// How many join in a turn.
const JOINS: usize = 500;
/// In ms; longer than this takes.
const LEASE: &str = "3600000";

/// For what the others wait.
#[derive(Clone, Copy)]
enum Others {
    /// Nobody else waits.
    None,
    Apart,
    OneLock,
    /// A search that follows who waits for whom finds another one at each step.
    Chain,
}

impl Others {
    const ALL: [Self; 4] = [Self::None, Self::Apart, Self::OneLock, Self::Chain];

    fn name(self) -> &'static str {
        match self {
            Self::None => "nobody else waits",
            Self::Apart => "10,000 others wait, each for a lock of its own",
            Self::OneLock => "10,000 others wait for that lock",
            Self::Chain => "10,000 others wait, each for what the next one holds",
        }
    }

    /// Which lock the one of that number waits for.
    fn lock(self, number: usize) -> usize {
        match self {
            Self::None | Self::Apart => number,
            Self::OneLock => 0,
            Self::Chain => number + 1,
        }
    }

    /// Who holds that lock.
    fn holder(self, lock: usize) -> String {
        // Only in a chain is it one of those who wait.
        if matches!(self, Self::Chain) { waiter(lock) } else { owner(WAITS + lock) }
    }
}

fn waiter(number: usize) -> String {
    owner(number)
}

/// Who joins. Each holds a lock that another one waits for, so that a circle through it is not out of the question.
fn joiner(number: usize) -> String {
    owner(2 * WAITS + 1 + number)
}

fn take(key: &str, owner: &str) -> String {
    format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE}")
}

/// It waits with `NOTIFY`: then there is a reply when it has joined.
fn join(key: &str, owner: &str) -> String {
    format!("{} BLOCK 0 NOTIFY told", take(key, owner))
}

/// Those who wait, on a server of their own.
struct Scene {
    server: Server,
    net: Net,
    others: Others,
}

impl Scene {
    fn new(others: Others) -> Self {
        let mut server = Server::start(Setup::MODULE);
        // One connection has more places here than it may by default.
        server.ask("CONFIG SET lock.max-places 0");
        let mut net = Net::with(1, server.port);
        let lock = |number: usize| format!("lock:{number}");
        net.fill(1, (0..=WAITS).map(|number| take(&lock(number), &others.holder(number))), b"*4\r\n");
        let waits = if matches!(others, Others::None) { 0 } else { WAITS };
        let waits = (0..waits).map(|number| join(&lock(others.lock(number)), &waiter(number)));
        net.fill(1, waits, b"+QUEUED\r\n");
        let own = |number: usize| format!("own:{number}");
        net.fill(1, (0..JOINS).map(|number| take(&own(number), &joiner(number))), b"*4\r\n");
        let wanted = (0..JOINS).map(|number| join(&own(number), &owner(3 * WAITS + number)));
        net.fill(1, wanted, b"+QUEUED\r\n");
        Self { server, net, others }
    }

    /// Some join, each the queue of another lock where there are several, and leave. What one took to join.
    fn run(&mut self, word: &str) -> Sample {
        let Self { server, net, others } = self;
        let key = |number| format!("lock:{}", others.lock(number));
        let mut each = |request: &dyn Fn(usize) -> String, expected: &[u8]| {
            let cpu = server.cpu_ns();
            (0..JOINS).for_each(|number| net.out.send(0, &words(&request(number))));
            let begin = Instant::now();
            net.replies(JOINS, |_, reply| assert_eq!(reply, expected, "{}", reply.escape_ascii()));
            let wall = begin.elapsed().as_secs_f64();
            let cpu = server.cpu_ns() - cpu;
            Sample { wall_us: wall * 1e6 / JOINS as f64, cpu_us: cpu / 1e3 / JOINS as f64 }
        };
        let sample =
            each(&|number| format!("{} {word}", join(&key(number), &joiner(number))), b"+QUEUED\r\n");
        each(&|number| format!("LOCK.LEAVE {} {}", key(number), joiner(number)), b":1\r\n");
        sample
    }
}

struct Sample {
    wall_us: f64,
    cpu_us: f64,
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for others in Others::ALL {
        measure(others, WORDS, plan.pick(30, 10), report);
    }
}

/// The time of an acquire that joins a queue, without any word and with each of these.
fn measure(others: Others, with: &[&str], rounds: usize, report: &mut Report) {
    let mut scene = Scene::new(others);
    let words: Vec<&str> = [""].into_iter().chain(with.iter().copied()).collect();
    let mut samples: Vec<Vec<Sample>> = words.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for place in order(words.len(), round) {
            let sample = scene.run(words[place]);
            // The first round warms up.
            if round > 0 {
                samples[place].push(sample);
            }
        }
    }
    progress(&format!("  joining a queue, {}: {rounds}/{rounds}", others.name()));
    let ratio = |place: usize, of: fn(&Sample) -> f64| {
        Spread::of(samples[place].iter().zip(&samples[0]).map(|(with, without)| of(with) / of(without)))
    };
    for (place, word) in words.iter().enumerate().skip(1) {
        report.row(Row {
            work: format!("joining a queue with {word}, {}", others.name()),
            beside: format!("without {word}"),
            bound: None,
            unit: "x".into(),
            value: ratio(place, |sample| sample.wall_us),
            cpu: Some(ratio(place, |sample| sample.cpu_us)),
        });
    }
    for (word, samples) in words.iter().zip(&samples) {
        report.figure(Figure {
            work: format!("joining a queue, {}", others.name()),
            who: format!("LOCK.ACQUIRE ... BLOCK 0 NOTIFY {word}").trim_end().into(),
            unit: "µs".into(),
            value: Spread::of(samples.iter().map(|sample| sample.wall_us)),
            cpu_us: Some(Spread::of(samples.iter().map(|sample| sample.cpu_us))),
            remark: format!("{JOINS} at once"),
        });
    }
}
