//! A command gets all locks or none, in one step.

use redis::Value;

use super::{counted, grants, holds};
use crate::support::Server;

#[test]
fn the_reply_has_the_shape_of_a_single_one_with_lists() {
    let server = Server::start();
    for mut client in [server.client(), server.client_resp3()] {
        let Value::Array(parts) = client.ask("LOCK.MACQUIRE 2 a b OWNER alice EX 60") else {
            panic!("no array")
        };
        let [Value::BulkString(owner), Value::Array(fences), Value::Array(holds), Value::Int(60_000)] =
            &parts[..]
        else {
            panic!("{parts:?}")
        };
        assert_eq!(owner, b"alice");
        assert!(matches!(fences[..], [Value::Int(first), Value::Int(second)] if first == second));
        assert_eq!(holds[..], [Value::Int(1), Value::Int(1)]);
        let left: Value = client.ask("LOCK.MRELEASE 2 free a alice");
        assert_eq!(left, Value::Array(vec![Value::Nil, Value::Int(0)]));
        let made = grants(client.ask("LOCK.MACQUIRE 1 c")).unwrap();
        assert_eq!((made.owner.len(), made.lease), (36, 300_000));
        client.ask::<()>("FLUSHALL");
    }
}

#[test]
fn a_lease_without_an_end_is_none_that_ends_first() {
    let (_server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "PX 50000");
    client.ask::<()>("PERSIST a");
    assert_eq!(holds(&mut client, "a b", "alice", "PX 70000 ONCE").lease, 70_000);
    client.ask::<()>("PERSIST b");
    assert_eq!(holds(&mut client, "a b", "alice", "PX 70000 ONCE").lease, -1);
}

#[test]
fn keys_are_of_any_bytes_and_the_reply_is_in_their_order() {
    let (_server, mut client) = Server::and_client();
    let keys: [&[u8]; 4] = [b"\0z", b"with blank", b"\xff\xfe", b""];
    let line = |keys: &[&[u8]]| -> Vec<Vec<u8>> {
        let count = keys.len().to_string();
        let head = [b"LOCK.MACQUIRE".to_vec(), count.into_bytes()];
        let tail = [b"OWNER".to_vec(), b"x\0y".to_vec()];
        head.into_iter().chain(keys.iter().map(|key| key.to_vec())).chain(tail).collect()
    };
    let mut fences = Vec::new();
    for key in keys {
        fences.push(grants(client.ask_words(line(&[key]))).unwrap().fences[0]);
    }
    assert!(fences.is_sorted());
    let mixed = grants(client.ask_words(line(&[keys[2], keys[0], keys[3], keys[1]]))).unwrap();
    assert_eq!(mixed.fences, [2, 0, 3, 1].map(|place: usize| fences[place]));
    assert_eq!(counted("a b"), "2 a b");
}
