//! What one client with ordinary rights on a few keys can do to all others: each attack on a server of its own, the longest `PING`
//! of another client meanwhile, and whatever else it leads to.
//!
//! Most attacks are a single command that makes much work in one step. How much it may make depends on how many locks a command
//! may name. Where that is a setting, they run twice: as it is by default, and with as many as there may be.

mod growth;
mod refusals;
mod requests;
mod search;
mod several;
mod stage;
mod time;

use stage::{SETTING, Stage};

use crate::report::Report;
use crate::rounds::{Plan, progress};
use crate::server::Setup;

/// How many locks a command names at most, whatever is set.
const MOST_KEYS: usize = 1000;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let mut rows = refusals::rows(plan);
    rows.extend(search::rows(plan));
    rows.push(time::upgrades());
    rows.extend(several::expiry());
    for (keys, allowed) in keys() {
        let of_keys = [
            time::rows(keys),
            search::rows_of(plan, keys),
            several::rows(plan, keys),
            growth::rows_of(plan, keys),
        ];
        rows.extend(of_keys.into_iter().flatten().map(|row| row.allowing(allowed)));
    }
    rows.extend(growth::rows(plan));
    for row in rows {
        let attack = row.attack(plan.pick(3, 1));
        progress(&format!("  hostile, {}", attack.cells().join(" | ")));
        report.attacks.push(attack);
    }
}

/// How many locks a command may name: as the server is, and as it can be set.
fn keys() -> Vec<(usize, Option<usize>)> {
    let stage = Stage::new(Setup::MODULE);
    match stage.server.setting(SETTING).map(|value| value as usize) {
        Some(default @ 1..MOST_KEYS) => vec![(default, None), (MOST_KEYS, Some(MOST_KEYS))],
        _ => vec![(MOST_KEYS, None)],
    }
}
