//! Other commands change a lock's key while a client waits for it, and it does not simply become free.

use redis::Value;

use crate::support::{
    Client, Server, Waiter, blocked_clients, convert, lease_end_after, owners, server_time, wait_for,
    wait_until,
};

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Checks that the waiter is still in the queue of `k` behind this holder, and gets the lock next.
#[track_caller]
fn waits_on_behind(client: &mut Client, holder: &str, waiter: &mut Waiter) {
    let now = client.holder("k").unwrap();
    assert_eq!(now.owner, holder);
    assert_eq!(owners(client, "k"), ["bob"]);
    assert!(waiter.is_blocked(client));
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k {holder} ALL")), 0);
    assert!(waiter.granted().fence > now.fence);
}

/// If somebody waits, the server reports each key that such a command makes in another database to the module. On some servers
/// (https://github.com/valkey-io/valkey/pull/4024) the client then stays in the other database.
#[test]
fn a_client_that_moves_a_key_stays_in_its_database() {
    let (server, mut client) = Server::held();
    let _bob = Waiter::new(&server, "k", "OWNER bob");
    client.acquire("other", "OWNER alice").unwrap();
    client.ask::<()>("SET text text");
    // `COPY` is not tested: on Valkey 8.1 it has a fault that a module can't correct; see docs/operations/server-faults.md.
    for line in ["MOVE other 1", "MOVE k 1", "MOVE text 3"] {
        assert_eq!(client.ask::<i64>(line), 1);
        let info: String = client.ask("CLIENT INFO");
        assert!(info.contains(" db=0 "), "{line}: {info}");
    }
}

#[test]
fn swapdb_changes_the_holders_of_both_and_the_waiters_stay() {
    let (server, [mut zero, mut one]) = Server::and_clients();
    one.ask::<()>("SELECT 1");
    zero.acquire("k", "OWNER alice").unwrap();
    one.acquire("k", "OWNER carol").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    let mut client = server.client();
    client.ask::<()>("SELECT 1");
    let mut dave = Waiter::of(&server, client, "k", "OWNER dave");
    zero.ask::<()>("SWAPDB 0 1");
    assert_eq!(one.holder("k").unwrap().owner, "alice");
    assert_eq!(owners(&mut one, "k"), ["dave"]);
    waits_on_behind(&mut zero, "carol", &mut bob);
    assert_eq!(one.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(dave.granted().owner, "dave");
}

#[test]
fn a_lease_that_comes_with_a_renamed_or_restored_key_ends_when_it_ends() {
    let (server, mut client, mut bob) = Server::waited_for();
    let lines = ["LOCK.ACQUIRE other OWNER carol PX 150", "RENAME other k"];
    let renamed = lease_end_after(&mut client, "k", &lines);
    let granted = bob.granted();
    assert!(granted.granted_at() >= renamed, "{granted:?} {renamed}");
    let mut carol = Waiter::of(&server, bob.client, "k", "OWNER carol");
    let dump: Vec<u8> = client.ask("DUMP k");
    let ends = server_time(&mut client) + 150;
    let deadline = ends.to_string();
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], deadline.as_bytes(), &dump, b"REPLACE", b"ABSTTL"]);
    let granted = carol.granted();
    assert!(granted.granted_at() >= ends, "{granted:?} {ends}");
}

/// Checks that all waiters for `k` are told that it is no lock any more, and that later ones work again.
#[track_caller]
fn sends_the_waiters_away(lines: &[&str]) {
    let (server, mut client) = Server::and_client();
    client.ask::<()>("SET text text");
    client.ask::<()>("SADD set a b");
    client.ask::<()>("RPUSH list a b");
    client.acquire("k", "OWNER alice").unwrap();
    let mut waiters =
        ["bob", "carol", "alice2"].map(|owner| Waiter::new(&server, "k", &format!("OWNER {owner}")));
    for line in lines {
        client.ask::<Value>(line);
    }
    for waiter in &mut waiters {
        assert_eq!(waiter.refused(), WRONG_TYPE, "{lines:?}");
    }
    assert_eq!(blocked_clients(&mut client), 0);
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER bob BLOCK 0"), WRONG_TYPE);
    client.ask::<()>("DEL k");
    client.acquire("k", "OWNER dave").unwrap();
    let mut erin = Waiter::new(&server, "k", "OWNER erin");
    client.ask::<()>("LOCK.RELEASE k dave");
    assert_eq!(erin.granted().owner, "erin");
}

#[test]
fn another_type_in_the_place_of_the_lock_sends_the_waiters_away() {
    let lines: [&[&str]; 10] = [
        &["SET k text"],
        &["MSET other text k text"],
        &["SET k text PX 600000"],
        &["SUNIONSTORE k set"],
        &["SORT list ALPHA STORE k"],
        &["COPY text k REPLACE"],
        &["RENAME text k"],
        &["MULTI", "DEL k", "RPUSH k a", "EXEC"],
        &["MULTI", "FLUSHALL", "SET k text", "EXEC"],
        &["SELECT 1", "SET k text", "SWAPDB 0 1", "SELECT 0"],
    ];
    lines.into_iter().for_each(sends_the_waiters_away);
}

#[test]
fn persist_makes_them_wait_on_until_the_lease_has_an_end_again() {
    let (_server, mut client, mut bob) = Server::waited_for();
    // These commands run directly after each other.
    let lines = ["LOCK.EXTEND k alice PX 300", "PEXPIRETIME k", "PERSIST k"];
    client.begin_together(&lines.map(|line| line.split(' ').collect()));
    let [extended, ends, persisted] = lines.map(|_| convert::<i64>(client.finish().unwrap()));
    assert_eq!([extended, persisted], [300, 1]);
    wait_until(&mut client, ends + 50);
    assert_eq!(owners(&mut client, "k"), ["bob"]);
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k alice PX 20"), 20);
    assert_eq!(bob.granted().owner, "bob");
}

#[test]
fn what_leaves_the_lock_alone_leaves_the_queue_alone() {
    let (_server, mut client, mut bob) = Server::waited_for();
    for line in ["TYPE k", "TOUCH k", "OBJECT ENCODING k", "DUMP k", "EXISTS k", "RANDOMKEY", "SWAPDB 1 2"] {
        client.ask::<Value>(line);
    }
    for line in ["RPUSH k a", "GET k", "SADD k a", "APPEND k a", "COPY k other", "RENAMENX k k"] {
        let _ = client.send(line);
    }
    client.ask::<()>("SELECT 1");
    client.ask::<()>("FLUSHDB");
    client.ask::<()>("SELECT 0");
    waits_on_behind(&mut client, "alice", &mut bob);
}

/// The server itself blocks a client on the key; its commands and the lock's waiters must not disturb each other.
#[test]
fn others_blocked_on_the_same_key_are_served_in_their_turn() {
    let (server, mut client) = Server::and_client();
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
