//! One fair queue over all kinds: who fits comes only where nobody waits in front, and the heads that fit come together.

use super::{holds, release, waits};
use crate::support::{Server, transaction};

/// What a release lets in is there in the same step.
#[test]
fn no_newcomer_slips_in_in_the_step_of_a_release() {
    let (server, mut client) = Server::and_client();
    for line in ["LOCK.RELEASE k b", "LOCK.BREAK k", "DEL k", "PEXPIRE k -1", "FLUSHDB"] {
        holds(&mut client, "b", "LIMIT 2");
        holds(&mut client, "a", "LIMIT 2");
        let mut first = waits(&server, "c", "LIMIT 2");
        let mut second = waits(&server, "d", "LIMIT 2");
        let newcomer = "LOCK.ACQUIRE k OWNER newcomer SHARED";
        let replies = transaction(&mut client, &[line, newcomer]);
        assert_eq!(replies[1], Ok(redis::Value::Nil), "{line}");
        assert_eq!(first.granted().owner, "c", "{line}");
        let left = if line.starts_with("LOCK.RELEASE") { vec!["a", "c"] } else { vec!["c", "d"] };
        assert_eq!(client.holding("k"), left, "{line}");
        if left == ["a", "c"] {
            release(&mut client, "a");
        }
        second.granted();
        client.ask::<()>("FLUSHALL");
    }
}
