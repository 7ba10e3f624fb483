//! `lock.failover-grace`: nothing new is granted before its end, and all locks are granted at its end.

use super::{ask, count, granted, holds, release, waits};
use crate::support::Setup;

const GRACE: &str = "GRACE new grants resume in ";

/// Tests a start with locks in a file, and a promotion.
#[test]
fn several_locks_wait_for_the_grace_after_a_start_and_a_failover() {
    let setup = || Setup::new().module_args("failover-grace 600000");
    let mut server = setup().start();
    let mut client = server.client();
    client.ask::<()>("CONFIG SET lock.failover-grace 0");
    let all = holds(&mut client, "a b", "alice", "");
    client.ask::<()>("SAVE");
    let replica = server.replica_with(setup());
    server.kill_and_restart();
    replica.client().ask::<()>("REPLICAOF NO ONE");
    for server in [&server, &replica] {
        let mut client = server.client();
        assert!(client.refused(&ask("a c", "alice", "")).starts_with(GRACE));
        let again = holds(&mut client, "b a", "alice", "ONCE");
        assert_eq!((again.fences, again.holds), (all.fences.clone(), vec![1, 1]));
        let mut waiter = waits(server, "a b c", "bob", "");
        release(&mut client, "a b", "alice");
        assert!(waiter.is_blocked(&mut client));
        client.ask::<()>("CONFIG SET lock.failover-grace 0");
        assert!(granted(&mut waiter).fences[0] > all.fences[0]);
        assert_eq!(count(&mut client, "lock_waiters"), 0);
    }
}
