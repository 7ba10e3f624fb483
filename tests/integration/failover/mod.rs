//! Failovers by sentinels, under load: primaries are killed, frozen until later, or cut off in one or both directions.

mod awakening;
mod cut_off;
mod group;
mod lost;
mod network;
mod pinned;
mod program;
mod sync;
mod trial;

use std::thread::scope;

use crate::support::{Setup, Work, size};
use trial::{Exit, Trial, keys};

/// The leases of the clients, in ms: longer than a failover takes, because otherwise old and new grants would not overlap.
const LEASE: u64 = 3000;

const FREEZES: [Exit; 3] = [Exit::WokenInBetween, Exit::WokenLate, Exit::WokenEarly];

/// Settings that keep owners apart over a failover. The grace exceeds the longest lease by the time in which an old primary still counts
/// its replicas as good: `min-replicas-max-lag`, and 5 s until sentinels have turned the other replicas to the new primary.
fn careful() -> Setup {
    Setup::new()
        .set("min-replicas-to-write", "1")
        .set("min-replicas-max-lag", "1")
        .module_args("lock.default-lease 3000 lock.max-lease 3000 lock.failover-grace 9000")
}

fn start(setup: &Setup) -> Trial {
    Trial::start(setup, 2, Work::new(&keys(), LEASE))
}

/// Runs this many groups at once, because they mostly wait. Returns how many overlaps there were in all.
fn at_once(groups: usize, one: impl Fn() -> usize + Sync) -> usize {
    scope(|scope| {
        let groups: Vec<_> = (0..groups).map(|_| scope.spawn(&one)).collect();
        groups.into_iter().map(|group| group.join().unwrap()).sum()
    })
}

#[test]
fn with_a_grace_no_two_owners_after_a_failover() {
    let overlaps = at_once(size(1, 4), || {
        let mut trial = start(&careful());
        let rounds = size(2, 30);
        let mut times = Vec::new();
        for round in 0..rounds {
            let exit = if round % 2 == 0 { Exit::Killed } else { FREEZES[round / 2 % 3] };
            times.push(trial.round(exit, true));
        }
        trial.end("failovers by sentinels with a grace", &times)
    });
    assert_eq!(overlaps, 0, "two owners of a lock at a time");
}

#[test]
fn without_a_grace_fences_still_rise_over_failovers() {
    let mut trial = start(&Setup::new());
    let rounds = size(1, 30);
    let mut times = Vec::new();
    for round in 0..rounds {
        let exit = if round % 2 == 0 { Exit::Killed } else { FREEZES[(round / 2 + 1) % 3] };
        times.push(trial.round(exit, false));
    }
    trial.end("failovers by sentinels without a grace", &times);
}
