//! The operator's way, where several hold a lock.

use super::{readers, waits};
use crate::support::{HELD_BY_ANOTHER, Listener, Server};

#[test]
fn a_break_ends_all_grants_and_says_how_many() {
    let (server, mut client) = Server::and_client();
    let grants = readers(&mut client, ["a", "b", "c"]);
    readers(&mut client, ["b"]);
    let mut writer = waits(&server, "w", "");
    let mut listener = Listener::new(&server, "Ed");
    assert_eq!(client.ask::<i64>("LOCK.BREAK k"), 3);
    assert!(writer.granted().fence > grants[2].fence);
    assert_eq!(
        listener.next(),
        ["broken", "broken", "broken", "acquired"].map(|event| format!("lock.{event} k"))
    );
    for owner in ["a", "b", "c"] {
        assert_eq!(client.refused(&format!("LOCK.RELEASE k {owner}")), HELD_BY_ANOTHER);
    }
    let log = server.log();
    for grant in grants {
        let line = format!("lock broken: owner \"{}\", fence {}, by client id=", grant.owner, grant.fence);
        assert_eq!(log.matches(&line).count(), 1, "{line} in {log}");
    }
    assert_eq!(client.ask::<i64>("LOCK.BREAK k"), 1);
    assert_eq!(client.ask::<i64>("LOCK.BREAK k"), 0);
}
