//! Moves of slots and failures of primaries, under load.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::nodes::Cluster;
use crate::support::{Ledger, Load, PATIENCE, Setup, Work, figure, freeze, size, wait_for, wake};

/// The leases of the clients, in ms.
pub(super) const LEASE: u64 = 2000;

/// The locks of the clients are in the slots below this.
pub(super) const SLOTS: u16 = 30;

/// Starts clients of the cluster, each of which waits for an answer for this long.
pub(super) fn load(cluster: &Cluster, patience: Duration) -> Load {
    Load::start(cluster.routes(8), &Work::new(&cluster.names_below(SLOTS, 6), LEASE), &[patience])
}

/// Waits until this node has made some new grants.
pub(super) fn wait_for_grants(cluster: &Cluster, ledger: &Ledger, node: usize) {
    let (port, from) = (cluster.nodes[node].port(), Instant::now());
    wait_for("grants", || ledger.count_since(from, port) > 20);
}

/// Ends the load, and checks what the clients recorded. If `whole` is true, no connection broke, so each client must have been answered.
pub(super) fn end(load: Load, what: &str, whole: bool) {
    let ledger = Arc::clone(&load.ledger);
    let tally = load.stop();
    let overlaps = ledger.overlaps();
    figure(what, format!("{} grants, {} overlaps, {tally:?}", ledger.len(), overlaps.len()));
    assert_eq!(overlaps, [], "two owners of a lock at a time");
    assert_eq!(ledger.disorder(false), [], "the fences of a lock rise");
    assert_eq!(ledger.repeats(), [], "a fence is given once");
    let known =
        ["ASK", "CLUSTERDOWN", "GRACE", "LOADING", "MOVED", "NOTHELD", "READONLY", "TRYAGAIN", "UNBLOCKED"];
    let strange =
        tally.keys().find(|what| what.starts_with(char::is_uppercase) && !known.contains(&what.as_str()));
    assert_eq!(strange, None, "an error that does not belong here");
    assert!(tally["granted several"] > 5, "{tally:?}");
    assert!(!whole || !tally.contains_key("gone"), "a client had no answer");
}

#[test]
fn slots_move_under_load() {
    let cluster = Cluster::start(Setup::new(), false);
    let load = load(&cluster, Duration::from_secs(10));
    let first = format!("127.0.0.1:{}", cluster.nodes[0].port());
    let mut at = cluster.owner_of(0);
    for _ in 0..size(2, 20) {
        wait_for_grants(&cluster, &load.ledger, at);
        let to = (at + 1) % 3;
        // The command-line client moves the first slots of a node first.
        let slots = SLOTS.to_string();
        let from_to = ["--cluster-from", cluster.id(at), "--cluster-to", cluster.id(to)];
        let mut args = vec!["--cluster", "reshard", &first, "--cluster-slots", &slots, "--cluster-yes"];
        args.extend(from_to);
        cluster.cli(&args);
        cluster.wait_for_agreement();
        at = to;
        wait_for_grants(&cluster, &load.ledger, at);
        assert_eq!(cluster.owner_of(0), at);
    }
    end(load, "slots resharded under load", true);
}

#[test]
fn primaries_of_a_cluster_fail_under_load() {
    // The old primary keeps serving for the node timeout, until it notices that it is cut off.
    let args = "lock.default-lease 2000 lock.max-lease 2000 lock.failover-grace 4500";
    let mut cluster = Cluster::start(Setup::new().module_args(args), true);
    // A node that is silent for 1.5 s is replaced.
    cluster.set("cluster-node-timeout 1500");
    let load = load(&cluster, Duration::from_secs(10));
    let mut at = cluster.owner_of(0);
    for round in 0..size(2, 12) {
        wait_for_grants(&cluster, &load.ledger, at);
        let killed = round % 2 == 0;
        if killed {
            cluster.nodes[at].kill();
        } else {
            freeze(&cluster.nodes[at]);
        }
        let mut new = at;
        let began = Instant::now();
        while new == at {
            assert!(began.elapsed() < 2 * PATIENCE, "no failover");
            sleep(Duration::from_millis(20));
            let beside = (at + 1) % 3;
            new = cluster.seen_by(beside, 0).unwrap_or(at);
        }
        if killed {
            cluster.nodes[at].relaunch();
        } else {
            wake(&cluster.nodes[at]);
        }
        let old = std::mem::replace(&mut at, new);
        wait_for_grants(&cluster, &load.ledger, new);
        cluster.wait_for_agreement();
        wait_for("the old primary as a replica", || {
            cluster.client(old).info("replication", "master_link_status") == "up"
        });
    }
    end(load, "failovers of a cluster under load", false);
}

#[test]
fn a_replica_takes_over_under_load_without_a_loss() {
    let cluster = Cluster::start(Setup::new(), true);
    let load = load(&cluster, Duration::from_secs(10));
    let mut at = cluster.owner_of(0);
    for _ in 0..size(2, 20) {
        wait_for_grants(&cluster, &load.ledger, at);
        let new = cluster.replica_of(at);
        cluster.promote(new);
        wait_for("the slots to follow", || cluster.seen_by(new, 0) == Some(new));
        cluster.wait_for_agreement();
        at = new;
        wait_for_grants(&cluster, &load.ledger, at);
        wait_for("a replica", || cluster.client(at).info("replication", "connected_slaves") == "1");
    }
    end(load, "planned failovers of a cluster under load", false);
}
