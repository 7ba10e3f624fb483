//! `SHARED` and `LIMIT`: room on each of the locks.

use super::{ask, count, free, gets_null, granted, holders, holds, release, waits, waits_for_one};
use crate::support::{Server, owners};

const DEADLOCK: &str = "DEADLOCK another owner waits already to upgrade its grant of this lock";

#[test]
fn readers_of_several_and_a_writer_of_one() {
    let (_server, mut client) = Server::and_client();
    for owner in ["r1", "r2"] {
        holds(&mut client, "a b", owner, "SHARED");
    }
    gets_null(&mut client, &ask("b c", "w", ""));
    gets_null(&mut client, &ask("c b", "l", "LIMIT 2"));
    holds(&mut client, "b c", "r3", "LIMIT 3");
    gets_null(&mut client, &ask("c b", "r4", "SHARED"));
    assert_eq!(client.holding("b"), ["r1", "r2", "r3"]);
    assert_eq!(client.holding("c"), ["r3"]);
    assert_eq!(count(&mut client, "lock_grants_shared"), 6);
}

/// All the grants of one command have one fence, and each lock has each fence once.
#[test]
fn grants_beside_others_have_their_own_fence() {
    let (_server, mut client) = Server::and_client();
    let fences = ["r1", "r2", "r3"].map(|owner| holds(&mut client, "a b", owner, "SHARED").fences);
    assert!(fences.is_sorted() && fences[0] != fences[1] && fences[1] != fences[2]);
    for key in ["a", "b"] {
        let shown: Vec<_> = client.holders(key).iter().map(|holder| holder.fence).collect();
        assert_eq!(shown, fences.clone().map(|fences| fences[0]));
    }
}

#[test]
fn waiting_readers_come_together_when_the_writer_goes() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "w", "");
    let mut readers = ["r1", "r2", "r3"].map(|owner| waits(&server, "b a", owner, "SHARED"));
    let mut single = waits_for_one_reader(&server, "a", "r4");
    let mut writer = waits(&server, "a c", "w2", "");
    let mut late = waits(&server, "c", "r5", "SHARED");
    release(&mut client, "a b", "w");
    for reader in &mut readers {
        granted(reader);
    }
    single.granted();
    assert_eq!(client.holding("a"), ["r1", "r2", "r3", "r4"]);
    assert!(writer.is_blocked(&mut client) && late.is_blocked(&mut client));
    for owner in ["r1", "r2", "r3"] {
        release(&mut client, "a b", owner);
    }
    free(&mut client, "a", "r4");
    granted(&mut writer);
    release(&mut client, "a c", "w2");
    granted(&mut late);
}

#[track_caller]
fn waits_for_one_reader(server: &Server, key: &str, owner: &str) -> crate::support::Waiter {
    crate::support::Waiter::new(server, key, &format!("OWNER {owner} SHARED PX 600000"))
}

#[test]
fn none_is_upgraded_where_one_has_other_readers() {
    let (server, mut client) = Server::and_client();
    let mine = holds(&mut client, "a b", "alice", "SHARED");
    client.acquire("b", "OWNER bob SHARED PX 600000").unwrap();
    gets_null(&mut client, &ask("a b c", "alice", ""));
    assert_eq!(client.held_by("a", "alice").unwrap().limit, 0);
    let mut up = waits(&server, "a b c", "alice", "");
    assert_eq!(client.held_by("a", "alice").unwrap().limit, 0, "not yet");
    free(&mut client, "b", "bob");
    let all = granted(&mut up);
    assert_eq!((&all.fences[..2], &all.holds[..]), (&mine.fences[..], &[2, 2, 1][..]));
    assert!(all.fences[2] > mine.fences[0]);
    assert_eq!(client.lock_info("a").unwrap()["mode"], "exclusive");
}

/// It stands in front of the queue of the lock on which it holds a grant.
#[test]
fn an_upgrade_passes_those_who_wait_for_its_own_grant() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "SHARED");
    client.acquire("b", "OWNER bob SHARED PX 600000").unwrap();
    let mut writer = waits_for_one(&server, "b", "w");
    let mut up = waits(&server, "a b", "alice", "");
    assert_eq!(owners(&mut client, "b"), ["alice", "w"]);
    free(&mut client, "b", "bob");
    assert_eq!(granted(&mut up).holds, [2, 2]);
    for _ in 0..2 {
        release(&mut client, "a b", "alice");
    }
    writer.granted();
}

#[test]
fn two_upgrades_of_one_lock_are_a_deadlock_at_once() {
    let (server, mut client) = Server::and_client();
    for owner in ["alice", "bob"] {
        holds(&mut client, "a b", owner, "SHARED");
    }
    let mut up = waits(&server, "a b", "alice", "");
    let before = client.snapshot();
    for keys in ["a b", "b", "c b", "a c"] {
        assert_eq!(client.refused(&ask(keys, "bob", "BLOCK 0")), DEADLOCK, "{keys}");
    }
    assert_eq!(client.refused("LOCK.ACQUIRE b OWNER bob BLOCK 0"), DEADLOCK);
    assert_eq!(client.snapshot(), before);
    assert_eq!(holders(&mut client, ["c"]), ["-"]);
    release(&mut client, "a b", "bob");
    granted(&mut up);
}
