//! A lock that was overwritten has not lapsed when its successor expires.

use crate::support::Server;

#[test]
fn the_expiry_of_what_a_lock_was_overwritten_with() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..20 {
        client.send_all(&["LOCK.ACQUIRE k OWNER alice PX 60000", "SET k v PXAT 1", "GET k"]);
    }
    assert_eq!(client.info("lock", "lock_lapses"), "0");
}
