//! What `LOCK.WAITS` takes, and who may ask.

use super::{owners, queue_up, waits};
use crate::support::{Server, no_integer, syntax_at};

#[test]
fn lock_waits_refuses_wrong_cursors_and_counts() {
    let (_server, mut client) = Server::and_client();
    for (words, error) in [
        ("x", syntax_at("x").as_str()),
        ("KEY", syntax_at("KEY").as_str()),
        ("KEY k KEY l", syntax_at("KEY").as_str()),
        ("COUNT", syntax_at("COUNT").as_str()),
        ("COUNT 1 COUNT 1", syntax_at("COUNT").as_str()),
        ("COUNT 0", "ERR value is out of range, COUNT must be between 1 and 1000"),
        ("COUNT 1001", "ERR value is out of range, COUNT must be between 1 and 1000"),
        ("COUNT -1", "ERR value is out of range, COUNT must be between 1 and 1000"),
        ("COUNT x", &no_integer("COUNT must be between 1 and 1000")),
        ("COUNT KEY", &no_integer("COUNT must be between 1 and 1000")),
        ("CURSOR x", "ERR invalid cursor"),
        ("CURSOR -1", "ERR invalid cursor"),
        ("CURSOR 9223372036854775808", "ERR invalid cursor"),
    ] {
        let line = format!("LOCK.WAITS {words}");
        assert_eq!(client.refused(&line), error, "{line}");
    }
    waits(&mut client, "COUNT 1000 CURSOR 0");
}

/// A lock that is named needs the right to read it. Without a name, all are shown to whoever may ask at all. Owners are shown to those
/// who may write.
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
