//! Acquire and release, with 16 pairs in flight on each connection and with one command.

use crate::load::{Load, measure};
use crate::report::Report;
use crate::rivals::{self, REDISLOCK, Rival};
use crate::rounds::Plan;
use crate::server::{Server, Setup};

/// Redislock, which comes first, beside the others on two servers, one without the module, one with it.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let rivals = rivals::known_pairs(report);
    for pipeline in [16, 1] {
        let work = format!("acquire + release, P={pipeline}");
        let start = || {
            let servers = [Setup::PLAIN, Setup::MODULE].map(Server::shared);
            let load = |rival: &Rival| Load::new(rival.clone(), rival.server(servers.each_ref()), pipeline);
            rivals.iter().map(|rival| (rival.name.clone(), load(rival))).collect()
        };
        let rounds = measure(plan, report, &work, [6, 3], start);
        for beside in &rivals[1..] {
            let target = beside.targets.get(&work).copied();
            report.rows.extend(rounds.row(&work, REDISLOCK, &beside.name).map(|row| row.at_least(target)));
        }
    }
}
