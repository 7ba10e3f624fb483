//! The cases of Redis's own test of modules that block clients on keys (`tests/unit/moduleapi/blockonkeys.tcl`), as far
//! as they make sense for a lock.

use redis::Value;

use crate::support::{
    Client, Server, Waiter, blocked_clients, grant, owners, queue, soon, transaction, wait_for,
    wait_until_gone, while_stopped,
};

/// A server, a client, and alice's lock `k`.
fn held() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    (server, client)
}

/// "Circular BPOPPUSH": each waits for what the other has, and the server goes on.
#[test]
fn two_that_wait_for_each_other() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("src", "OWNER alice PX 600000").unwrap();
    client.acquire("dst", "OWNER bob PX 600000").unwrap();
    let mut alice = Waiter::new(&server, "dst", "OWNER alice");
    let mut bob = Waiter::new(&server, "src", "OWNER bob BLOCK 2000");
    assert_eq!(blocked_clients(&mut client), 2);
    assert_eq!(bob.client.finish(), Ok(Value::Nil));
    client.ask::<()>("LOCK.RELEASE dst bob");
    assert_eq!(alice.granted().owner, "alice");
}

/// "Self-referential BPOPPUSH".
#[test]
fn one_that_waits_for_its_own() {
    let (_server, mut client) = held();
    assert_eq!(client.acquire("k", "OWNER alice BLOCK 0").unwrap().holds, 2);
    assert_eq!(blocked_clients(&mut client), 0);
}

/// "No block".
#[test]
fn no_block() {
    let (_server, mut client) = held();
    client.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(client.acquire("k", "OWNER bob BLOCK 0").unwrap().owner, "bob");
}

/// "Timeout", and the client killed afterwards: what is left of its wait is gone.
#[test]
fn timeout_and_a_kill_after_it() {
    let (server, mut client) = held();
    let mut bob = Waiter::new(&server, "k", "OWNER bob BLOCK 1000");
    assert_eq!(bob.client.finish(), Ok(Value::Nil));
    assert_eq!(client.ask::<i64>(&format!("CLIENT KILL ID {}", bob.id)), 1);
    assert_eq!(owners(&mut client, "k"), [""; 0]);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(client.holder("k"), None);
}

/// "Blocked, case 1", and the client killed afterwards: without a session, its grant stays.
#[test]
fn blocked_and_a_kill_after_the_grant() {
    let (server, mut client) = held();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    client.ask::<()>("LOCK.RELEASE k alice");
    let granted = bob.granted();
    assert_eq!(client.ask::<i64>(&format!("CLIENT KILL ID {}", bob.id)), 1);
    wait_until_gone(&mut client, bob.id);
    assert_eq!(client.holder("k").unwrap().fence, granted.fence);
}

/// "Blocked, case 2": what does not free the lock wakes nobody.
#[test]
fn blocked_until_it_is_enough() {
    let (server, mut client) = held();
    client.acquire("k", "OWNER alice").unwrap();
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    for left in [2, 1] {
        assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), left);
        assert_eq!(queue(&mut client, "k").len(), 1);
    }
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(bob.granted().holds, 1);
}

/// "Blocked, CLIENT KILL".
#[test]
fn blocked_and_killed() {
    let (server, mut client) = held();
    let bob = Waiter::new(&server, "k", "OWNER bob");
    client.ask::<()>(&format!("CLIENT KILL ID {}", bob.id));
    soon("an empty queue", || owners(&mut client, "k").is_empty());
    assert_eq!(blocked_clients(&mut client), 0);
    client.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(client.holder("k"), None);
}

/// "Blocked, CLIENT UNBLOCK TIMEOUT" and "ERROR".
#[test]
fn blocked_and_unblocked() {
    let (server, mut client) = held();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    assert_eq!(client.ask::<i64>(&format!("CLIENT UNBLOCK {} TIMEOUT", bob.id)), 1);
    assert_eq!(bob.reply(), Ok(Value::Nil));
    let mut bob = Waiter::of(&server, bob.client, "k", "OWNER bob");
    assert_eq!(client.ask::<i64>(&format!("CLIENT UNBLOCK {} ERROR", bob.id)), 1);
    assert!(bob.refused().starts_with("UNBLOCKED "));
}

