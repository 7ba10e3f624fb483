//! Giving a lock back: only by its owner, only the grant that is meant.

use crate::support::{Server, wait_for};

const NOT_HELD: &str = "NOTHELD the lock is not held by this owner";

#[test]
fn a_release_by_anybody_else_or_of_a_free_lock_is_refused() {
    let (_server, mut client) = Server::and_client();
    assert_eq!(client.refused("LOCK.RELEASE k alice"), NOT_HELD);
    client.acquire("k", "OWNER alice").unwrap();
    let before = client.snapshot();
    for line in
        ["LOCK.RELEASE k bob", "LOCK.RELEASE k bob ALL", "LOCK.RELEASE k Alice", "LOCK.RELEASE k alic"]
    {
        assert_eq!(client.refused(line), NOT_HELD, "{line}");
    }
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(client.refused("LOCK.RELEASE k alice"), NOT_HELD);
}

#[test]
fn a_fence_names_the_one_grant_that_is_released() {
    let (_server, mut client) = Server::and_client();
    let fence = client.acquire("k", "OWNER alice").unwrap().fence;
    client.acquire("k", "OWNER alice").unwrap();
    for other in [1, fence - 1, fence + 1, (1 << 53) - 1, 1 << 53, i64::MAX] {
        assert_eq!(client.refused(&format!("LOCK.RELEASE k alice FENCE {other}")), NOT_HELD, "{other}");
        assert_eq!(client.refused(&format!("LOCK.RELEASE k alice ALL FENCE {other}")), NOT_HELD, "{other}");
    }
    assert_eq!(client.refused(&format!("LOCK.RELEASE k bob FENCE {fence}")), NOT_HELD);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k alice FENCE {fence}")), 1);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k alice fence {fence} ALL")), 0);
}

#[test]
fn a_release_that_leaves_holds_leaves_the_lease() {
    let (_server, mut client) = Server::and_client();
    client.acquire("k", "OWNER alice PX 60000").unwrap();
    client.acquire("k", "OWNER alice PX 60000").unwrap();
    let ends: i64 = client.ask("PEXPIRETIME k");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 1);
    assert_eq!(client.ask::<i64>("PEXPIRETIME k"), ends);
}

/// The mistake of a plain `DEL`: a holder that was too slow deletes the lock of the next one.
#[test]
fn a_late_release_does_not_free_the_lock_of_the_next_holder() {
    let (_server, [mut slow, mut next]) = Server::and_clients();
    slow.acquire("k", "OWNER slow PX 30").unwrap();
    let mut granted = None;
    wait_for("the slow holder's lease to lapse", || {
        granted = next.acquire("k", "OWNER next PX 60000");
        granted.is_some()
    });
    let fence = granted.unwrap().fence;
    assert_eq!(slow.refused("LOCK.RELEASE k slow"), NOT_HELD);
    assert_eq!(slow.refused("LOCK.RELEASE k slow ALL"), NOT_HELD);
    assert_eq!(slow.refused("LOCK.EXTEND k slow"), NOT_HELD);
    let holder = next.holder("k").unwrap();
    assert_eq!((&holder.owner[..], holder.fence, holder.holds), ("next", fence, 1));
    assert_eq!(slow.acquire("k", "OWNER slow"), None);
}
