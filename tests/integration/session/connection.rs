//! Grants that live as long as a connection: kept while it is open, released when it closes.

use redis::Value;

use crate::support::{
    Client, Server, Waiter, grant, server_time, soon, transaction, wait_until, wait_until_gone,
};

#[track_caller]
fn id(client: &mut Client) -> i64 {
    client.ask("CLIENT ID")
}

#[track_caller]
pub(super) fn has_session(client: &mut Client, key: &str) -> bool {
    match &client.lock_info(key).expect("a held lock")["session"][..] {
        "1" => true,
        "0" => false,
        other => panic!("session is {other}"),
    }
}

/// Alice holds `k` in a session, bob waits, and her connection ends in that way: he gets the lock at once.
#[track_caller]
fn ends_with(options: &str, end: impl FnOnce(&mut Client, Client)) {
    let (server, [mut alice, mut client]) = Server::and_clients();
    let first = alice.acquire("k", &format!("OWNER alice PX 600000 SESSION {options}")).unwrap();
    alice.acquire("free", "OWNER alice PX 600000 SESSION").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    end(&mut client, alice);
    let second = bob.granted();
    assert!(second.fence > first.fence);
    soon("the release of a lock that nobody waits for", || client.holder("free").is_none());
    assert_eq!(client.ask::<i64>("EXISTS free"), 0);
    assert!(!has_session(&mut client, "k"));
}

#[test]
fn a_connection_that_closes_is_killed_or_quits_releases_its_locks() {
    for options in ["", "ONCE", "BLOCK 0"] {
        ends_with(options, |_, alice| drop(alice));
    }
    ends_with("", |client, mut alice| {
        let id = id(&mut alice);
        assert_eq!(client.ask::<i64>(&format!("CLIENT KILL ID {id}")), 1);
    });
    ends_with("", |_, mut alice| alice.ask("QUIT"));
}

#[test]
fn in_another_database_too() {
    let (_server, [mut alice, mut client]) = Server::and_clients();
    for (db, key) in [(0, "k"), (7, "k"), (7, "l")] {
        alice.ask::<()>(&format!("SELECT {db}"));
        alice.acquire(key, "OWNER alice PX 450 SESSION").unwrap();
    }
    client.ask::<()>("SELECT 7");
    let end = server_time(&mut client) + 700;
    wait_until(&mut client, end);
    assert!(has_session(&mut client, "k") && has_session(&mut client, "l"));
    alice.ask::<()>("SELECT 3");
    drop(alice);
    soon("free locks", || client.ask::<i64>("DBSIZE") == 0);
    client.ask::<()>("SELECT 0");
    soon("free locks", || client.ask::<i64>("DBSIZE") == 0);
}

#[test]
fn a_lock_renamed_away_is_no_longer_the_sessions() {
    let (_server, [mut alice, mut client]) = Server::and_clients();
    let first = alice.acquire("k", "OWNER alice PX 1000 SESSION").unwrap();
    client.ask::<()>("RENAME k other");
    let ends: i64 = client.ask("PEXPIRETIME other");
    client.acquire("k", "OWNER bob PX 600000").unwrap();
    drop(alice);
    wait_until(&mut client, ends);
    assert_eq!(client.holder("other"), None);
    let holder = client.holder("k").unwrap();
    assert!(holder.owner == "bob" && holder.fence > first.fence);
}

#[test]
fn what_ends_the_grant_ends_the_session() {
    for line in ["LOCK.RELEASE k alice", "LOCK.BREAK k", "DEL k", "FLUSHALL", "MOVE k 1", "SWAPDB 0 1"] {
        let (server, [mut alice, mut client]) = Server::and_clients();
        let alice_id = id(&mut alice);
        let first = alice.acquire("k", "OWNER alice PX 600000 SESSION").unwrap();
        server.client().ask::<Value>(line);
        // Alice acquires it anew, without a session: nothing of the old session must touch this grant.
        let second = client.acquire("k", "OWNER alice PX 600000").unwrap();
        assert!(second.fence > first.fence && second.holds == 1, "{line}");
        assert!(!has_session(&mut client, "k"), "{line}");
        drop(alice);
        wait_until_gone(&mut client, alice_id);
        assert_eq!(client.ask::<String>("PING"), "PONG");
        assert_eq!(client.holder("k").map(|holder| holder.fence), Some(second.fence), "{line}");
    }
}

#[test]
fn a_script_has_no_connection_for_a_session() {
    let (_server, mut client) = Server::and_client();
    let call = "redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', 'alice', 'SESSION')";
    let script = format!("return {call}");
    let error = client.send_words(["EVAL", &script, "1", "k"]).unwrap_err();
    assert!(error.starts_with("ERR SESSION is not allowed in scripts"), "{error}");
    let library =
        format!("#!lua name=locks\nredis.register_function('f', function(KEYS, args) return {call} end)");
    client.ask_words::<(), _>(["FUNCTION", "LOAD", &library]);
    let error = client.send_words(["FCALL", "f", "1", "k"]).unwrap_err();
    assert!(error.starts_with("ERR SESSION is not allowed in scripts"), "{error}");
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
}

#[test]
fn in_a_transaction_a_session_is_the_connections() {
    let (_server, [mut alice, mut client]) = Server::and_clients();
    let replies = transaction(&mut alice, &["LOCK.ACQUIRE k OWNER alice PX 600000 SESSION"]);
    assert_eq!(grant(replies[0].clone().unwrap()).unwrap().holds, 1);
    assert!(has_session(&mut client, "k"));
    drop(alice);
    soon("a free lock", || client.holder("k").is_none());
}

#[test]
fn a_lock_overwritten_with_another_type_leaves_no_session() {
    let (server, mut client) = Server::and_client();
    let mut holder = server.client();
    holder.acquire("k", "OWNER alice PX 60000 SESSION").unwrap();
    assert_eq!(client.ask::<String>("SET k v"), "OK");
    soon("no session is left", || client.info("lock", "lock_sessions") == "0");
    drop(holder);
    soon("no session is left", || client.info("lock", "lock_sessions") == "0");
    assert_eq!(client.ask::<String>("GET k"), "v");
}
