//! Files: what several locks were granted by comes back as it was.

use super::{ask, granted, grants, holds, holds_one, release, waits};
use crate::support::{Server, Setup, in_each_kind_of_file};

#[test]
fn grants_come_back_from_each_kind_of_file() {
    in_each_kind_of_file(
        |client| {
            let mine = holds_one(client, "mine", "alice");
            let all = holds(client, "a mine b c", "alice", "");
            client.ask::<i64>("LOCK.MEXTEND 2 a b alice PX 900000");
            release(client, "c mine", "alice");
            assert_eq!(all.fences[1], mine);
            let readers = ["r1", "r2"].map(|owner| holds(client, "x y", owner, "SHARED").fences[0]);
            let snapshot = client.snapshot();
            (all, readers, snapshot.leases, snapshot.digest)
        },
        |server, (all, readers, leases, digest)| {
            let mut client = server.client();
            let snapshot = client.snapshot();
            assert_eq!((snapshot.leases, snapshot.digest), (leases, digest));
            let again = holds(&mut client, "mine a b", "alice", "ONCE");
            assert_eq!(again.fences, [all.fences[1], all.fences[0], all.fences[2]]);
            assert_eq!(again.holds, [1, 1, 1]);
            assert!(again.lease <= 600_000 && client.holder("a").unwrap().lease > 800_000);
            for (owner, fence) in ["r1", "r2"].into_iter().zip(readers) {
                assert_eq!(holds(&mut client, "y x", owner, "SHARED ONCE").fences, [fence; 2]);
            }
            assert!(holds(&mut client, "new", "bob", "").fences[0] > readers[1]);
            let mut waiter = waits(server, "a c b", "bob", "");
            assert_eq!(client.ask::<Vec<i64>>("LOCK.MRELEASE 3 a b mine alice ALL"), [0, 0, 0]);
            granted(&mut waiter);
        },
    );
}

/// What was acknowledged is in the file, all of it: never some of the locks of one command.
#[test]
fn a_kill_in_the_middle_of_work_leaves_all_or_none() {
    const KEYS: usize = 20;
    let mut server = Setup::new().set("appendonly", "yes").set("appendfsync", "always").start();
    let keys: Vec<String> = (0..KEYS).map(|n| format!("k{n}")).collect();
    let all = keys.join(" ");
    let mut acknowledged = 0;
    for round in 0..4 {
        let mut workers: Vec<_> = (0..4).map(|_| server.client()).collect();
        for (number, worker) in workers.iter_mut().enumerate() {
            for turn in 0..50 {
                let owner = format!("o{round}-{number}-{turn}");
                worker.begin(&ask(&all, &owner, ""));
                if turn < 49 {
                    worker.begin(&format!("LOCK.MRELEASE {KEYS} {all} {owner}"));
                }
            }
        }
        // Some are answered; the others are on their way.
        for _ in 0..20 * (round + 1) {
            let reply = workers[0].finish().unwrap();
            if let redis::Value::Array(parts) = reply
                && let [redis::Value::BulkString(_), redis::Value::Array(fences), ..] = &parts[..]
                && let redis::Value::Int(fence) = fences[0]
            {
                acknowledged = fence;
            }
        }
        server.kill_and_restart();
        let mut client = server.client();
        let found: Vec<_> =
            keys.iter().map(|key| client.holder(key).map(|grant| (grant.owner, grant.fence))).collect();
        assert!(found.iter().all(|one| *one == found[0]), "round {round}: {found:?}");
        let next = match &found[0] {
            Some((owner, fence)) => {
                assert!(*fence >= acknowledged, "round {round}");
                let again = grants(client.ask(&ask(&all, owner, "ONCE"))).unwrap();
                assert_eq!((&again.fences[..], &again.holds[..]), (&[*fence; KEYS][..], &[1; KEYS][..]));
                client.ask::<Vec<i64>>(&format!("LOCK.MRELEASE {KEYS} {all} {owner}"));
                holds(&mut client, &all, "next", "")
            }
            None => holds(&mut client, &all, "next", ""),
        };
        assert!(next.fences[0] > acknowledged, "round {round}");
        acknowledged = next.fences[0];
        release(&mut client, &all, "next");
    }
}

/// What waited is gone with the server; what was reserved is free.
#[test]
fn reservations_don_t_outlive_the_server() {
    let mut server = Setup::new().set("appendonly", "yes").set("appendfsync", "always").start();
    let mut client = server.client();
    holds_one(&mut client, "a", "alice");
    let waiter = waits(&server, "free a", "bob", "");
    server.kill_and_restart();
    drop(waiter);
    let mut client = server.client();
    assert_eq!(holds(&mut client, "free other", "carol", "").holds, [1, 1]);
    assert_eq!(super::take(&mut client, "a x", "carol", ""), None);
}

#[test]
fn a_payload_is_that_of_one_lock() {
    let (server, there) = (Server::start(), Server::start());
    let mut client = server.client();
    let all = holds(&mut client, "a b", "alice", "");
    let dump: Vec<u8> = client.ask("DUMP b");
    let mut other = there.client();
    other.ask_words::<(), _>([b"RESTORE", &b"b"[..], b"600000", &dump]);
    let found = other.holder("b").unwrap();
    assert_eq!((&found.owner[..], found.fence), ("alice", all.fences[1]));
    let more = holds(&mut other, "a b", "alice", "ONCE");
    assert_eq!(more.fences[1], found.fence);
    assert!(more.fences[0] > found.fence);
}
