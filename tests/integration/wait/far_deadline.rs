//! A deadline so far away that its distance in microseconds overflows the server's timers stops nobody else's.

use crate::support::{Server, Waiter};

#[test]
fn a_deadline_beyond_the_reach_of_timers() {
    // 2^64 microseconds; the greatest there is.
    for deadline in ["18446744073709552", "9223372036854775807"] {
        let server = Server::start();
        let mut client = server.client();
        client.acquire("far", "OWNER alice PX 600000").unwrap();
        assert_eq!(client.ask::<i64>(&format!("PEXPIREAT far {deadline}")), 1);
        let mut bob = Waiter::new(&server, "far", "OWNER bob PX 60000");
        client.acquire("near", "OWNER alice PX 600000").unwrap();
        let mut carol = Waiter::new(&server, "near", "OWNER carol PX 60000");
        assert_eq!(client.ask::<i64>("LOCK.RELEASE near alice"), 0);
        assert_eq!(carol.granted().owner, "carol");
        assert_eq!(client.ask::<i64>("DEL far"), 1);
        assert_eq!(bob.granted().owner, "bob");
    }
}
