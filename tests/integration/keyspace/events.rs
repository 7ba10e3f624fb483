//! Keyspace events, by which others learn of changes of a lock. Each grant has its own events, in order.

use crate::support::{Client, Listener, Server, Waiter, transaction, wait_for, wall_clock};

/// Returns these events of the key `k`.
fn of_k<const N: usize>(names: [&str; N]) -> [String; N] {
    names.map(|name| format!("lock.{name} k"))
}

fn holds(client: &mut Client, owner: &str, options: &str) -> i64 {
    client.acquire("k", &format!("OWNER {owner} PX 600000 {options}")).expect("a grant").fence
}

fn waits(server: &Server, owner: &str, options: &str) -> Waiter {
    Waiter::new(server, "k", &format!("OWNER {owner} PX 600000 {options}"))
}

/// For each row: the enabled classes of events, the commands of a client, and the expected events. `FENCE #` is the fence of `b`.
#[test]
fn each_grant_extension_release_and_break_is_one_event_of_its_lock() {
    for (classes, steps, expected) in [
        (
            "Ed",
            "LOCK.ACQUIRE k OWNER alice|LOCK.EXTEND k alice PX 50000|LOCK.RELEASE k alice|LOCK.ACQUIRE k OWNER bob|LOCK.BREAK k",
            "acquired k|extended k|released k|acquired k|broken k",
        ),
        (
            "Ed",
            "LOCK.ACQUIRE k OWNER a SHARED|LOCK.ACQUIRE k OWNER b SHARED|LOCK.ACQUIRE k OWNER c LIMIT 3|LOCK.EXTEND k b PX 700000|LOCK.RELEASE k a|LOCK.BREAK k FENCE #|LOCK.RELEASE k c",
            "acquired k|acquired k|acquired k|extended k|released k|broken k|released k",
        ),
        // A re-entry, and the release of one of two holds, have no event.
        (
            "Ed$g",
            "LOCK.ACQUIRE b OWNER alice|LOCK.MACQUIRE 3 a b c OWNER alice|LOCK.MACQUIRE 2 d a OWNER bob|LOCK.MRELEASE 2 c b alice",
            "acquired b|acquired a|acquired c|released c",
        ),
        (
            "Ed",
            "LOCK.ACQUIRE k OWNER alice|LOCK.ACQUIRE k OWNER bob|LOCK.ACQUIRE k OWNER alice ONCE PX 1|LOCK.BREAK free|LOCK.INFO k",
            "acquired k",
        ),
    ] {
        let (server, mut client) = Server::and_client();
        let mut listener = Listener::new(&server, classes);
        for line in steps.split('|') {
            let fence = client.holders("k").iter().find(|one| one.owner == "b").map_or(0, |b| b.fence);
            client.ask::<redis::Value>(&line.replace('#', &fence.to_string()));
        }
        let expected: Vec<_> = expected.split('|').map(|event| format!("lock.{event}")).collect();
        assert_eq!(listener.rest(&server), expected, "{steps}");
    }
    let server = Server::start();
    let mut listener = Listener::new(&server, "KEd");
    server.client().ask::<redis::Value>("LOCK.ACQUIRE k OWNER alice");
    assert_eq!(listener.rest(&server), ["__keyspace@0__:k lock.acquired", "lock.acquired k"]);
}

/// `MOVE` moves a string to the name of a lock whose lease has ended: the event names the lock's database.
#[test]
fn a_lapse_is_one_of_the_database_of_the_lock() {
    for in_a_transaction in [false, true] {
        let (server, mut client) = Server::and_client();
        client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
        let lines = ["SELECT 1", "LOCK.ACQUIRE k OWNER alice PX 1", "SELECT 0", "SET k text"];
        client.send_all(&lines);
        let ends = wall_clock() + 10;
        wait_for("the end of the lease", || wall_clock() > ends);
        let mut listener = Listener::new(&server, "Ed");
        if in_a_transaction {
            transaction(&mut client, &["MOVE k 1"]);
        } else {
            client.ask::<()>("MOVE k 1");
        }
        assert_eq!(listener.rest(&server), ["__keyevent@1__:lock.lapsed k"]);
        assert_eq!(client.info("lock", "lock_lapses"), "1");
        assert_eq!(client.send_all(&["SELECT 0", "EXISTS k"])[1], Ok(redis::Value::Int(0)));
    }
}

#[test]
fn re_entries_and_upgrades_publish_no_event() {
    let (server, mut client) = Server::and_client();
    for owner in ["a", "b"] {
        holds(&mut client, owner, "SHARED");
    }
    let listener = Listener::new(&server, "Ed");
    holds(&mut client, "a", "SHARED");
    holds(&mut client, "a", "LIMIT 2 ONCE");
    let mut upgrade = waits(&server, "a", "");
    client.ask::<()>("LOCK.RELEASE k b");
    upgrade.granted();
    let _ = client.acquire("k", "OWNER c SHARED");
    listener.nothing_but(&server, &["lock.released k"]);
}

