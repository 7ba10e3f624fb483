//! First come, first served: a new client does not get ahead, not even before a lapse has been noticed.

use redis::Value;

use crate::support::{Client, HELD_BY_ANOTHER, Server, Waiter, lease_end_after, wait_until};

/// Keeps the server from noticing a lapse: it sleeps until after the end of the owner's lease, and then runs the command that has arrived
/// meanwhile, before its timers. Returns when the lease ended.
fn over_a_lapse(client: &mut Client, owner: &str, line: &str) -> i64 {
    let extend = format!("LOCK.EXTEND k {owner} PX 200");
    let lines = [&extend[..], "PEXPIRETIME k", "DEBUG SLEEP 0.4", line];
    client.begin_together(&lines.map(|line| line.split(' ').collect()));
    assert_eq!(client.finish(), Ok(Value::Int(200)));
    let Ok(Value::Int(ends)) = client.finish() else { panic!("no end of the lease") };
    assert_eq!(client.finish(), Ok(Value::Okay));
    ends
}

/// The old holder does not get ahead either, whether it extends its lease or acquires the lock anew.
#[test]
fn a_newcomer_between_a_lapse_and_its_discovery_does_not_jump_the_queue() {
    let (server, mut client, mut bob) = Server::waited_for();
    let ends = over_a_lapse(&mut client, "alice", "LOCK.ACQUIRE k OWNER newcomer");
    assert_eq!(client.finish(), Ok(Value::Nil));
    assert!(bob.granted().granted_at() >= ends);
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    over_a_lapse(&mut client, "bob", "LOCK.EXTEND k bob PX 60000");
    assert_eq!(client.finish(), Err(HELD_BY_ANOTHER.into()));
    assert_eq!(carol.granted().owner, "carol");
    let mut dave = Waiter::new(&server, "k", "OWNER dave");
    over_a_lapse(&mut client, "carol", "LOCK.ACQUIRE k OWNER carol");
    assert_eq!(client.finish(), Ok(Value::Nil));
    assert_eq!(dave.granted().owner, "dave");
}

#[test]
fn newcomers_held_back_by_a_pause_come_after_the_queue() {
    let (server, mut client, mut bob) = Server::waited_for();
    let lines = ["LOCK.EXTEND k alice PX 200", "CLIENT PAUSE 60000 WRITE"];
    let ends = lease_end_after(&mut client, "k", &lines);
    let mut waiting = Waiter::new(&server, "k", "OWNER waiting");
    let mut newcomer = server.client();
    newcomer.begin("LOCK.ACQUIRE k OWNER newcomer");
    wait_until(&mut client, ends);
    client.ask::<()>("CLIENT UNPAUSE");
    assert_eq!(bob.granted().owner, "bob");
    assert_eq!(newcomer.finish(), Ok(Value::Nil));
    client.ask::<()>("LOCK.RELEASE k bob");
    assert_eq!(waiting.granted().owner, "waiting");
}
