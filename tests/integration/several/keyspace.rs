//! Other commands change one of the keys while a client waits for several.

use super::{WRONG_TYPE, holders, holds, release, waits, waits_for_one};
use crate::support::Server;

/// Nobody is notified when a free, reserved name gets another type. The waiter gets the error when the other locks are free, as after a
/// grace.
#[test]
fn another_type_under_a_reserved_name_is_found_in_the_end() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let mut all = waits(&server, "a free b", "bob", "");
    let mut behind = waits_for_one(&server, "a", "carol");
    client.ask::<()>("SET free text");
    assert_eq!(client.refused("LOCK.ACQUIRE free"), WRONG_TYPE);
    release(&mut client, "b a", "alice");
    assert_eq!(all.refused(), WRONG_TYPE);
    behind.granted();
    assert_eq!(holders(&mut client, ["a", "b"]), ["carol", "-"]);
}
