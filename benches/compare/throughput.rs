//! Acquire and release, with 16 pairs in flight on each connection and with one command; with nothing saved, with an
//! append-only file, and with a replica.

use crate::load::{Load, measure};
use crate::report::Report;
use crate::rivals::{self, HASH_LUA, REDISLOCK, Rival, SET_DEL, SET_LUA};
use crate::rounds::Plan;
use crate::server::{Server, Setup};

/// Redislock, which comes first, beside the others on two servers, one without the module, one with it; with so many replicas each.
fn compare(
    (plan, report): (&Plan, &mut Report),
    (work, pipeline): (&str, usize),
    rivals: &[Rival],
    (setup, replicas): (Setup, usize),
    starts: [usize; 2],
) {
    let start = || {
        let servers = [false, true].map(|module| {
            let (setup, server) = (Setup { module, ..setup }, Server::shared(Setup { module, ..setup }));
            (0..replicas).for_each(|_| server.add_replica(setup));
            server
        });
        let load = |rival: &Rival| Load::new(rival.clone(), rival.server(servers.each_ref()), pipeline);
        rivals.iter().map(|rival| (rival.name.clone(), load(rival))).collect()
    };
    let rounds = measure(plan, report, work, starts, start);
    for beside in &rivals[1..] {
        let target = beside.targets.get(work).copied();
        report.rows.extend(rounds.row(work, REDISLOCK, &beside.name).map(|row| row.at_least(target)));
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let rivals = rivals::known_pairs(report);
    for pipeline in [16, 1] {
        let work = format!("acquire + release, P={pipeline}");
        compare((plan, report), (&work, pipeline), &rivals, (Setup::PLAIN, 0), [6, 3]);
    }
}

/// The same with what makes locks outlive a server.
pub(crate) fn run_durable(plan: &Plan, report: &mut Report) {
    let rivals = [REDISLOCK, SET_DEL, SET_LUA, HASH_LUA].map(rivals::pair);
    for (how, aof, replicas) in [("AOF each second", true, 0), ("one replica", false, 1)] {
        let (work, setup) = (format!("acquire + release, P=16, {how}"), Setup { aof, ..Setup::PLAIN });
        compare((plan, report), (&work, 16), &rivals, (setup, replicas), [3, 1]);
    }
}
