//! `SESSION`: all of them live as long as the connection.

use super::{count, free, holders, holds, waits_for_one};
use crate::support::{Server, soon};

#[test]
fn all_end_with_the_connection() {
    let (server, [mut client, mut session]) = Server::and_clients();
    holds(&mut session, "a b c", "alice", "SESSION");
    assert_eq!(count(&mut client, "lock_sessions"), 3);
    free(&mut client, "b", "alice");
    assert_eq!(count(&mut client, "lock_sessions"), 2);
    let mut waiter = waits_for_one(&server, "c", "bob");
    drop(session);
    waiter.granted();
    soon("the end of all", || holders(&mut client, ["a", "b", "c"]) == ["-", "-", "bob"]);
    assert_eq!((count(&mut client, "lock_sessions"), count(&mut client, "lock_sessions_ended")), (0, 2));
}
