//! `BLOCK`: where a client can wait and where not, what is shown of waiters, and how many there may be.

use redis::Value;

use crate::support::{
    Server, Waiter, blocked_clients, grant, lease_end_after, owners, queue, transaction, wait_for,
};

/// The longest timeout is accepted, in RESP3, too.
#[test]
fn the_longest_time_to_wait_is_taken() {
    let (server, mut client) = Server::held();
    let mut bob = Waiter::of(&server, server.client_resp3(), "k", "OWNER bob BLOCK 9007199254740991");
    assert_eq!(queue(&mut client, "k")[0].timeout, 9_007_199_254_740_991);
    client.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(bob.granted().owner, "bob");
}

/// A command that must not wait is answered at once, and the commands after it are executed.
#[test]
fn in_a_transaction_a_script_and_a_function_it_answers_at_once() {
    let (_server, mut client) = Server::held();
    let lines = ["LOCK.ACQUIRE k OWNER bob BLOCK 0", "LOCK.ACQUIRE l OWNER bob BLOCK 0", "PING"];
    let replies = transaction(&mut client, &lines);
    assert_eq!((&replies[0], replies.len()), (&Ok(Value::Nil), 3));
    assert_eq!(grant(replies[1].clone().unwrap()).unwrap().owner, "bob");
    let acquire = "redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', 'bob', 'BLOCK', '0')";
    let library = format!(
        "#!lua name=locks
         redis.register_function('acquire', function(KEYS, args) return {acquire} end)"
    );
    client.ask_words::<(), _>(["FUNCTION", "LOAD", &library]);
    let script = format!("return {acquire}");
    for (call, what, free) in [("EVAL", &script[..], "free"), ("FCALL", "acquire", "other")] {
        assert_eq!(client.ask_words::<Value, _>([call, what, "1", "k"]), Value::Nil);
        let granted = client.send_words([call, what, "1", free]).unwrap();
        assert_eq!(grant(granted).unwrap().owner, "bob");
    }
    assert_eq!(owners(&mut client, "k"), [""; 0]);
    assert_eq!(blocked_clients(&mut client), 0);
}

/// Since version 8.1, Valkey does not block clients that are subscribed to a channel.
#[test]
fn a_subscriber_waits_where_the_server_lets_it() {
    let (server, mut client) = Server::held();
    let valkey = client.info("server", "valkey_version");
    let waits = !["8.1.", "9."].iter().any(|since| valkey.starts_with(since));
    let mut bob = server.client_resp3();
    bob.begin("SUBSCRIBE ch");
    bob.begin("LOCK.ACQUIRE k OWNER bob BLOCK 0");
    if waits {
        wait_for("bob to wait", || client.info("lock", "lock_waiters") == "1");
        client.ask::<()>("LOCK.RELEASE k alice");
    }
    assert_eq!(grant(bob.finish().unwrap()).is_some(), waits);
    assert_eq!(client.info("lock", "lock_waiters"), "0");
}

#[test]
fn info_full_shows_who_waits_since_when_and_how_long() {
    let (server, mut client) = Server::held();
    assert_eq!(queue(&mut client, "k"), []);
    let bob = Waiter::new(&server, "k", "OWNER bob BLOCK 60000");
    wait_for("some time to pass", || queue(&mut client, "k")[0].waited > 30);
    let carol = Waiter::new(&server, "k", "OWNER carol");
    let _elsewhere = Waiter::new(&server, "k", "OWNER bob");
    let waiters = queue(&mut client, "k");
    let shown: Vec<_> = waiters.iter().map(|waiter| (&waiter.owner[..], waiter.id, waiter.timeout)).collect();
    assert_eq!(shown[..2], [("bob", bob.id, 60_000), ("carol", carol.id, 0)]);
    assert!(waiters.is_sorted_by(|earlier, later| earlier.waited >= later.waited), "{waiters:?}");
    assert!(waiters[0].waited >= waiters[1].waited + 30, "{waiters:?}");
    let info = client.lock_info("k").unwrap();
    assert_eq!(info["waiters"], "3");
    assert!(!info.contains_key("queue"), "{info:?}");
    assert_eq!(blocked_clients(&mut client), 3);
}

#[test]
fn the_same_name_in_two_databases_is_two_locks_with_two_queues() {
    let server = Server::start();
    let in_db = |db: u32| {
        let mut client = server.client();
        client.ask::<()>(&format!("SELECT {db}"));
        client
    };
    let (mut zero, mut nine) = (in_db(0), in_db(9));
    zero.acquire("k", "OWNER alice").unwrap();
    nine.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::of(&server, in_db(0), "k", "OWNER bob");
    let mut carol = Waiter::of(&server, in_db(9), "k", "OWNER carol");
    let mut dave = Waiter::of(&server, in_db(9), "k", "OWNER dave");
    assert_eq!(owners(&mut zero, "k"), ["bob"]);
    assert_eq!(owners(&mut nine, "k"), ["carol", "dave"]);
    let ends = lease_end_after(&mut nine, "k", &["LOCK.EXTEND k alice PX 100"]);
    wait_for("the lapse in database 9", || nine.holder("k").is_some_and(|grant| grant.owner == "carol"));
    let granted = carol.granted();
    assert!(granted.granted_at() >= ends, "{granted:?} {ends}");
    assert_eq!(zero.holder("k").unwrap().owner, "alice");
    nine.ask::<()>("FLUSHDB");
    assert_eq!(dave.granted().owner, "dave");
    assert_eq!(owners(&mut zero, "k"), ["bob"]);
    zero.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(bob.granted().owner, "bob");
    assert_eq!(nine.holder("k").unwrap().owner, "dave");
}
