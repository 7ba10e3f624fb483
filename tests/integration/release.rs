//! Giving a lock back: only by its owner, only the grant that is meant.

use crate::support::{FREE, HELD_BY_ANOTHER, OTHER_FENCE, Server};

#[test]
fn a_release_by_anybody_else_or_of_a_free_lock_is_refused() {
    let (_server, mut client) = Server::and_client();
    assert_eq!(client.refused("LOCK.RELEASE k alice"), FREE);
    client.acquire("k", "OWNER alice").unwrap();
    client.acquire("shared", "OWNER alice SHARED").unwrap();
    client.acquire("shared", "OWNER bob SHARED").unwrap();
    let before = client.snapshot();
    for (line, error) in [
        ("LOCK.RELEASE k bob", HELD_BY_ANOTHER),
        ("LOCK.RELEASE k bob ALL", HELD_BY_ANOTHER),
        ("LOCK.RELEASE k bob FENCE 1", HELD_BY_ANOTHER),
        ("LOCK.RELEASE k Alice", HELD_BY_ANOTHER),
        ("LOCK.RELEASE k alic", HELD_BY_ANOTHER),
        ("LOCK.RELEASE k alice ALL FENCE 1", OTHER_FENCE),
        ("LOCK.EXTEND k bob PX 90000", HELD_BY_ANOTHER),
        ("LOCK.EXTEND k alice PX 90000 FENCE 9223372036854775807", OTHER_FENCE),
        ("LOCK.EXTEND free alice", FREE),
        ("LOCK.RELEASE shared carol", HELD_BY_ANOTHER),
        ("LOCK.RELEASE shared alice FENCE 1", OTHER_FENCE),
        ("LOCK.EXTEND shared carol", HELD_BY_ANOTHER),
        ("LOCK.EXTEND shared bob FENCE 1", OTHER_FENCE),
    ] {
        assert_eq!(client.refused(line), error, "{line}");
    }
    assert_eq!(client.snapshot(), before);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k alice"), 0);
    assert_eq!(client.refused("LOCK.RELEASE k alice"), FREE);
}