#[test]
fn a_break_and_a_lapse_say_so_before_the_next_acquire() {
    let (server, mut client) = Server::and_client();
    let mut listener = Listener::new(&server, "Ed");
    client.acquire("k", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    client.ask::<()>("LOCK.BREAK k");
    bob.granted();
    client.ask::<()>("PEXPIRE k 30");
    carol.granted();
    assert_eq!(listener.next(), of_k(["acquired", "broken", "acquired", "lapsed", "acquired"]));
    listener.nothing_but(&server, &[]);
}

#[test]
fn a_lapse_with_nobody_waiting_is_told_when_the_key_goes() {
    let (server, mut client) = Server::and_client();
    let mut listener = Listener::new(&server, "Edx");
    client.acquire("k", "OWNER alice PX 30").unwrap();
    wait_for("the key to go", || client.ask::<i64>("DBSIZE") == 0);
    let mut events: [String; 3] = listener.next();
    events[1..].sort();
    assert_eq!(events, ["lock.acquired k", "expired k", "lock.lapsed k"]);
    listener.nothing_but(&server, &[]);
}

#[test]
fn a_lapse_beside_a_session_is_told_when_it_happens() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a", "SHARED SESSION");
    let mut listener = Listener::new(&server, "Ed");
    client.acquire("k", "OWNER b SHARED PX 20").unwrap();
    assert_eq!(listener.next(), of_k(["acquired", "lapsed"]));
    assert_eq!(client.lock_info("k").unwrap()["holders"], "1");
}

/// Only the end of a lease is a lapse: not a deletion, nor the expiry of a string, even where a lock was before.
#[test]
fn only_a_lock_whose_lease_ends_has_lapsed() {
    let (server, mut client) = Server::and_client();
    client.acquire("deleted", "OWNER alice").unwrap();
    client.acquire("overwritten", "OWNER alice").unwrap();
    client.acquire("flushed", "OWNER alice").unwrap();
    let mut bob = Waiter::new(&server, "deleted", "OWNER bob PX 600000");
    let listener = Listener::new(&server, "Ed");
    client.ask::<()>("DEL deleted");
    bob.granted();
    client.ask::<()>("SET overwritten text PX 1");
    client.ask::<()>("SET string text PX 1");
    wait_for("the strings to expire", || client.ask::<i64>("EXISTS overwritten string") == 0);
    client.ask::<()>("FLUSHALL");
    listener.nothing_but(&server, &["lock.acquired deleted"]);
}

#[test]
fn the_end_of_a_session_is_a_release() {
    let (server, [mut alice, mut client]) = Server::and_clients();
    let mut listener = Listener::new(&server, "Ed");
    alice.acquire("k", "OWNER alice PX 600000 SESSION").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    drop(alice);
    bob.granted();
    assert_eq!(listener.next(), of_k(["acquired", "released", "acquired"]));
    client.ask::<()>("LOCK.RELEASE k bob");
    listener.nothing_but(&server, &["lock.released k"]);
}

#[test]
fn a_grant_to_a_waiter_that_died_is_taken_back_by_a_release() {
    let (server, mut client) = Server::and_client();
    let mut listener = Listener::new(&server, "Ed");
    client.acquire("k", "OWNER alice").unwrap();
    let bob = Waiter::new(&server, "k", "OWNER bob");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let kill = format!("CLIENT KILL ID {}", bob.id);
    transaction(&mut client, &["LOCK.RELEASE k alice", &kill]);
    carol.granted();
    assert_eq!(listener.next(), of_k(["acquired", "released", "acquired", "released", "acquired"]));
    listener.nothing_but(&server, &[]);
}

#[test]
fn without_the_setting_nothing_is_published() {
    let (server, mut client) = Server::held();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 30");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    assert_eq!(client.ask::<[String; 2]>("CONFIG GET notify-keyspace-events")[1], "");
    let listener = Listener::as_it_is(&server);
    client.ask::<()>("LOCK.EXTEND k alice");
    client.ask::<()>("LOCK.RELEASE k alice");
    bob.granted();
    carol.granted();
    client.ask::<()>("LOCK.BREAK k");
    listener.nothing_but(&server, &[]);
}

/// The server's own events for the key are the same as for an exclusive lock.
#[test]
fn the_servers_own_come_with_the_first_and_the_last_only() {
    let (server, mut client) = Server::and_client();
    let mut own = |options: &str, owners: &[&str]| {
        let mut listener = Listener::new(&server, "EAn");
        for owner in owners {
            holds(&mut client, owner, options);
        }
        for owner in owners {
            client.ask::<()>(&format!("LOCK.RELEASE k {owner}"));
        }
        let mut events = listener.rest(&server);
        events.retain(|event| !event.starts_with("lock."));
        events
    };
    let plain = own("", &["a"]);
    assert_eq!(own("SHARED", &["a", "b", "c"]), plain);
}
