//! `START`: the message contains everything that a waiter needs, and its work begins without a claim.

use redis::Value;

use super::queue_up;
use crate::support::{
    Client, Mailbox, Setup, Waiter, heard, is_left_of, owners, soon, transaction, wait_for,
};

/// Alice releases `k`, and bob is told to start. Returns the fence.
#[track_caller]
fn start_bob(client: &mut Client, mail: &mut Mailbox, rest: &str) -> i64 {
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = client.holder("k").unwrap().fence;
    assert_eq!(mail.next(), format!("start {fence} {rest} bob"));
    fence
}

#[test]
fn a_handover_is_a_message_and_a_release() {
    let (_server, mut client, mut mail) = super::held("claim 5000");
    queue_up(&mut client, "bob", "PX 60000 START 7");
    queue_up(&mut client, "carol", "PX 60000 START 9223372036854775807 WANTED");
    let bobs = start_bob(&mut client, &mut mail, "5000 0 7");
    let held = client.holder("k").unwrap();
    assert!(held.owner == "bob" && held.holds == 1 && is_left_of(5000, &held), "{held:?}");
    assert_eq!(client.info("lock", "lock_places"), "1");
    // Bob has no place any more.
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k bob"), 0);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k bob FENCE {bobs}")), 0);
    let carols = client.holder("k").unwrap().fence;
    assert!(carols > bobs);
    assert_eq!(mail.next(), format!("start {carols} 5000 0 9223372036854775807 carol"));
    assert_eq!(client.info("lock", "lock_places"), "0");
    // Carol has started, so she is told of waiters.
    let _dave = Waiter::new(&_server, "k", "OWNER dave");
    assert_eq!(mail.next(), format!("wanted {carols} carol"));
}

/// The message has the slot, and the lease after all settings and options have been applied.
#[test]
fn the_message_says_how_long_it_lasts_and_the_slot() {
    let cases = [
        ("", "PX 2000", "2000 0"),
        ("", "MAXHOLD 1500", "1500 0"),
        ("max-lease 40000 max-hold 3000", "", "3000 0"),
        ("", "SHARED", "5000 0"),
    ];
    for (settings, options, rest) in cases {
        let (_server, mut client, mut mail) = heard(settings);
        client.acquire("k", "OWNER alice").unwrap();
        queue_up(&mut client, "bob", &format!("{options} START 1"));
        start_bob(&mut client, &mut mail, &format!("{rest} 1"));
        let held = client.holder("k").unwrap();
        assert!(is_left_of(rest.split_once(' ').unwrap().0.parse().unwrap(), &held), "{options}: {held:?}");
    }
    let (_server, mut client, mut mail) = super::heard("claim 5000");
    for owner in ["alice", "zoe"] {
        client.acquire("k", &format!("OWNER {owner} LIMIT 2")).unwrap();
    }
    queue_up(&mut client, "bob", "LIMIT 2 START 1");
    client.ask::<()>("LOCK.RELEASE k zoe");
    let told = mail.next();
    assert!(told.starts_with("start ") && told.ends_with(" 5000 2 1 bob"), "{told}");
}

/// While somebody waited, an operator has made the longest lease shorter than the time to claim a grant.
#[test]
fn the_message_says_no_more_than_the_longest_lease() {
    let (_server, mut client, mut mail) = super::held("claim 5000");
    queue_up(&mut client, "bob", "PX 60000 START 1");
    client.ask::<()>("CONFIG SET lock.max-lease 1000");
    start_bob(&mut client, &mut mail, "1000 0 1");
}

/// Another command shortens the lease in the turn of the grant, perhaps after a timer has looked at the lock.
#[test]
fn the_message_says_what_is_left_of_the_lease() {
    let ask = "LOCK.ACQUIRE k OWNER dave";
    for lines in [&["LOCK.RELEASE k alice", "PEXPIRE k 2000"][..], &["FLUSHDB ASYNC", ask, "PEXPIRE k 2000"]]
    {
        let (_server, mut client, mut mail) = super::held("claim 5000");
        queue_up(&mut client, "bob", "PX 60000 START 1");
        transaction(&mut client, lines);
        let told = mail.next();
        let lease: i64 = told.split(' ').nth(2).unwrap().parse().unwrap();
        assert!(told.starts_with("start ") && (1..=4000).contains(&lease), "{told}");
    }
}

/// The reply is the same in both protocols and in a transaction; the message follows it.
#[test]
fn the_reply_is_queued_everywhere() {
    let (server, mut client, mut mail) = super::held("claim 5000");
    queue_up(&mut server.client_resp3(), "zoe", "START 1");
    soon("her leave", || owners(&mut client, "k").is_empty());
    let asks = "LOCK.ACQUIRE k OWNER bob ONCE BLOCK 0 NOTIFY ch START 2";
    let replies = transaction(&mut client, &[asks, "LOCK.RELEASE k alice"]);
    assert_eq!(replies, [Ok(Value::SimpleString("QUEUED".into())), Ok(Value::Int(0))]);
    assert_eq!(mail.next(), format!("start {} 5000 0 2 bob", client.holder("k").unwrap().fence));
    let script = ["EVAL", "return redis.call('LOCK.ACQUIRE', 'l', 'NOTIFY', 'ch', 'START', '1')", "0"];
    assert!(client.send_words(script).unwrap_err().contains("NOTIFY is not allowed in scripts"));
}

/// Without memory, the server refuses new acquires, but it grants the lock to a waiter, and accepts the extension that claims the grant.
#[test]
fn a_server_out_of_memory_has_it_start_and_extend() {
    let (_server, mut client, mut mail) = super::held("claim 5000");
    queue_up(&mut client, "bob", "START 1");
    client.ask::<()>("CONFIG SET maxmemory 1");
    let fence = start_bob(&mut client, &mut mail, "5000 0 1");
    assert!(client.refused("LOCK.ACQUIRE k OWNER bob ONCE").starts_with("OOM "));
    assert_eq!(client.ask::<i64>(&format!("LOCK.EXTEND k bob PX 60000 FENCE {fence}")), 60_000);
}

#[test]
fn a_restart_and_a_promotion_keep_what_has_started() {
    let setup = Setup::new().set("appendonly", "yes").set("appendfsync", "always").module_args("claim 60000");
    let mut server = setup.start();
    let replica = server.replica();
    let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut client, "bob", "PX 60000 START 1");
    let fence = start_bob(&mut client, &mut mail, "60000 0 1");
    replica.wait_for_sync_with(&server);
    server.kill_and_restart();
    let mut client = server.client();
    wait_for("the file to be read", || client.send("PING").is_ok());
    let extend = format!("LOCK.EXTEND k bob PX 90000 FENCE {fence}");
    assert_eq!(client.ask::<i64>(&extend), 90_000);
    let mut client = replica.client();
    client.ask::<()>("REPLICAOF NO ONE");
    assert_eq!(client.ask::<i64>(&extend), 90_000);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k bob FENCE {fence}")), 0);
}
