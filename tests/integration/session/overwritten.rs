//! Nothing is left of a session whose lock was overwritten with another type.

use crate::support::{Server, soon};

#[test]
fn a_session_whose_lock_is_overwritten() {
    let server = Server::start();
    let mut client = server.client();
    let mut holder = server.client();
    holder.acquire("k", "OWNER alice PX 60000 SESSION").unwrap();
    assert_eq!(client.ask::<String>("SET k v"), "OK");
    soon("no session is left", || client.info("lock", "lock_sessions") == "0");
    drop(holder);
    soon("no session is left", || client.info("lock", "lock_sessions") == "0");
    assert_eq!(client.ask::<String>("GET k"), "v");
}
