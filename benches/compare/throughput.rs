//! Acquire and release, with 16 pairs in flight on each connection and with one command; with nothing saved, with an
//! append-only file, and with a replica.

use std::time::Duration;

use crate::load::{Load, Sample};
use crate::pictures::{self, Bar, Group};
use crate::plan::{Plan, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::rivals::Rival;
use crate::server::{Server, Setup};
use crate::stats::Spread;

/// Every rival's samples, round by round.
struct Rounds(Vec<(Rival, Vec<Sample>)>);

impl Rounds {
    fn of(&self, rival: Rival) -> &[Sample] {
        let found = self.0.iter().find(|(of, _)| *of == rival);
        found.map(|(_, samples)| &samples[..]).expect("it was measured")
    }

    fn row(&self, work: &str, beside: Rival, bound: Option<f64>) -> Row {
        let pairs = || self.of(Rival::Redislock).iter().zip(self.of(beside));
        Row {
            work: work.into(),
            beside: beside.name().into(),
            bound: bound.map(Bound::AtLeast),
            unit: "x",
            value: Spread::of(pairs().map(|(ours, theirs)| ours.per_second / theirs.per_second)),
            cpu: Some(Spread::of(pairs().map(|(ours, theirs)| theirs.cpu_ns / ours.cpu_ns))),
        }
    }

    fn figures<'a>(&'a self, work: &'a str) -> impl Iterator<Item = Figure> + 'a {
        self.0.iter().map(|(rival, samples)| Figure {
            work: work.into(),
            who: rival.name().into(),
            unit: "pairs/s",
            value: Spread::of(samples.iter().map(|sample| sample.per_second)),
            cpu_us: Some(Spread::of(samples.iter().map(|sample| sample.cpu_ns / 1e3))),
            remark: format!("server {:.0} % busy", 100.0 * Spread::of(samples.iter().map(|s| s.busy)).median),
        })
    }
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

/// Measures the rivals in turn, round by round; each round begins with another one.
fn measure(
    work: &str,
    start: impl Fn() -> Servers,
    rivals: &[Rival],
    pipeline: usize,
    Effort { starts, rounds, length }: Effort,
) -> Rounds {
    let mut samples: Vec<_> = rivals.iter().map(|&rival| (rival, Vec::new())).collect();
    for begun in 1..=starts {
        let mut servers = start();
        let mut loads: Vec<Load> =
            rivals.iter().map(|&rival| Load::new(rival, servers.of(rival), pipeline)).collect();
        for round in 0..=rounds {
            for turn in 0..loads.len() {
                let place = (turn + round) % loads.len();
                let load = &mut loads[place];
                let sample = load.run(servers.of(load.rival), length);
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
        ],
    ),
    (
        1,
        &[
            (Rival::SetDel, Some(0.95)),
            (Rival::SetDelBesideModule, None),
            (Rival::SetLua, None),
            (Rival::HashLua, None),
        ],
    ),
];

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let mut groups = Vec::new();
    for (pipeline, bounds) in BOUNDS {
        let work = format!("acquire + release, P={pipeline}");
        let effort = Effort { starts: plan.pick(6, 3), rounds: plan.pick(10, 5), length: plan.ms(200, 120) };
        let rounds = measure(&work, || Servers::start(Setup::PLAIN), &Rival::ALL, pipeline, effort);
        for &(beside, bound) in bounds {
            report.row(rounds.row(&work, beside, bound));
        }
        let mut bars = Vec::new();
        for figure in rounds.figures(&work) {
            bars.push(Bar { name: figure.who.clone(), value: figure.value.median / 1e3 });
            report.figure(figure);
        }
        groups.push(Group { title: format!("P={pipeline}"), bars });
    }
    pictures::bars(plan, "throughput", "Acquire + release: thousand pairs a second, 50 connections", &groups);
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
        for &beside in RIVALS.iter().filter(|&&rival| rival != Rival::Redislock) {
            report.row(rounds.row(&work, beside, None));
        }
        for figure in rounds.figures(&work) {
            report.figure(figure);
        }
    }
}
