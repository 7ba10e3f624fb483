//! In one step with other commands: nobody waits in `MULTI` or a script.

use redis::Value;

use super::{ask, count, grants, holds_one};
use crate::support::{Server, transaction};

#[test]
fn a_transaction_sees_its_own_steps_and_waits_for_nothing() {
    let (_server, mut client) = Server::and_client();
    holds_one(&mut client, "c", "bob");
    let replies = transaction(
        &mut client,
        &[
            &ask("a b", "alice", ""),
            &ask("b c", "alice", "BLOCK 0"),
            &ask("b a", "bob", "BLOCK 0"),
            "LOCK.MEXTEND 2 a b alice PX 700000",
            "LOCK.MEXTEND 2 a c alice PX 700000",
            "LOCK.MRELEASE 3 c a b alice",
            &ask("c b a", "bob", "BLOCK 0"),
        ],
    );
    assert_eq!(grants(replies[0].clone().unwrap()).unwrap().holds, [1, 1]);
    assert_eq!(replies[1..3], [Ok(Value::Nil), Ok(Value::Nil)]);
    assert_eq!(replies[3], Ok(Value::Int(700_000)));
    assert_eq!(
        replies[4],
        Err("NOTHELD the lock is not held by this owner: 'c' is held by another owner".into())
    );
    assert_eq!(replies[5], Ok(Value::Array(vec![Value::Nil, Value::Int(0), Value::Int(0)])));
    assert_eq!(grants(replies[6].clone().unwrap()).unwrap().holds, [2, 1, 1]);
    assert_eq!(count(&mut client, "lock_waiters"), 0);
}
