//! A waiter that is told of its grant later than it was granted: the lease that it is told is what is left then.

use crate::support::{Client, Server, Waiter, server_time, transaction};

/// How long the step goes on after the handover, in ms.
const STEP: i64 = 300;

/// Has two waiters of one owner be granted the lock in a step that takes long: what each is told ends when the lease does.
#[track_caller]
fn told_what_is_left(step: impl FnOnce(&mut Client)) {
    let (server, mut client) = Server::held();
    let mut waiters =
        ["", "ONCE"].map(|once| Waiter::new(&server, "k", &format!("OWNER bob PX 60000 {once}")));
    step(&mut client);
    let ends: i64 = client.ask("PEXPIRETIME k");
    for waiter in &mut waiters {
        let granted = waiter.granted();
        let told = ends - granted.lease;
        let earliest = granted.granted_at() + STEP - 1;
        assert!(told >= earliest, "{granted:?}: the lease is {} ms too long", earliest - told);
        let latest = server_time(&mut client) + 1 + client.ttl_beyond_lease();
        assert!(told <= latest, "{granted:?}: the lease is {} ms too short", told - latest);
    }
}

#[test]
fn in_a_transaction_that_goes_on() {
    told_what_is_left(|client| {
        let replies = transaction(client, &["LOCK.RELEASE k alice", "DEBUG SLEEP 0.3"]);
        assert_eq!(replies[0], Ok(redis::Value::Int(0)));
    });
}

/// The commands that have already arrived come first, too.
#[test]
fn before_other_commands_that_take_long() {
    told_what_is_left(|client| {
        client.begin_together(&[vec!["LOCK.RELEASE", "k", "alice"], vec!["DEBUG", "SLEEP", "0.3"]]);
        client.finish().unwrap();
        client.finish().unwrap();
    });
}
