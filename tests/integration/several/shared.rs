//! `SHARED` and `LIMIT` apply to each of the locks.

use super::{ask, granted, holders, holds, release, waits};
use crate::support::Server;

const DEADLOCK: &str = "DEADLOCK another owner waits already to upgrade its grant of this lock";

#[test]
fn two_upgrades_of_one_lock_are_a_deadlock_at_once() {
    let (server, mut client) = Server::and_client();
    for owner in ["alice", "bob"] {
        holds(&mut client, "a b", owner, "SHARED");
    }
    let mut up = waits(&server, "a b", "alice", "");
    let before = client.snapshot();
    for keys in ["a b", "b", "c b", "a c"] {
        assert_eq!(client.refused(&ask(keys, "bob", "BLOCK 0")), DEADLOCK, "{keys}");
    }
    assert_eq!(client.refused("LOCK.ACQUIRE b OWNER bob BLOCK 0"), DEADLOCK);
    assert_eq!(client.snapshot(), before);
    assert_eq!(holders(&mut client, ["c"]), ["-"]);
    release(&mut client, "a b", "bob");
    granted(&mut up);
}
