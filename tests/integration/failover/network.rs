//! Failovers by sentinels in a network that loses packets: some all the time, and all of one direction during a failover, while clients
//! still reach the old primary.

use super::sync::confirmed;
use super::trial::{Exit, Trial};
use super::{careful, start};
use crate::support::{Network, Own, apart, size};

const EXITS: [Exit; 4] = [Exit::Mute, Exit::Deaf, Exit::Killed, Exit::CutOff];

/// Runs failovers of this trial, in which two owners must never overlap.
fn in_a_bad_network(name: &str, start: impl FnOnce() -> Trial + Send, with_grace: bool) {
    apart(Own::Network, || {
        let network = Network::new();
        let mut trial = start().lossy(network);
        let exits = EXITS.iter().cycle().take(size(2, 30));
        let times: Vec<_> = exits.map(|exit| trial.round(*exit, with_grace)).collect();
        assert_eq!(trial.end(name, &times), 0, "two owners of a lock at a time");
    });
}

#[test]
fn with_a_grace_no_two_owners_in_a_bad_network() {
    const NAME: &str = "failovers by sentinels with a grace, in a bad network";
    in_a_bad_network(NAME, || start(&careful()), true);
}

#[test]
fn with_sync_no_two_owners_in_a_bad_network() {
    const NAME: &str = "failovers by sentinels, SYNC 1 of 1 replica, in a bad network";
    in_a_bad_network(NAME, || confirmed(1), false);
}
