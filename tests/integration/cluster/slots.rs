//! Redirections, and slots that are moved by hand, key by key.

use super::nodes::Cluster;
use crate::support::{Client, Server, Setup, Waiter, grant, server_time, wait_for, wait_until};

const COMMANDS: [&str; 5] =
    ["LOCK.ACQUIRE k", "LOCK.RELEASE k alice", "LOCK.EXTEND k alice", "LOCK.INFO k", "LOCK.BREAK k"];

/// Returns the waiter's error. The server needs up to some seconds for this, because it checks only some blocked clients each time.
fn told(waiter: &mut Waiter) -> String {
    let error = waiter.client.finish().expect_err("an error");
    assert_eq!(waiter.client.ask::<String>("PING"), "PONG", "a second reply");
    error
}

/// Checks that the waiter is not answered for a while, and still waits.
fn still_waits(server: &Server, waiter: &Waiter) {
    let mut client = server.client();
    let now = server_time(&mut client);
    wait_until(&mut client, now + 300);
    assert!(waiter.is_blocked(&mut client));
}

pub(super) fn asking(client: &mut Client, line: &str) -> Result<redis::Value, String> {
    client.ask::<()>("ASKING");
    client.send(line)
}

/// Returns a client that waits on the importing node.
pub(super) fn asking_waiter(server: &Server, line: &str) -> Waiter {
    let mut client = server.client();
    let id = client.ask("CLIENT ID");
    client.ask::<()>("ASKING");
    client.begin(line);
    let waiter = Waiter { client, id };
    let mut observer = server.client();
    wait_for("a client to be blocked", || waiter.is_blocked(&mut observer));
    waiter
}

#[test]
fn lock_commands_are_redirected_as_any_command() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = cluster.way_of("k");
    let (mut here, mut there) = (cluster.client(from), cluster.client(to));
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[from].port());
    for line in COMMANDS.into_iter().chain(["GET k"]) {
        assert_eq!(there.refused(line), moved, "{line}");
    }

    cluster.begin_move(slot, from, to);
    let ask = format!("ASK {slot} 127.0.0.1:{}", cluster.nodes[to].port());
    for line in COMMANDS.into_iter().chain(["GET k"]) {
        assert_eq!(here.refused(line), ask, "{line}");
        assert_eq!(there.refused(line), moved, "{line}");
    }
    let granted = grant(asking(&mut there, "LOCK.ACQUIRE k OWNER alice").unwrap()).unwrap();
    assert_eq!(granted.owner, "alice");
    assert_eq!(asking(&mut there, "LOCK.RELEASE k alice"), Ok(redis::Value::Int(0)));
    cluster.end_move(slot, from, to);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[to].port());
    for line in COMMANDS.into_iter().chain(["GET k"]) {
        assert_eq!(here.refused(line), moved, "{line}");
    }
}

#[test]
fn a_slot_moves_and_takes_its_locks_but_not_its_waiters() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = cluster.way_of("k");
    let (old, new) = (&cluster.nodes[from], &cluster.nodes[to]);
    let (mut here, mut there) = (old.client(), new.client());

    let held = here.acquire("k", "OWNER alice PX 600000").unwrap();
    here.acquire("{k}lapses", "OWNER alice PX 600000").unwrap();
    here.acquire("{k}given", "OWNER alice PX 600000").unwrap();
    let mut waiters =
        ["k", "k", "{k}lapses"].map(|key| Waiter::new(old, key, &format!("OWNER waiter-of-{key}")));
    let mut given = Waiter::new(old, "{k}given", "OWNER bob");
    let mut later = Waiter::new(old, "{k}given", "OWNER carol");
    cluster.begin_move(slot, from, to);
    here.ask::<i64>("LOCK.EXTEND {k}lapses alice PX 300");

    // This node still serves the keys that it has.
    assert_eq!(here.ask::<i64>("LOCK.RELEASE {k}given alice"), 0);
    assert_eq!(given.granted().owner, "bob");
    // A key that has moved looks deleted, or lapsed. This node must not grant either lock.
    cluster.move_key("k", from, to);
    wait_for("the lapse", || here.send("LOCK.INFO {k}lapses").is_err_and(|error| error.starts_with("ASK ")));
    for waiter in &waiters {
        still_waits(old, waiter);
    }
    assert_eq!(here.ask::<i64>("DBSIZE"), 1);

    // On the importing node, the lock continues with the same grant.
    let mut importing = asking_waiter(new, "LOCK.ACQUIRE k OWNER dave PX 300 BLOCK 0");
    let mut next = asking_waiter(new, "LOCK.ACQUIRE k OWNER erin BLOCK 0");
    let line = format!("LOCK.RELEASE k alice FENCE {}", held.fence);
    assert_eq!(asking(&mut there, &line), Ok(redis::Value::Int(0)));
    let after = importing.granted();
    assert_eq!(after.owner, "dave");
    assert!(after.fence > held.fence);

    cluster.move_key("{k}given", from, to);
    cluster.end_move(slot, from, to);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", new.port());
    for waiter in waiters.iter_mut().chain([&mut later]) {
        assert_eq!(told(waiter), moved);
    }
    // The lease ends on the node that now has the slot.
    let after = grant(next.client.finish().unwrap()).unwrap();
    assert_eq!(after.owner, "erin");
    assert!(after.fence > held.fence);
    assert_eq!(there.holder("{k}given").unwrap().owner, "bob");
    assert_eq!(here.ask::<i64>("DBSIZE"), 0);
    for key in ["k", "{k}lapses", "{k}given"] {
        assert!(there.ask::<i64>(&format!("EXISTS {key}")) <= 1);
    }
}

