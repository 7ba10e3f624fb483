//! Failovers by sentinels, under load, of clients that have replicas confirm their grants (`SYNC`). There is no grace and no
//! `min-replicas-to-write`: owners are kept apart because every replica that may be promoted has what the owner was told.
//!
//! An owner counts as a holder from the reply until the end of the lease in it, counted from before the request, or until it releases the
//! lock. The holder of a session knows no end, and counts as a holder until its server says that the lock is lost: it asks again and again
//! (see `Load`).

use super::at_once;
use super::trial::{Exit, Took, Trial, keys};
use crate::support::{Setup, Work, size};

/// The leases of the clients, in ms: longer than a failover takes, because otherwise nothing could overlap after a kill.
const LEASE: u64 = 3000;

/// How long replicas have to confirm, in ms.
const WITHIN: u64 = 200;

/// The ways in which a primary fails, beginning with those that reveal most.
const EXITS: [Exit; 6] =
    [Exit::CutOff, Exit::WokenInBetween, Exit::Killed, Exit::CutOff, Exit::WokenLate, Exit::Killed];

fn work() -> Work {
    Work::new(&keys(), LEASE).mixed()
}

/// Starts clients that have all of this many replicas confirm their grants.
pub(super) fn confirmed(replicas: usize) -> Trial {
    Trial::start(&Setup::new(), replicas, work().sync(replicas, WITHIN))
}

/// Runs these failovers. Returns how many overlaps there were.
fn fail_over<'a>(what: &str, mut trial: Trial, exits: impl IntoIterator<Item = &'a Exit>) -> usize {
    let times: Vec<Took> = exits.into_iter().map(|exit| trial.round(*exit, false)).collect();
    trial.end(what, &times)
}

#[test]
fn no_two_owners_where_the_one_replica_has_each_grant() {
    let overlaps = at_once(size(1, 2), || {
        let exits = EXITS.iter().cycle().take(size(3, 30));
        fail_over("failovers by sentinels, SYNC 1 of 1 replica", confirmed(1), exits)
    });
    assert_eq!(overlaps, 0, "two owners of a lock at a time");
}

#[test]
fn no_two_owners_where_both_replicas_have_each_grant() {
    let overlaps = at_once(size(1, 2), || {
        let exits = EXITS.iter().rev().cycle().take(size(1, 30));
        fail_over("failovers by sentinels, SYNC 2 of 2 replicas", confirmed(2), exits)
    });
    assert_eq!(overlaps, 0, "two owners of a lock at a time");
}

/// If a replica is left, clients need not wait until the old primary is back. (The promoted replica may lack a grant that the other one has
/// confirmed, so this test checks only times and fences.)
#[test]
fn grants_go_on_where_a_replica_is_left() {
    let exits = [Exit::Killed].iter().cycle().take(size(1, 6));
    let trial = Trial::start(&Setup::new(), 2, work().sync(1, WITHIN));
    fail_over("failovers by sentinels, SYNC 1 of 2 replicas", trial, exits);
}

/// Without `SYNC`, owners must overlap sometimes. Otherwise the other tests would prove nothing.
#[test]
fn without_it_there_are_two_owners_at_times() {
    let exits = EXITS.iter().cycle().take(size(1, 30));
    let overlaps =
        fail_over("failovers by sentinels without SYNC", Trial::start(&Setup::new(), 1, work()), exits);
    assert!(overlaps > 0, "no two owners at any time");
}
