//! Many places, on one connection.

use redis::Value;

use crate::support::{Mailbox, Server, Setup, soon, wait_for};

/// A process that dies with a thousand places leaves nothing behind, and gets nothing.
#[test]
fn a_process_that_dies_with_many_places_leaves_none() {
    const LOCKS: usize = 1000;
    let server = Setup::new().module_args("claim 600000").start();
    let (mut client, mut dies) = (server.client(), server.client());
    let mut mail = Mailbox::of(&server, "ch");
    let lines = |line: &str| (0..LOCKS).map(|lock| line.replace('#', &lock.to_string())).collect::<Vec<_>>();
    client.ask_all::<Value, _>(&lines("LOCK.ACQUIRE k# OWNER alice PX 600000"));
    dies.ask_all::<Value, _>(&lines("LOCK.ACQUIRE k# OWNER dies# PX 600000 BLOCK 0 NOTIFY ch"));
    client.ask_all::<Value, _>(&lines("LOCK.ACQUIRE k# OWNER next# PX 600000 BLOCK 0 NOTIFY ch"));
    // Half of them are told before.
    client.ask_all::<Value, _>(&lines("LOCK.RELEASE k# alice")[..LOCKS / 2]);
    wait_for("somebody to be told", || mail.next().starts_with("granted "));
    drop(dies);
    client.ask_all::<Value, _>(&lines("LOCK.RELEASE k# alice")[LOCKS / 2..]);
    for lock in 0..LOCKS {
        soon("the next one to hold it", || {
            client.holder(&format!("k{lock}")).is_some_and(|held| held.owner == format!("next{lock}"))
        });
    }
    assert_eq!(client.info("lock", "lock_places"), LOCKS.to_string());
}

/// One owner with many places: whatever ends them takes no longer for each than for one.
#[test]
fn many_places_of_one_owner_end_in_a_moment() {
    const PLACES: usize = 20_000;
    let (server, [mut client, mut dies]) = Server::and_clients();
    let mut mail = Mailbox::of(&server, "ch");
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let lines = vec!["LOCK.ACQUIRE k OWNER bob PX 600000 BLOCK 0 NOTIFY ch"; PLACES];
    dies.ask_all::<Value, _>(&lines);
    client.ask::<()>("LOCK.RELEASE k alice");
    // One grant, and some re-entries that are to be claimed before there are more.
    (0..32).for_each(|_| assert!(mail.next().starts_with("granted ")));
    drop(dies);
    // The server answers nobody while it takes them back.
    soon("all to be taken back", || client.holder("k").is_none());
    assert_eq!(client.info("lock", "lock_places"), "0");
}

/// However many nobody hears of, the next one who hears has the lock in a moment.
#[test]
fn many_unheard_grants_are_handed_on_in_a_moment() {
    const UNHEARD: usize = 2000;
    let (_server, mut client, mut mail) = super::held("");
    let ask = |owner: usize| format!("LOCK.ACQUIRE k OWNER {owner} BLOCK 0 NOTIFY nobody");
    client.ask_all::<Value, _>(&(0..UNHEARD).map(ask).collect::<Vec<_>>());
    client.ask::<Value>("LOCK.ACQUIRE k OWNER heard BLOCK 0 NOTIFY ch");
    client.ask::<()>("LOCK.RELEASE k alice");
    soon("the last one's grant", || client.holder("k").is_some_and(|held| held.owner == "heard"));
    assert!(mail.next().ends_with(" heard"));
}
