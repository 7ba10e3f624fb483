//! What a client has been told is on the replicas.

use redis::Value;

use super::{pair, wait_for_syncing};
use crate::support::{Mailbox, Waiter, convert, freeze, grant, soon, wake};

#[test]
fn the_replica_has_a_grant_when_its_owner_is_told() {
    let (_primary, _replica, mut client, mut there) = pair();
    for number in 0..100 {
        let key = format!("k{number}");
        let told = client.acquire(&key, "OWNER alice PX 60000 SYNC 1 10000").unwrap();
        let held = there.holder(&key).expect("the replica has it");
        assert_eq!((held.owner, held.fence, held.holds), (told.owner, told.fence, told.holds));
    }
    assert_eq!(client.info("lock", "lock_syncs"), "100");
    assert_eq!(client.info("lock", "lock_syncing"), "0");
}

#[test]
fn a_grant_waits_for_the_replica() {
    let (primary, replica, mut client, mut there) = pair();
    freeze(&replica);
    let mut waiter = Waiter::new(&primary, "k", "OWNER alice PX 60000 SYNC 1 60000");
    wait_for_syncing(&mut client, 1);
    // The grant exists, so nobody else can have the lock.
    assert_eq!(client.holder("k").unwrap().owner, "alice");
    assert!(client.acquire("k", "OWNER bob").is_none());
    soon("the lease runs", || client.holder("k").unwrap().lease < 60_000);
    wake(&replica);
    let told = waiter.granted();
    assert_eq!(there.holder("k").unwrap().fence, told.fence);
    assert!(told.lease < 60_000, "it runs from the grant: {told:?}");
}

#[test]
fn extensions_shared_grants_and_several_locks_wait_too() {
    let (primary, replica, mut client, mut there) = pair();
    client.acquire("k", "OWNER alice PX 5000").unwrap();
    freeze(&replica);
    client.begin("LOCK.EXTEND k alice PX 90000 SYNC 1 60000");
    wait_for_syncing(&mut primary.client(), 1);
    wake(&replica);
    let left: i64 = convert(client.finish().unwrap());
    assert!((80_000..=90_000).contains(&left), "{left}");
    assert!(there.holder("k").unwrap().lease > 80_000);
    let left: i64 = client.ask("LOCK.MEXTEND 1 k alice PX 200000 SYNC 1 60000");
    assert!((190_000..=200_000).contains(&left), "{left}");
    assert!(there.holder("k").unwrap().lease > 180_000);
    for owner in ["r1", "r2"] {
        let told = client.acquire("shared", &format!("OWNER {owner} SHARED SYNC 1 60000")).unwrap();
        let all = there.ask::<Value>("LOCK.INFO shared FULL");
        assert!(format!("{all:?}").contains(&told.fence.to_string()), "{all:?}");
    }
    let all: Value = client.ask("LOCK.MACQUIRE 2 a b OWNER alice SYNC 1 60000");
    let (owner, fences, holds, _): (String, Vec<i64>, Vec<i64>, i64) = convert(all);
    assert_eq!((owner.as_str(), holds), ("alice", vec![1, 1]));
    for key in ["a", "b"] {
        assert_eq!(there.holder(key).unwrap().fence, fences[0]);
    }
    // `LOCK.MACQUIRE` of one lock has the reply for several locks.
    let one: Value = client.ask("LOCK.MACQUIRE 1 c OWNER alice SYNC 1 60000");
    assert_eq!(convert::<(String, Vec<i64>, Vec<i64>, i64)>(one).2, [1]);
}

#[test]
fn a_claim_waits_for_the_replica() {
    let (primary, replica, mut client, mut there) = pair();
    let mut mail = Mailbox::of(&primary, "ch");
    client.acquire("k", "OWNER alice").unwrap();
    let words = "LOCK.ACQUIRE k OWNER bob PX 60000 BLOCK 60000 NOTIFY ch ONCE SYNC 1 60000";
    assert_eq!(client.ask::<String>(words), "QUEUED");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = client.holder("k").unwrap().fence;
    assert_eq!(mail.next(), format!("granted {fence} bob"));
    freeze(&replica);
    client.begin(words);
    let mut other = primary.client();
    wait_for_syncing(&mut other, 1);
    assert_eq!(other.info("lock", "lock_places"), "1", "not claimed yet");
    wake(&replica);
    let told = grant(client.finish().unwrap()).unwrap();
    assert_eq!((told.fence, told.holds), (fence, 1));
    soon("it is claimed", || other.info("lock", "lock_places") == "0");
    assert!(there.holder("k").unwrap().lease > 50_000);
}
