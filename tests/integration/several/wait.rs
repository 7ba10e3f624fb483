//! `BLOCK`: granted all of them when the last is free.

use redis::Value;

use super::{count, counted, free, granted, grants, holders, holds, holds_one, release, waits};
use crate::support::{Server, blocked_clients};

#[test]
fn in_whatever_order_they_get_free() {
    let (server, mut client) = Server::and_client();
    for order in
        [["a", "b", "c"], ["a", "c", "b"], ["b", "a", "c"], ["b", "c", "a"], ["c", "a", "b"], ["c", "b", "a"]]
    {
        let fence = holds(&mut client, "a b c", "alice", "").fences[0];
        let mut waiter = waits(&server, "b c a", "bob", "");
        for key in &order[..2] {
            free(&mut client, key, "alice");
            assert!(waiter.is_blocked(&mut client), "{order:?}");
            assert_eq!(client.holder(key), None, "nobody holds a lease while it waits");
        }
        free(&mut client, order[2], "alice");
        let all = granted(&mut waiter);
        assert!(all.fences[0] > fence && all.fences == [all.fences[0]; 3] && all.holds == [1; 3]);
        assert_eq!(holders(&mut client, order), ["bob"; 3]);
        assert_eq!(release(&mut client, "a b c", "bob"), [Some(0); 3]);
    }
    assert_eq!((count(&mut client, "lock_handovers"), count(&mut client, "lock_waits_all")), (18, 6));
}

#[test]
fn it_stands_in_the_queue_of_each_and_counts_once() {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "a b", "alice", "");
    let waiter = waits(&server, "a b c", "bob", "BLOCK 70000");
    for key in ["a", "b"] {
        let shown = &crate::support::queue(&mut client, key)[0];
        assert_eq!((&shown.owner[..], shown.id, shown.timeout), ("bob", waiter.id, 70_000), "{key}");
        assert_eq!(client.lock_info(key).unwrap()["waiters"], "1");
    }
    assert_eq!((count(&mut client, "lock_waiters"), blocked_clients(&mut client)), (1, 1));
}

/// Some of them are the owner's already: re-entered with the grant, and not before.
#[test]
fn what_it_holds_already_is_re_entered_with_the_others() {
    let (server, mut client) = Server::and_client();
    let mine = holds_one(&mut client, "mine", "bob");
    holds_one(&mut client, "a", "alice");
    let mut waiter = waits(&server, "mine a", "bob", "");
    assert_eq!(client.holder("mine").unwrap().holds, 1);
    free(&mut client, "a", "alice");
    let all = granted(&mut waiter);
    assert_eq!((all.fences[0], &all.holds[..]), (mine, &[2, 1][..]));
    assert!(all.fences[1] > mine);
}

#[test]
fn resp3_is_answered_alike() {
    let (server, mut client) = Server::and_client();
    for line in ["LOCK.RELEASE a alice", "CLIENT UNBLOCK # TIMEOUT"] {
        holds_one(&mut client, "a", "alice");
        let mut waiter = super::waits_on(&server, server.client_resp3(), "a b", "bob", "");
        client.ask::<i64>(&line.replace('#', &waiter.id.to_string()));
        match waiter.reply().unwrap() {
            Value::Nil => assert!(line.starts_with("CLIENT")),
            reply => assert_eq!(grants(reply).unwrap().holds, [1, 1]),
        }
        client.ask::<()>("FLUSHALL");
    }
    assert_eq!(counted("a"), "1 a");
}
