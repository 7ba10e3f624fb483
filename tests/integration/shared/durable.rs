//! Files and payloads: several grants come back as they were.

use super::hundred::{COUNT, assert_same, kept, state, take, works};
use super::{holds, readers};
use crate::support::{Server, Setup, in_each_kind_of_file, server_time, wait_for, wait_until};

#[test]
fn a_hundred_grants_come_back_from_each_kind_of_file() {
    in_each_kind_of_file(
        |client| {
            take(client, "k");
            (kept(client, "k"), state(client, "k"))
        },
        |server, (before, state_before)| {
            let mut client = server.client();
            assert_same(&kept(&mut client, "k"), &before);
            assert_eq!(state(&mut client, "k"), state_before);
            works(&mut client, "k");
        },
    );
}

#[test]
fn and_after_the_changes_of_some() {
    in_each_kind_of_file(
        |client| {
            take(client, "k");
            let owners = client.holding("k");
            let fence = client.holders("k")[7].fence;
            for line in [
                format!("LOCK.EXTEND k {} PX 900000", owners[2]),
                format!("LOCK.EXTEND k {} PX 700000", owners[99]),
                format!("LOCK.RELEASE k {} ALL", owners[0]),
                format!("LOCK.RELEASE k {}", owners[2]),
                format!("LOCK.BREAK k FENCE {fence}"),
                format!("LOCK.ACQUIRE k OWNER {} LIMIT 150", owners[6]),
                "PEXPIRE k 800000".into(),
                "LOCK.ACQUIRE k OWNER later SHARED PX 1000000".into(),
                "RENAME k l".into(),
            ] {
                client.ask::<redis::Value>(&line);
            }
            (kept(client, "l"), state(client, "l"))
        },
        |server, (before, state_before)| {
            let mut client = server.client();
            assert_eq!(before.len(), COUNT - 1);
            assert_same(&kept(&mut client, "l"), &before);
            assert_eq!(state(&mut client, "l"), state_before);
        },
    );
}

#[test]
fn leases_without_an_end_beside_others() {
    in_each_kind_of_file(
        |client| {
            readers(client, ["a", "b", "c"]);
            client.ask::<()>("PERSIST k");
            client.ask::<()>("LOCK.EXTEND k b PX 500000");
            readers(client, ["d"]);
            let kept = kept(client, "k");
            let leases: Vec<_> = kept.iter().map(|kept| kept.holder.lease < 0).collect();
            assert_eq!(leases, [true, false, true, false]);
            kept
        },
        |server, before| {
            let mut client = server.client();
            assert_same(&kept(&mut client, "k"), &before);
            assert_eq!(client.ask::<i64>("PTTL k"), -1);
            client.ask::<()>("LOCK.EXTEND k b PX 30");
            wait_for("a lapse", || client.holding("k") == ["a", "c", "d"]);
        },
    );
}

/// One with room for several alone is one of them still.
#[test]
fn a_single_reader_is_one_afterwards() {
    in_each_kind_of_file(
        |client| {
            readers(client, ["a"]);
            client.acquire("l", "OWNER a PX 600000 LIMIT 2").unwrap();
            client.acquire("p", "OWNER a PX 600000").unwrap();
            ["k", "l", "p"].map(|key| kept(client, key))
        },
        |server, before| {
            let mut client = server.client();
            for (key, before) in ["k", "l", "p"].into_iter().zip(before) {
                assert_same(&kept(&mut client, key), &before);
            }
            holds(&mut client, "b", "SHARED");
            client.acquire("l", "OWNER b SHARED").unwrap();
            assert_eq!(client.acquire("l", "OWNER c SHARED"), None);
            assert_eq!(client.acquire("p", "OWNER b SHARED"), None);
        },
    );
}

