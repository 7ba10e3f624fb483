//! One lock, eight clients: how often it changes hands, and how long it lies idle in between.

use crate::contest::{Contest, Sample, Wait};
use crate::pictures::{self, Curve};
use crate::plan::{Plan, order, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::server::{Server, Setup};
use crate::stats::{Spread, percentile, sorted};

const CLIENTS: usize = 8;
const WAITS: [Wait; 6] =
    [Wait::Redislock, Wait::Blmove, Wait::PubSub, Wait::Poll(10), Wait::Poll(100), Wait::Session];

/// The place of Redislock with `SESSION` among them.
const SESSION: usize = 5;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let (starts, rounds, length) = (plan.pick(5, 2), plan.pick(10, 6), plan.ms(200, 150));
    let mut samples = WAITS.map(|_| Vec::new());
    // Started anew some times: where a process' memory happens to lie makes it faster or slower.
    for begun in 1..=starts {
        let (mut plain, mut module) = (Server::start(Setup::PLAIN), Server::start(Setup::MODULE));
        let mut contests = WAITS.map(|wait| {
            let server = if wait.needs_module() { &mut module } else { &mut plain };
            Contest::new(wait, server, &format!("contested:{wait:?}"), CLIENTS)
        });
        for round in 0..=rounds {
            for place in order(contests.len(), round) {
                let contest = &mut contests[place];
                let server = if contest.wait.needs_module() { &mut module } else { &mut plain };
                let sample = contest.run(server, length);
                // The first round warms up.
                if round > 0 {
                    samples[place].push(sample);
                }
            }
        }
        progress(&format!("  handovers: {begun}/{starts}"));
    }
    tell(report, &samples);
    let curves: Vec<Curve> = WAITS.iter().zip(&samples).map(|(wait, samples)| gaps(*wait, samples)).collect();
    pictures::distributions(
        plan,
        "handover",
        "From one client's release to the next one's grant, 8 clients on one lock",
        "µs",
        &curves,
    );
}

fn tell(report: &mut Report, samples: &[Vec<Sample>; WAITS.len()]) {
    let ours = &samples[0];
    for (place, bound) in [(1, Some(0.9)), (2, Some(2.0)), (3, None), (4, None)] {
        let pairs = || ours.iter().zip(&samples[place]);
        report.row(Row {
            work: "handovers/s, 8 clients on one lock".into(),
            beside: WAITS[place].name(),
            bound: bound.map(Bound::AtLeast),
            unit: "x".into(),
            value: Spread::of(pairs().map(|(ours, theirs)| ours.handovers / theirs.handovers)),
            cpu: Some(Spread::of(pairs().map(|(ours, theirs)| theirs.cpu_ns / ours.cpu_ns))),
        });
    }
    let sessions = || samples[SESSION].iter().zip(ours);
    report.row(Row {
        work: "handovers/s with SESSION, 8 clients on one lock".into(),
        beside: "Redislock without it".into(),
        bound: Some(Bound::AtLeast(0.9)),
        unit: "x".into(),
        value: Spread::of(sessions().map(|(session, plain)| session.handovers / plain.handovers)),
        cpu: Some(Spread::of(sessions().map(|(session, plain)| plain.cpu_ns / session.cpu_ns))),
    });
    for (wait, samples) in WAITS.iter().zip(samples) {
        let gaps = gaps(*wait, samples).values;
        let share = Spread::of(samples.iter().map(|sample| sample.to_others)).median;
        report.figure(Figure {
            work: "handovers, 8 clients on one lock".into(),
            who: wait.name(),
            unit: "per second".into(),
            value: Spread::of(samples.iter().map(|sample| sample.handovers)),
            cpu_us: Some(Spread::of(samples.iter().map(|sample| sample.cpu_ns / 1e3))),
            remark: format!(
                "gap p50 {:.0}, p99 {:.0}, max {:.0} µs; grants to another client {:.0} %",
                percentile(&gaps, 50.0),
                percentile(&gaps, 99.0),
                percentile(&gaps, 100.0),
                100.0 * share,
            ),
        });
    }
}

fn gaps(wait: Wait, samples: &[Sample]) -> Curve {
    let gaps = samples.iter().flat_map(|sample| sample.gaps_us.iter().copied());
    Curve { name: wait.name(), colour: wait.colour(), values: sorted(gaps) }
}
