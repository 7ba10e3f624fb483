//! Two waiters of one owner share a grant where one of them asks with `ONCE`. When one goes away before it is told, the
//! other has been told that it holds the lock, and so it does.

use crate::support::{Server, Waiter, owners, transaction};

/// Bob waits twice, carol behind him; of bob's two, that one is killed in the step in which he gets the lock.
#[track_caller]
fn survives(first: &str, second: &str, dies: usize) {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bobs = [Waiter::new(&server, "k", first), Waiter::new(&server, "k", second)];
    let mut carol = Waiter::new(&server, "k", "OWNER carol PX 60000");
    transaction(&mut client, &["LOCK.RELEASE k alice", &format!("CLIENT KILL ID {}", bobs[dies].id)]);
    let told = bobs[1 - dies].granted();
    assert_eq!(client.ask::<String>("PING"), "PONG");
    assert_eq!(client.holder("k").map(|grant| grant.owner), Some("bob".into()), "told: {told:?}");
    assert_eq!(owners(&mut client, "k"), ["carol"]);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob ALL"), 0);
    assert_eq!(carol.granted().owner, "carol");
}

#[test]
fn the_second_dies() {
    survives("OWNER bob PX 60000", "OWNER bob PX 60000 ONCE", 1);
    survives("OWNER bob PX 60000 ONCE", "OWNER bob PX 60000 ONCE", 1);
}

#[test]
fn the_first_dies() {
    survives("OWNER bob PX 60000", "OWNER bob PX 60000 ONCE", 0);
    survives("OWNER bob PX 60000 ONCE", "OWNER bob PX 60000 ONCE", 0);
}
