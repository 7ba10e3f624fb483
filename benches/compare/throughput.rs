//! Acquire and release, with 16 pairs in flight on each connection and with one command; with nothing saved, with an
//! append-only file, and with a replica.

use std::rc::Rc;
use std::time::Duration;

use crate::load::Load;
use crate::pictures::{self, Bar, Group};
use crate::report::{Figure, Report};
use crate::rivals::{self, HASH_LUA, REDISLOCK, Rival, SET_DEL, SET_LUA};
use crate::rounds::{Plan, Rounds, busy};
use crate::server::{Server, Setup};

/// Two servers, one without the module, one with it; with replicas, that many each.
fn servers(setup: Setup, replicas: usize) -> [Rc<Server>; 2] {
    [Setup { module: false, ..setup }, Setup { module: true, ..setup }].map(|setup| {
        let server = Server::shared(setup);
        (0..replicas).for_each(|_| server.add_replica(setup));
        server
    })
}

/// Measures the rivals in turn, round by round.
fn measure(
    work: &str,
    rivals: &[Rival],
    pipeline: usize,
    servers: impl Fn() -> [Rc<Server>; 2],
    (starts, rounds, length): (usize, usize, Duration),
) -> Rounds {
    let start = || {
        let servers = servers();
        let load = |rival: &Rival| {
            let server = rival.server(servers.each_ref());
            (rival.name.clone(), Load::new(rival.clone(), server, pipeline))
        };
        rivals.iter().map(load).collect()
    };
    Rounds::play(work, "pairs/s", starts, 0..=rounds, start, |load| load.run(length))
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let rivals = rivals::known_pairs(report);
    let mut groups = Vec::new();
    for pipeline in [16, 1] {
        let work = format!("acquire + release, P={pipeline}");
        let effort = (plan.pick(6, 3), plan.pick(10, 5), plan.ms(200, 120));
        let rounds = measure(&work, &rivals, pipeline, || servers(Setup::PLAIN, 0), effort);
        rounds.warn(report);
        for beside in &rivals[1..] {
            let target = beside.targets.get(&pipeline.to_string()).copied();
            report.rows.extend(rounds.row(&work, REDISLOCK, &beside.name).map(|row| row.at_least(target)));
        }
        let figures = rounds.figures(busy);
        let bar = |figure: &Figure| Bar { name: figure.who.clone(), value: figure.value.median / 1e3 };
        groups.push(Group { title: format!("P={pipeline}"), bars: figures.iter().map(bar).collect() });
        report.figures.extend(figures);
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
    let rivals = [REDISLOCK, SET_DEL, SET_LUA, HASH_LUA].map(rivals::pair);
    for (how, aof, replicas) in [("AOF each second", true, 0), ("one replica", false, 1)] {
        let work = format!("acquire + release, P=16, {how}");
        let effort = (plan.pick(3, 1), plan.pick(10, 6), plan.ms(200, 150));
        let servers = || servers(Setup { aof, ..Setup::PLAIN }, replicas);
        let rounds = measure(&work, &rivals, 16, servers, effort);
        rounds.warn(report);
        report.rows.extend(rivals[1..].iter().filter_map(|rival| rounds.row(&work, REDISLOCK, &rival.name)));
        report.figures.extend(rounds.figures(busy));
    }
}
