//! Grants that live as long as a connection: they stay while it is open, and end when it closes.

use crate::support::{Client, Server, Waiter, grant, soon, transaction};

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

/// Alice holds `k` with a session, bob waits, and her connection ends in this way: bob gets the lock at once.
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
