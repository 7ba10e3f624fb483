//! Acquire and release, with 16 pairs in flight on each connection and with one command; with nothing saved, with an
//! append-only file, and with a replica.

use std::time::Duration;

use crate::load::{Load, Sample};
use crate::pictures::{self, Bar, Group};
use crate::plan::{Plan, order, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::rivals::Rival;
use crate::server::{Server, Setup};
use crate::stats::Spread;

/// The samples of each contestant, by its name, round by round.
pub(crate) struct Rounds(pub(crate) Vec<(&'static str, Vec<Sample>)>);

impl Rounds {
    /// None: it was not measured.
    fn of(&self, who: &str) -> Option<&[Sample]> {
        let (_, samples) = self.0.iter().find(|(name, _)| *name == who)?;
        Some(samples)
    }

    /// One contestant beside another, where that was measured.
    pub(crate) fn row(&self, work: &str, who: &str, beside: &str, bound: Option<f64>) -> Option<Row> {
        let (ours, theirs) = (self.of(who)?, self.of(beside)?);
        let pairs = || ours.iter().zip(theirs);
        Some(Row {
            work: work.into(),
            beside: beside.into(),
            bound: bound.map(Bound::AtLeast),
            unit: "x".into(),
            value: Spread::of(pairs().map(|(ours, theirs)| ours.per_second / theirs.per_second)),
            cpu: Some(Spread::of(pairs().map(|(ours, theirs)| theirs.cpu_ns / ours.cpu_ns))),
        })
    }

    pub(crate) fn figures<'a>(&'a self, work: &'a str) -> impl Iterator<Item = Figure> + 'a {
        self.0.iter().map(|(who, samples)| Figure {
            work: work.into(),
            who: (*who).into(),
            unit: "pairs/s".into(),
            value: Spread::of(samples.iter().map(|sample| sample.per_second)),
            cpu_us: Some(Spread::of(samples.iter().map(|sample| sample.cpu_ns / 1e3))),
            remark: format!(
                "server {:.0} % busy, generator {:.0} %",
                100.0 * median(samples, |sample| sample.busy),
                100.0 * median(samples, |sample| sample.generator_busy),
            ),
        })
    }
}

/// How busy a server is to be at least where throughput is what it can do.
const AT_ITS_LIMIT: f64 = 0.95;
/// Up to here the generator is not what a server waits for.
const GENERATOR_HAS_TIME: f64 = 0.8;

impl Rounds {
    /// Says in the report whose server had time to spare: that figure is not what the server can do.
    pub(crate) fn warn(&self, work: &str, report: &mut Report) {
        let busy = |samples: &[Sample]| median(samples, |sample| sample.busy);
        let idle = self.0.iter().filter(|(_, samples)| busy(samples) < AT_ITS_LIMIT);
        let idle: Vec<String> =
            idle.map(|(who, samples)| format!("{who} {:.0} %", 100.0 * busy(samples))).collect();
        if !idle.is_empty() {
            let generator = self.0.iter().map(|(_, samples)| median(samples, |sample| sample.generator_busy));
            let why = if generator.fold(0.0, f64::max) > GENERATOR_HAS_TIME {
                "The generator is too slow, or other"
            } else {
                "Other"
            };
            report.warn(&format!(
                "{work}: the server was not at its limit ({}). {why} programs took the processor; rely on the column \
                 \"by server CPU\".",
                idle.join(", "),
            ));
        }
    }
}

fn median(samples: &[Sample], of: fn(&Sample) -> f64) -> f64 {
    Spread::of(samples.iter().map(of)).median
}

/// How thoroughly.
struct Effort {
    /// How often servers are started anew: where a process' memory happens to lie makes it faster or slower.
    starts: usize,
    /// How often each rival has its turn on those.
    rounds: usize,
    /// How long a turn is. Short, so that what else the machine does hits all rivals alike.
    length: Duration,
}

/// Measures the rivals in turn, round by round.
fn measure(
    work: &str,
    start: impl Fn() -> Servers,
    rivals: &[Rival],
    pipeline: usize,
    Effort { starts, rounds, length }: Effort,
) -> Rounds {
    let mut samples: Vec<_> = rivals.iter().map(|rival| (rival.name(), Vec::new())).collect();
    for begun in 1..=starts {
        let mut servers = start();
        let mut loads: Vec<Load> =
            rivals.iter().map(|&rival| Load::new(rival, servers.of(rival), pipeline)).collect();
        for round in 0..=rounds {
            for place in order(loads.len(), round) {
                let sample = loads[place].run(servers.of(rivals[place]), length);
                // The first round warms up.
                if round > 0 {
                    samples[place].1.push(sample);
                }
            }
        }
        progress(&format!("  {work}: {begun}/{starts}"));
    }
    Rounds(samples)
}

/// One without the module, one with it.
struct Servers {
    plain: Server,
    module: Server,
    /// Kept running.
    _replicas: Vec<Server>,
}

impl Servers {
    fn start(setup: Setup) -> Self {
        let with_module = Setup { module: true, ..setup };
        Self { plain: Server::start(setup), module: Server::start(with_module), _replicas: Vec::new() }
    }

    fn with_replicas() -> Self {
        let mut servers = Self::start(Setup::PLAIN);
        servers._replicas = vec![servers.plain.replica(Setup::PLAIN), servers.module.replica(Setup::MODULE)];
        servers
    }

    fn of(&mut self, rival: Rival) -> &mut Server {
        if rival.needs_module() { &mut self.module } else { &mut self.plain }
    }
}

/// A rival, and how many times as good Redislock is to be, where that is fixed.
type Bounded = (Rival, Option<f64>);

/// By pipeline depth.
const BOUNDS: [(usize, &[Bounded]); 2] = [
    (
        16,
        &[
            (Rival::SetLua, Some(1.8)),
            (Rival::HashLua, Some(3.8)),
            (Rival::SetDel, Some(0.85)),
            (Rival::SetDelBesideModule, None),
            (Rival::SetDelifeq, None),
            (Rival::SetDelex, None),
        ],
    ),
    (
        1,
        &[
            (Rival::SetDel, Some(0.95)),
            (Rival::SetDelBesideModule, None),
            (Rival::SetLua, None),
            (Rival::SetDelifeq, None),
            (Rival::SetDelex, None),
            (Rival::HashLua, None),
        ],
    ),
];

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let rivals = Rival::all(&mut Server::start(Setup::PLAIN), report);
    let mut groups = Vec::new();
    for (pipeline, bounds) in BOUNDS {
        let work = format!("acquire + release, P={pipeline}");
        let effort = Effort { starts: plan.pick(6, 3), rounds: plan.pick(10, 5), length: plan.ms(200, 120) };
        let rounds = measure(&work, || Servers::start(Setup::PLAIN), &rivals, pipeline, effort);
        rounds.warn(&work, report);
        for &(beside, bound) in bounds {
            report.rows(rounds.row(&work, Rival::Redislock.name(), beside.name(), bound));
        }
        let mut bars = Vec::new();
        for figure in rounds.figures(&work) {
            bars.push(Bar { name: figure.who.clone(), value: figure.value.median / 1e3 });
            report.figure(figure);
        }
        groups.push(Group { title: format!("P={pipeline}"), bars });
    }
    pictures::bars(
        plan,
        "throughput",
        "Acquire + release: thousand pairs per second, each P in its own scale",
        &groups,
    );
}

/// The same with what makes locks outlive a server.
pub(crate) fn run_durable(plan: &Plan, report: &mut Report) {
    const AOF: Setup = Setup { aof: true, ..Setup::PLAIN };
    const RIVALS: [Rival; 4] = [Rival::Redislock, Rival::SetDel, Rival::SetLua, Rival::HashLua];
    type Start = fn() -> Servers;
    for (how, start) in [
        ("AOF each second", (|| Servers::start(AOF)) as Start),
        ("one replica", Servers::with_replicas as Start),
    ] {
        let work = format!("acquire + release, P=16, {how}");
        let effort = Effort { starts: plan.pick(3, 1), rounds: plan.pick(10, 6), length: plan.ms(200, 150) };
        let rounds = measure(&work, start, &RIVALS, 16, effort);
        rounds.warn(&work, report);
        for &beside in RIVALS.iter().filter(|&&rival| rival != Rival::Redislock) {
            report.rows(rounds.row(&work, Rival::Redislock.name(), beside.name(), None));
        }
        for figure in rounds.figures(&work) {
            report.figure(figure);
        }
    }
}
