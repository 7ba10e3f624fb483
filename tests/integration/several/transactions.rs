//! In one step with other commands: nobody waits in `MULTI` or a script.

use redis::Value;

use super::{ask, count, grants, holders, holds, holds_one};
use crate::support::{Server, heard, transaction};

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

#[test]
fn a_script_does_the_same() {
    let server = Server::start();
    for mut client in [server.client(), server.client_resp3()] {
        let script = "local all = redis.call('LOCK.MACQUIRE', 2, KEYS[1], KEYS[2], 'OWNER', 'a', 'PX', '600000')
                      local none = redis.call('LOCK.MACQUIRE', 2, KEYS[2], KEYS[3], 'OWNER', 'b', 'BLOCK', '0')
                      local longer = redis.call('LOCK.MEXTEND', 2, KEYS[1], KEYS[2], 'a', 'PX', '700000')
                      local left = redis.call('LOCK.MRELEASE', 3, KEYS[2], KEYS[3], KEYS[1], 'a')
                      return {all[1], #all[2], all[3][2], tostring(none), longer, left[1], tostring(left[2]), left[3]}";
        let reply: (String, i64, i64, String, i64, i64, String, i64) =
            client.ask_words(["EVAL", script, "3", "x", "y", "z"]);
        assert_eq!((&reply.0[..], reply.1, reply.2, reply.4, reply.5, reply.7), ("a", 2, 1, 700_000, 0, 0));
        assert!([&reply.3[..], &reply.6].iter().all(|none| ["false", "nil"].contains(none)), "{reply:?}");
        assert_eq!(client.ask::<i64>("DBSIZE"), 0);
    }
}

#[test]
fn session_and_notify_are_refused_in_a_script() {
    let (_server, mut client) = Server::and_client();
    for (words, error) in [
        ("'SESSION'", "SESSION is not allowed in scripts"),
        ("'NOTIFY', 'ch'", "NOTIFY is not allowed in scripts"),
    ] {
        let script = format!("return redis.call('LOCK.MACQUIRE', 2, KEYS[1], KEYS[2], {words})");
        let refused = client.send_words(["EVAL", &script, "2", "a", "b"]).unwrap_err();
        assert!(refused.contains(error), "{refused}");
        assert_eq!(client.ask::<i64>("DBSIZE"), 0);
    }
}

#[test]
fn in_a_transaction_a_place_is_queued() {
    let (_server, mut client, mut mail) = heard("");
    holds(&mut client, "a b", "alice", "");
    let replies = transaction(
        &mut client,
        &[
            &ask("a b", "bob", "ONCE BLOCK 60000 NOTIFY ch"),
            "LOCK.MRELEASE 2 a b alice",
            // The timer that gives them to bob fires after this step.
            "LOCK.ACQUIRE a OWNER carol",
            &ask("b a", "carol", "BLOCK 0"),
        ],
    );
    assert_eq!(replies[0], Ok(Value::SimpleString("QUEUED".into())));
    assert_eq!(replies[2..], [Ok(Value::Nil), Ok(Value::Nil)]);
    assert!(mail.next().ends_with(" bob"));
    assert_eq!(holders(&mut client, ["a", "b"]), ["bob"; 2]);
}
