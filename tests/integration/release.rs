//! Giving a lock back: only by its owner, only the grant that is meant.

use crate::support::Server;

const NOT_HELD: &str = "NOTHELD the lock is not held by this owner";

#[test]
fn a_release_by_anybody_else_or_of_a_free_lock_is_refused() {
    let (_server, mut client) = Server::and_client();
    assert_eq!(client.refused("LOCK.RELEASE k alice"), NOT_HELD);
    client.acquire("k", "OWNER alice").unwrap();
    let before = client.snapshot();
    for line in [
        "LOCK.RELEASE k bob",
        "LOCK.RELEASE k bob ALL",
        "LOCK.RELEASE k Alice",
        "LOCK.RELEASE k alic",
        "LOCK.RELEASE k alice ALL FENCE 1",
        "LOCK.EXTEND k bob PX 90000",
        "LOCK.EXTEND k alice PX 90000 FENCE 9223372036854775807",
        "LOCK.EXTEND free alice",
    ] {
        assert_eq!(client.refused(line), NOT_HELD, "{line}");
    }
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(client.refused("LOCK.RELEASE k alice"), NOT_HELD);
}
