//! One lock, eight clients: how often it changes hands, and how long it lies idle in between.

use crate::contest::Contest;
use crate::pictures::{self, Curve};
use crate::report::Report;
use crate::rivals::{self, BLMOVE, PUB_SUB, REDISLOCK, SESSION};
use crate::rounds::{Plan, Rounds, percentiles, spread, times};
use crate::server::{Server, Setup};

const CLIENTS: usize = 8;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let length = plan.ms(200, 150);
    let waits = rivals::waits();
    let start = || {
        let servers = [Setup::PLAIN, Setup::MODULE].map(Server::shared);
        let contests = waits.iter().map(|wait| {
            let (server, key) = (wait.server(servers.each_ref()), format!("contested:{}", wait.colour));
            (wait.name.clone(), Contest::new(wait.clone(), server, &key, CLIENTS))
        });
        contests.collect()
    };
    let work = "handovers, 8 clients on one lock";
    let (starts, turns) = (plan.pick(5, 2), plan.pick(10, 6));
    let rounds = Rounds::play(work, "per second", starts, 0..=turns, start, |contest| contest.run(length));

    let beside = [
        (BLMOVE, Some(0.9)),
        (PUB_SUB, Some(2.0)),
        ("SET NX PX every 10 ms", None),
        ("SET NX PX every 100 ms", None),
    ];
    for (beside, bound) in beside {
        let row = rounds.row("handovers/s, 8 clients on one lock", REDISLOCK, beside);
        report.rows.extend(row.map(|row| row.at_least(bound)));
    }
    let row = rounds.row("handovers/s with SESSION, 8 clients on one lock", SESSION, REDISLOCK);
    let row = row.map(|row| row.at_least(0.9).beside("Redislock without it"));
    report.rows.extend(row);
    report.figures.extend(rounds.figures(|samples| {
        let [half, most, max] = percentiles(&times(samples));
        let share = 100.0 * spread(samples, |sample| sample.shares[0]).median;
        format!("gap p50 {half:.0}, p99 {most:.0}, max {max:.0} µs; grants to another client {share:.0} %")
    }));
    let curve = |wait: &rivals::Rival| {
        let values = times(rounds.of(&wait.name).unwrap_or_default());
        Curve { name: wait.name.clone(), colour: wait.colour, values }
    };
    pictures::distributions(
        plan,
        "handover",
        "From one client's release to the next one's grant, 8 clients on one lock",
        "µs",
        &waits.iter().map(curve).collect::<Vec<_>>(),
    );
}
