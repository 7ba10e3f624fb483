//! A primary is cut off together with one of its two replicas, while the other replica takes over. There are no sentinels: the test takes
//! each step of a failover.

use crate::support::{Proxy, Server, Setup, wait_for};

/// A primary with two replicas. The first replica stays with the primary; the second will take over.
struct Split {
    old: Server,
    _beside: Server,
    relay: Proxy,
    new: Server,
}

impl Split {
    fn start(replicas_to_write: &str) -> Self {
        let setup = Setup::new()
            .set("min-replicas-max-lag", "1")
            .module_args("lock.default-lease 30000 lock.failover-grace 100");
        let old = setup.clone().start();
        let beside = old.replica_with(setup.clone());
        let relay = Proxy::to(old.port());
        let new = setup.set("replicaof", &format!("127.0.0.1 {}", relay.port())).start();
        new.wait_for_sync_with(&old);
        old.client().ask::<()>(&format!("CONFIG SET min-replicas-to-write {replicas_to_write}"));
        // The grace after the start has to end first, and on a busy machine a replica may be late for a moment.
        let mut client = old.client();
        wait_for("a grant", || client.send("LOCK.ACQUIRE first OWNER x ONCE").is_ok());
        Self { old, _beside: beside, relay, new }
    }

    /// Cuts the successor off from the primary, promotes it, and waits until it has granted the lock.
    fn take_over(&self) {
        self.relay.cut(true);
        let mut client = self.new.client();
        client.ask::<()>("REPLICAOF NO ONE");
        wait_for(
            "a grant of the successor",
            || matches!(client.send("LOCK.ACQUIRE k OWNER bob PX 60000"), Ok(reply) if reply != redis::Value::Nil),
        );
    }
}

/// Tests the limit that docs/operations/failover.md names: if this fails, the page promises too little.
#[test]
fn one_replica_to_write_does_not_stop_a_primary_that_is_cut_off_with_it() {
    let split = Split::start("1");
    split.take_over();
    let mut client = split.old.client();
    wait_for("a second owner", || {
        matches!(client.send("LOCK.ACQUIRE k OWNER alice ONCE"), Ok(redis::Value::Array(_)))
    });
}

#[test]
fn all_replicas_to_write_stop_it() {
    let split = Split::start("2");
    split.take_over();
    let mut client = split.old.client();
    wait_for("the primary misses its replica", || {
        client.info("replication", "min_slaves_good_slaves") == "1"
    });
    for line in ["LOCK.ACQUIRE k OWNER alice", "LOCK.ACQUIRE first OWNER x", "LOCK.EXTEND first x"] {
        let refused = client.refused(line);
        assert!(refused.starts_with("NOREPLICAS "), "{line}: {refused}");
    }
}

#[test]
fn sync_with_all_replicas_confirms_nothing_on_it() {
    let split = Split::start("1");
    split.take_over();
    let refused = split.old.client().refused("LOCK.ACQUIRE k OWNER alice SYNC 2 300");
    assert!(refused.starts_with("NOREPLICAS "), "{refused}");
}
