//! One order with those who wait for one lock: who comes later stands behind, also on a lock that is free meanwhile.

use redis::Value;

use super::{ask, granted, holds, waits};
use crate::support::{Server, transaction};

/// What is given back in the same step in which it is asked for again: the newcomer stands behind.
#[test]
fn no_newcomer_slips_in_in_the_step_of_a_release() {
    let (server, mut client) = Server::and_client();
    for line in ["LOCK.MRELEASE 2 a b alice", "LOCK.BREAK b", "DEL a b", "FLUSHDB", "PEXPIRE b -1"] {
        holds(&mut client, "a b", "alice", "");
        let mut all = waits(&server, "a b", "bob", "");
        let replies =
            transaction(&mut client, &[line, "LOCK.ACQUIRE b OWNER newcomer", &ask("b a", "new", "")]);
        assert_eq!(replies[1..], [Ok(Value::Nil), Ok(Value::Nil)], "{line}");
        client.ask::<()>("LOCK.BREAK a");
        granted(&mut all);
        client.ask::<()>("FLUSHALL");
    }
}
