//! Replicas hold the same grants. If a lock has many grants, only the changed one is sent.

use super::hundred::{assert_same, kept, state, take, works};
use super::{holds, readers};
use crate::support::{Client, HELD_BY_ANOTHER, Server, Setup, wait_for};

/// Returns how many bytes a replica receives for this command.
#[track_caller]
fn bytes(client: &mut Client, line: &str) -> i64 {
    let offset =
        |client: &mut Client| -> i64 { client.info("replication", "master_repl_offset").parse().unwrap() };
    let before = offset(client);
    client.ask::<redis::Value>(line);
    offset(client) - before
}

#[track_caller]
fn assert_in_step(replica: &Server, primary: &Server) {
    replica.wait_for_sync_with(primary);
    let (mut here, mut there) = (replica.client(), primary.client());
    assert_eq!(state(&mut here, "k"), state(&mut there, "k"));
    assert_same(&kept(&mut here, "k"), &kept(&mut there, "k"));
}

/// Makes each kind of change to one of `others` + 1 grants. Returns the number of bytes for each, and checks the replica.
#[track_caller]
fn of_each_change(others: usize) -> Vec<i64> {
    // Pings would add to the bytes.
    let primary = Setup::new().set("repl-ping-replica-period", "3600").start();
    let replica = primary.replica();
    let mut client = primary.client();
    let lines: Vec<_> =
        (0..others).map(|number| format!("LOCK.ACQUIRE k OWNER other{number:03} PX 600000 SHARED")).collect();
    client.ask_all::<(String, i64, i64, i64), _>(&lines);
    let changes = [
        "LOCK.ACQUIRE k OWNER one SHARED PX 600000",
        "LOCK.ACQUIRE k OWNER one SHARED PX 600000",
        "LOCK.EXTEND k one PX 700000",
        "LOCK.EXTEND k one PX 500000",
        "LOCK.ACQUIRE k OWNER one LIMIT 1000 PX 600000",
        "LOCK.RELEASE k one",
        "PEXPIRE k 650000",
        "LOCK.RELEASE k one ALL",
        "LOCK.ACQUIRE k OWNER two SHARED PX 600000",
        "LOCK.BREAK k FENCE #",
    ];
    let mut counts = Vec::new();
    for line in changes {
        let last = client.holders("k").last().unwrap().fence;
        counts.push(bytes(&mut client, &line.replace('#', &last.to_string())));
        assert_in_step(&replica, &primary);
    }
    counts
}

#[test]
fn a_change_of_one_is_as_many_bytes_with_a_hundred_others_as_with_two() {
    let (few, many) = (of_each_change(2), of_each_change(100));
    println!("bytes: {few:?} {many:?}");
    for (few, many) in few.iter().zip(&many) {
        assert!(*many > 0 && *many <= few + 8 && *many < 250, "{many} and {few} bytes");
    }
}

#[test]
fn a_replica_has_a_hundred_grants_and_goes_on_with_them() {
    let primary = Server::start();
    let replica = primary.replica();
    take(&mut primary.client(), "k");
    assert_in_step(&replica, &primary);
    // This replica gets the grants with its first copy.
    let late = primary.replica();
    assert_in_step(&late, &primary);
    let before = kept(&mut primary.client(), "k");
    drop(primary);
    let mut client = replica.client();
    client.ask::<()>("REPLICAOF NO ONE");
    assert_same(&kept(&mut client, "k"), &before);
    works(&mut client, "k");
}

#[test]
fn lapsed_ones_are_not_shown_on_a_replica_either() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = primary.client();
    holds(&mut client, "a", "SHARED PX 300");
    readers(&mut client, ["b"]);
    replica.wait_for_sync_with(&primary);
    let mut there = replica.client();
    wait_for("the lapse, as the replica sees it", || there.holding("k") == ["b"]);
    assert_eq!(super::shown(&mut there, "holders"), "1");
    let oldest = there.holder("k").unwrap();
    assert_eq!(oldest.owner, "b");
    // The primary's next change tells the replica.
    readers(&mut client, ["c"]);
    assert_in_step(&replica, &primary);
    assert_eq!(client.refused("LOCK.EXTEND k a"), HELD_BY_ANOTHER);
}

#[test]
fn many_lapses_are_told_in_a_few_bytes() {
    let primary = Setup::new().set("repl-ping-replica-period", "3600").start();
    let replica = primary.replica();
    let mut client = primary.client();
    readers(&mut client, ["stays"]);
    for number in 0..100 {
        holds(&mut client, &format!("r{number}"), "SHARED PX 1000");
    }
    wait_for("all lapses", || client.holding("k") == ["stays"]);
    let told = bytes(&mut client, "LOCK.ACQUIRE k OWNER next SHARED PX 600000");
    assert!(told < 1000, "{told} bytes");
    assert_in_step(&replica, &primary);
    let dump: Vec<u8> = replica.client().ask("DUMP k");
    assert!(dump.len() < 200, "{} bytes: the lapsed are still there", dump.len());
}
