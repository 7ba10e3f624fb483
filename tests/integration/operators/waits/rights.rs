//! ACL rights that `LOCK.WAITS` needs.

use super::{owners, queue_up, waits};
use crate::support::Server;

/// With a key, the user needs the right to read it. Without one, any user with the command sees all waits. Owners are shown only to users
/// that may write to the key.
#[test]
fn the_right_to_a_key_counts_where_one_is_named() {
    let (server, [mut client, mut places]) = Server::and_clients();
    for key in ["mine", "other"] {
        client.acquire(key, "OWNER alice PX 600000").unwrap();
        queue_up(&mut places, key, &format!("for-{key}"), "");
    }
    let mut writer = server.client_of("+lock.waits %RW~mine");
    assert_eq!(owners(&waits(&mut writer, "KEY mine")), ["for-mine"]);
    assert_eq!(owners(&waits(&mut writer, "")), ["for-mine", ""], "owners are for those who may write");
    let mut guest = server.client_of("+lock.waits %R~mine");
    assert_eq!(owners(&waits(&mut guest, "KEY mine")), [""]);
    for line in ["KEY other", "COUNT 5 KEY other", "CURSOR 0 key other"] {
        let error = guest.refused(&format!("LOCK.WAITS {line}"));
        assert!(error.starts_with("NOPERM"), "{error}");
    }
    let mut guest = server.client_of("+lock.waits %W~mine");
    assert!(guest.refused("LOCK.WAITS KEY mine").starts_with("NOPERM"));
}
