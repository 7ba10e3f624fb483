//! Every way to leave the queue without the lock: the next waiter must get it.

use std::time::Duration;

use redis::Value;

use crate::support::{SOON, Server, Stopwatch, Waiter, blocked_clients, convert, owners, soon, wait_until};

/// Bob and carol wait for alice's lock, and bob leaves in this way: carol gets the lock when alice releases it.
#[track_caller]
fn the_next_one_gets_it(options: &str, leave: impl FnOnce(&Server, Waiter)) {
    let (server, mut client) = Server::and_client();
    let first = client.acquire("k", "OWNER alice PX 600000").unwrap();
    let bob = Waiter::new(&server, "k", options);
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    leave(&server, bob);
    soon("bob's leave", || owners(&mut client, "k") == ["carol"]);
    assert_eq!(blocked_clients(&mut client), 1);
    assert_eq!(client.holder("k").unwrap().fence, first.fence);
    client.ask::<()>("LOCK.RELEASE k alice");
    assert!(carol.granted().fence > first.fence);
    assert_eq!(blocked_clients(&mut client), 0);
    client.ask::<()>("LOCK.RELEASE k carol");
    assert_eq!(client.holder("k"), None);
}

#[test]
fn a_timeout_answers_null_not_early_and_soon() {
    the_next_one_gets_it("OWNER bob BLOCK 1000", |_, mut bob| {
        let reply = bob.client.finish();
        assert_eq!(reply, Ok(Value::Nil));
        assert_eq!(bob.client.ask::<String>("PING"), "PONG");
    });
    let (_server, mut client) = Server::held();
    for timeout in [1, 2, 10, 100, 130] {
        let watch = Stopwatch::start();
        assert_eq!(client.acquire("k", &format!("OWNER bob BLOCK {timeout}")), None);
        let (after, worked) = (watch.elapsed(), watch.worked());
        let least = Duration::from_millis(timeout);
        assert!(after >= least && worked < least + SOON, "{timeout} ms: {after:?}, {worked:?} of it");
    }
}

#[test]
fn a_demoted_server_sends_them_all_away_and_a_promoted_one_begins_anew() {
    let (server, mut client) = Server::held();
    let mut waiters = ["bob", "carol"].map(|owner| Waiter::new(&server, "k", &format!("OWNER {owner}")));
    let mut session = Waiter::new(&server, "k", "OWNER session SESSION");
    let lines = ["LOCK.EXTEND k alice PX 1000", "PEXPIRETIME k", "REPLICAOF 127.0.0.1 1"];
    client.begin_together(&lines.map(|line| line.split(' ').collect()));
    let [_, ends, _] = lines.map(|_| client.finish().unwrap());
    for waiter in waiters.iter_mut().chain([&mut session]) {
        // Redis then closes the connection.
        let error = waiter.client.finish().unwrap_err();
        assert!(error.starts_with("UNBLOCKED "), "{error}");
    }
    assert_eq!(blocked_clients(&mut client), 0);
    wait_until(&mut client, convert::<i64>(ends) + 50);
    client.ask::<()>("REPLICAOF NO ONE");
    assert_eq!(client.acquire("k", "OWNER dave BLOCK 0").unwrap().owner, "dave");
    let mut erin = Waiter::new(&server, "k", "OWNER erin");
    client.ask::<()>("LOCK.RELEASE k dave");
    assert_eq!(erin.granted().owner, "erin");
}

/// A server shuts down, although clients wait or hold sessions.
#[test]
fn a_shutdown_ends_all_waits() {
    let mut server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 600000 SESSION").unwrap();
    let mut waiters: Vec<_> =
        (0..20).map(|number| Waiter::new(&server, "k", &format!("OWNER w{number} SESSION"))).collect();
    server.save_and_restart();
    let log = server.log();
    assert!(log.contains("ready to exit, bye bye"), "{log}");
    assert!(!log.contains("BUG REPORT") && !log.contains("panic"), "{log}");
    let mut client = server.client();
    assert_eq!(client.holder("k").unwrap().owner, "alice");
    assert_eq!(blocked_clients(&mut client), 0);
    waiters.clear();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    client.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(bob.granted().owner, "bob");
}
