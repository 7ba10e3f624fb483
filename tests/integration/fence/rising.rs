//! Fences: each new grant's fence is greater than all earlier ones.

use crate::support::{Client, OTHER_FENCE, Payload, Server, Setup, Waiter, restore_from_primary};

/// A fence from the year 2200, as a server whose clock is far ahead would give it.
const AHEAD: u64 = 7_258_118_400_000_000;
const GREATEST: u64 = (1 << 53) - 1;
const NO_MORE: &str = "ERR no more fences: the last one given is the greatest there is";

fn restore(client: &mut Client, key: &str, fence: u64) {
    let payload = Payload::lock(client, b"alice", fence, 1).encode();
    restore_from_primary(client, key, 60000, &payload);
}

#[test]
fn fences_rise_over_all_locks_however_fast_they_are_given() {
    let (_server, mut client) = Server::and_client();
    for number in 0..2000 {
        client.begin(&format!("LOCK.ACQUIRE k{}", number % 700));
        client.begin(&format!("LOCK.BREAK k{}", number % 700));
    }
    let mut last = 0;
    for _ in 0..2000 {
        let (_owner, fence, _holds, _lease): (String, i64, i64, i64) =
            redis::from_redis_value(client.finish().unwrap()).unwrap();
        client.finish().unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

#[test]
fn fences_rise_across_flushes_even_where_the_clock_is_behind() {
    let (_server, mut client) = Server::and_client();
    restore(&mut client, "k", AHEAD);
    let mut last = AHEAD as i64;
    for flush in ["DEL k", "FLUSHALL", "FLUSHDB ASYNC", "FLUSHALL SYNC"] {
        client.ask::<()>(flush);
        let fence = client.acquire("k", "").unwrap().fence;
        assert_eq!(fence, last + 1, "{flush}");
        last = fence;
    }
}

#[test]
fn fences_rise_across_a_restart_from_a_file_that_holds_a_greater_one() {
    for aof in ["no", "yes"] {
        let mut server = Setup::new().set("appendonly", aof).set("appendfsync", "always").start();
        let mut client = server.client();
        restore(&mut client, "k", AHEAD);
        let last = client.acquire("l", "").unwrap().fence;
        assert_eq!(last, AHEAD as i64 + 1);
        match aof {
            "no" => server.save_and_restart(),
            _ => server.kill_and_restart(),
        }
        let mut client = server.client();
        assert_eq!(client.holder("l").unwrap().fence, last);
        assert_eq!(client.acquire("m", "").unwrap().fence, last + 1, "appendonly {aof}");
    }
}

#[test]
fn fences_rise_from_a_primary_to_its_promoted_replica() {
    let (primary, mut client) = Server::and_client();
    restore(&mut client, "k", AHEAD);
    let replica = primary.replica();
    client.ask::<()>("DEL k");
    let last = client.acquire("l", "").unwrap().fence;
    client.ask::<()>("LOCK.BREAK l");
    replica.wait_for_sync_with(&primary);
    let mut promoted = replica.client();
    promoted.ask::<()>("REPLICAOF NO ONE");
    assert_eq!(promoted.acquire("m", "").unwrap().fence, last + 1);
}

#[test]
fn the_greatest_fence_is_no_other_grants() {
    let (_server, mut client) = Server::and_client();
    restore(&mut client, "k", GREATEST);
    let before = client.snapshot();
    for beyond in [GREATEST + 1, i64::MAX as u64] {
        for command in ["RELEASE", "EXTEND"] {
            assert_eq!(client.refused(&format!("LOCK.{command} k alice FENCE {beyond}")), OTHER_FENCE);
        }
        assert_eq!(client.ask::<i64>(&format!("LOCK.BREAK k FENCE {beyond}")), 0);
    }
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k alice FENCE {GREATEST}")), 0);
}

#[test]
fn once_the_greatest_fence_is_given_nothing_more_is_granted() {
    let (_server, mut client) = Server::and_client();
    restore(&mut client, "k", GREATEST - 1);
    assert_eq!(client.acquire("l", "").unwrap().fence as u64, GREATEST);
    let before = client.snapshot();
    assert_eq!(client.refused("LOCK.ACQUIRE m"), NO_MORE);
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.acquire("k", "OWNER alice").unwrap().holds, 2);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice ALL"), 0);
}

#[test]
fn without_more_fences_a_lock_that_somebody_waits_for_can_be_given_back() {
    for end in ["LOCK.RELEASE k alice ALL", "LOCK.BREAK k"] {
        let (server, mut client) = Server::and_client();
        restore(&mut client, "k", GREATEST - 1);
        client.acquire("l", "").unwrap();
        let bob = Waiter::new(&server, "k", "OWNER bob");
        client.send(end).unwrap();
        assert!(client.lock_info("k").is_none(), "{end}");
        assert!(bob.is_blocked(&mut client), "there is nothing to give him");
        assert!(client.acquire("k", "OWNER carol").is_none(), "{end}: bob comes first");
    }
}