#[test]
fn a_move_that_is_called_off_leaves_the_waiters_where_they_are() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = cluster.way_of("k");
    let old = &cluster.nodes[from];
    let mut here = old.client();
    here.acquire("k", "OWNER alice").unwrap();
    let mut waiter = Waiter::new(old, "k", "OWNER bob");
    cluster.begin_move(slot, from, to);
    here.ask::<i64>("LOCK.EXTEND k alice PX 300");
    wait_for("the lapse", || here.send("LOCK.INFO k").is_err_and(|error| error.starts_with("ASK ")));
    still_waits(old, &waiter);
    for node in [from, to] {
        cluster.client(node).ask::<()>(&format!("CLUSTER SETSLOT {slot} STABLE"));
    }
    assert_eq!(waiter.granted().owner, "bob");
}

/// A session that was left on the old node must not end the grant when the lock comes back.
#[test]
fn a_session_does_not_outlive_the_move_of_its_slot() {
    let cluster = Cluster::start(Setup::new(), false);
    let (slot, from, to) = cluster.way_of("k");
    let (mut here, mut there) = (cluster.client(from), cluster.client(to));
    let mut alice = cluster.client(from);
    let held = alice.acquire("k", "OWNER alice PX 600000 SESSION").unwrap();
    cluster.begin_move(slot, from, to);
    cluster.move_key("k", from, to);
    wait_for("the end of the session", || here.info("lock", "lock_sessions") == "0");
    cluster.end_move(slot, from, to);
    assert_eq!(there.ask::<i64>("LOCK.EXTEND k alice PX 600000"), 600_000);
    drop(alice);
    cluster.begin_move(slot, to, from);
    cluster.move_key("k", to, from);
    cluster.end_move(slot, to, from);
    // A command looks at the lock, as the session's renewal would.
    drop(Waiter::new(&cluster.nodes[from], "k", "OWNER bob"));
    assert_eq!(here.holder("k").unwrap().fence, held.fence);
}

/// Keys whose slots depend on a part of the key, or on the whole key in spite of braces.
const ODD: [&str; 12] =
    ["{tag}lock", "lock{tag}", "a{}b", "a{b", "a}b", "}", "{", "{}", "{}{tag}", "{a}{b}", "{{x}}", "}{y}"];

#[test]
fn waiters_on_keys_with_odd_braces_are_redirected_too() {
    let cluster = Cluster::start(Setup::new(), false);
    let mut parted = Vec::new();
    for (number, key) in ODD.into_iter().enumerate() {
        let slot: u16 = cluster.client(0).ask(&format!("CLUSTER KEYSLOT {key}"));
        let from = cluster.owner_of(slot);
        cluster.client(from).acquire(key, "OWNER alice PX 600000").unwrap();
        let waiter = Waiter::new(&cluster.nodes[from], key, &format!("OWNER bob{number}"));
        parted.push((key, slot, from, waiter));
    }
    let mut moved = std::collections::HashSet::new();
    for &(_, slot, from, _) in &parted {
        let to = (from + 1) % 3;
        if moved.insert(slot) {
            cluster.begin_move(slot, from, to);
            for &(key, ..) in parted.iter().filter(|(_, other, ..)| *other == slot) {
                cluster.move_key(key, from, to);
            }
            cluster.end_move(slot, from, to);
        }
    }
    for (key, slot, from, waiter) in &mut parted {
        let to = (*from + 1) % 3;
        assert_eq!(told(waiter), format!("MOVED {slot} 127.0.0.1:{}", cluster.nodes[to].port()), "{key}");
        // On the other node, a client can also wait for the lock, and gets it.
        let mut next = Waiter::new(&cluster.nodes[to], key, "OWNER carol");
        assert_eq!(cluster.client(to).ask::<i64>(&format!("LOCK.RELEASE {key} alice")), 0);
        assert_eq!(next.granted().owner, "carol");
    }
}
