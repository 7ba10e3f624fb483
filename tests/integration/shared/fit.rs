//! Which owners may hold a lock together: the number of others must be below the room of the request, and that of each grant.

use super::{count, gets_null, holds, shown};
use crate::support::{Part, Payload, Server, reader};

/// `LIMIT 1` gives an exclusive lock, which is stored with the same bytes.
#[test]
fn limit_1_is_a_plain_lock() {
    let (_server, mut client) = Server::and_client();
    let fence = holds(&mut client, "alice", "LIMIT 1").fence;
    assert_eq!((shown(&mut client, "mode"), shown(&mut client, "limit")), ("exclusive".into(), "1".into()));
    let alice = Part { room: 1, ..reader(b"alice", fence as u64) };
    let payload = Payload::lock(&mut client, b"x", 1, 1).packed(false, &[alice]).encode();
    assert_eq!(client.ask::<Vec<u8>>("DUMP k"), payload);
    assert_eq!(count(&mut client, "lock_grants_shared"), 0);
    gets_null(&mut client, "bob", "SHARED");
}