/// "Re-blocked on keys after woke up on wrong type": here a wrong type is told at once.
#[test]
fn woken_by_a_wrong_type_and_blocked_again() {
    let (server, mut client) = held();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    client.ask::<()>("SET k text");
    assert!(bob.refused().starts_with("WRONGTYPE "));
    client.ask::<()>("DEL k");
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::of(&server, bob.client, "k", "OWNER bob");
    client.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(bob.granted().owner, "bob");
}

/// "Woken up by LPUSH": native commands on the key and on a client that the server itself blocks on it.
#[test]
fn others_blocked_on_the_same_key_are_served_in_their_turn() {
    let server = Server::start();
    let mut client = server.client();
    let mut popper = server.client();
    popper.begin("BLPOP k 0");
    wait_for("a client blocked by the server", || blocked_clients(&mut client) == 1);
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    let late = server.client();
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(bob.granted().owner, "bob");
    assert_eq!(blocked_clients(&mut client), 1);
    assert!(client.refused("LPUSH k a").starts_with("WRONGTYPE "));
    client.ask::<()>("LOCK.RELEASE k bob");
    client.ask::<()>("LPUSH k a");
    assert_eq!(
        popper.finish(),
        Ok(Value::Array(vec![Value::BulkString(b"k".into()), Value::BulkString(b"a".into()),]))
    );
    drop(late);
}

/// "Module client unblocks BLPOP", with a list that takes the lock's place.
#[test]
fn a_list_in_place_of_the_lock_serves_who_waits_for_a_list() {
    let (server, mut client) = held();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    client.ask::<()>("RPUSH list x");
    client.ask::<()>("RENAME list k");
    assert!(bob.refused().starts_with("WRONGTYPE "));
    assert_eq!(client.ask::<Vec<String>>("BLPOP k 1"), ["k", "x"]);
    assert_eq!(client.acquire("k", "OWNER bob BLOCK 0").unwrap().owner, "bob");
}

/// "Unblocks module blocked on non-empty list": several handovers in one step, each seen by the next.
#[test]
fn many_hand_overs_in_one_step() {
    let (server, mut client) = held();
    let mut waiters = ["b", "c", "d"].map(|owner| Waiter::new(&server, "k", &format!("OWNER {owner}")));
    let lines = ["LOCK.RELEASE k alice", "LOCK.RELEASE k b", "LOCK.BREAK k", "LOCK.INFO k"];
    let replies = transaction(&mut client, &lines);
    assert_eq!(replies[..3], [Ok(Value::Int(0)), Ok(Value::Int(0)), Ok(Value::Int(1))]);
    let fences = waiters.each_mut().map(|waiter| waiter.granted().fence);
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
    let holder = client.holder("k").unwrap();
    assert_eq!((&holder.owner[..], holder.fence), ("d", fences[2]));
}

/// "WAIT command on module blocked client on keys": whoever was granted the lock can wait until replicas have it.
#[test]
fn wait_after_the_grant_waits_for_the_grant() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = primary.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::new(&primary, "k", "OWNER bob PX 600000");
    replica.wait_for_sync_with(&primary);
    assert_eq!(client.ask::<i64>("WAIT 1 5000"), 1);
    let (granted, here, there) = while_stopped(&replica, || {
        client.begin("LOCK.RELEASE k alice");
        let granted = grant(bob.client.finish().unwrap()).unwrap();
        let here = bob.client.ask::<i64>("WAIT 1 200");
        assert_eq!(client.finish(), Ok(Value::Int(0)));
        (granted, here, client.ask::<i64>("WAIT 1 200"))
    });
    assert_eq!((here, there), (0, 0), "a replica that stands still has it already");
    assert_eq!(bob.client.ask::<i64>("WAIT 1 5000"), 1);
    assert_eq!(replica.client().holder("k").unwrap().fence, granted.fence);
}