#[test]
fn what_lapsed_while_the_server_was_down_is_gone_and_the_rest_is_there() {
    for aof in ["no", "yes"] {
        let setup = Setup::new().set("appendonly", aof).set("appendfsync", "always");
        let mut server = setup.start();
        let mut client = server.client();
        holds(&mut client, "a", "LIMIT 2 PX 300");
        let ends = server_time(&mut client) + 300;
        let b = holds(&mut client, "b", "LIMIT 2");
        if aof == "no" {
            client.ask::<()>("SAVE");
        }
        server.kill();
        crate::support::wait_for("the end of the lease", || crate::support::wall_clock() > ends + 1);
        server.relaunch();
        let mut client = server.client();
        wait_until(&mut client, ends);
        assert_eq!(client.holders("k").iter().map(|one| one.fence).collect::<Vec<_>>(), [b.fence], "{aof}");
        assert!(holds(&mut client, "c", "LIMIT 2").fence > b.fence);
    }
}

/// What was acknowledged is in the file, whatever was on its way when the server was killed.
#[test]
fn a_kill_in_the_middle_of_work_loses_nothing_acknowledged() {
    let mut server = Setup::new().set("appendonly", "yes").set("appendfsync", "always").start();
    for round in 0..3 {
        let mut client = server.client();
        let mut there: Vec<(String, i64)> =
            client.holders("k").into_iter().map(|holder| (holder.owner, holder.fence)).collect();
        for number in 0..60 {
            let grant = holds(&mut client, &format!("r{round}-{number}"), "SHARED");
            there.push((grant.owner, grant.fence));
            if number % 3 == 0 {
                let (owner, fence) = there.remove(there.len() / 2);
                assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k {owner} FENCE {fence}")), 0);
            }
        }
        let mut others: Vec<_> = (0..5).map(|_| server.client()).collect();
        for (number, other) in others.iter_mut().enumerate() {
            other.begin(&format!("LOCK.ACQUIRE k OWNER late{round}-{number} SHARED PX 600000"));
        }
        server.kill_and_restart();
        let mut found: Vec<_> =
            server.client().holders("k").into_iter().map(|holder| (holder.owner, holder.fence)).collect();
        found.retain(|(owner, _)| !owner.starts_with("late"));
        there.retain(|(owner, _)| !owner.starts_with("late"));
        assert_eq!(found, there, "round {round}");
    }
}

#[test]
fn dumped_and_restored() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, "k");
    let (before, (_, ends)) = (kept(&mut client, "k"), state(&mut client, "k"));
    let dump: Vec<u8> = client.ask("DUMP k");
    client.ask::<()>("DEL k");
    let there = Server::start();
    for server in [&server, &there] {
        let mut client = server.client();
        client.ask_words::<(), _>([b"RESTORE", &b"k"[..], ends.to_string().as_bytes(), &dump, b"ABSTTL"]);
        assert_same(&kept(&mut client, "k"), &before);
        assert_eq!(client.ask::<Vec<u8>>("DUMP k"), dump);
        works(&mut client, "k");
    }
}

/// The leases hang on the TTL that it is restored with.
#[test]
fn restored_with_another_ttl_all_leases_are_moved() {
    let server = Server::start();
    let mut client = server.client();
    for (owner, lease) in [("a", 300_000), ("b", 600_000)] {
        holds(&mut client, owner, &format!("SHARED PX {lease}"));
    }
    let dump: Vec<u8> = client.ask("DUMP k");
    let leases = |client: &mut crate::support::Client| -> Vec<i64> {
        client.holders("k").iter().map(|holder| (holder.lease + 40_000).div_euclid(100_000)).collect()
    };
    for (ttl, expected) in
        [("900000", vec![6, 9]), ("400000", vec![1, 4]), ("200000", vec![2]), ("0", vec![0, 0])]
    {
        client.ask_words::<(), _>([b"RESTORE", &b"k"[..], ttl.as_bytes(), &dump, b"REPLACE"]);
        assert_eq!(leases(&mut client), expected, "{ttl}");
    }
}
