//! `BLOCK`: granted all of them when the last is free.

use redis::Value;

use super::{count, counted, free, granted, grants, holders, holds, holds_one, release, waits};
use crate::support::{Server, blocked_clients, is_left_of, owners};

#[test]
fn in_whatever_order_they_get_free() {
    let server = Server::start();
    let mut client = server.client();
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

/// One gets free and is taken again before the other gets free: only who stands behind may not.
#[test]
fn the_lease_begins_with_the_grant() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    let mut waiter = waits(&server, "a b", "bob", "PX 50000");
    assert_eq!(release(&mut client, "a b", "alice"), [Some(0); 2]);
    let all = granted(&mut waiter);
    let one = crate::support::Grant {
        owner: all.owner,
        fence: all.fences[0],
        holds: 1,
        lease: all.lease,
        slot: None,
    };
    assert!(is_left_of(50_000, &one), "{one:?}");
}

#[test]
fn it_stands_in_the_queue_of_each_and_counts_once() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
    let mine = holds_one(&mut client, "mine", "bob");
    holds_one(&mut client, "a", "alice");
    let mut waiter = waits(&server, "mine a", "bob", "");
    assert_eq!(client.holder("mine").unwrap().holds, 1);
    free(&mut client, "a", "alice");
    let all = granted(&mut waiter);
    assert_eq!((all.fences[0], &all.holds[..]), (mine, &[2, 1][..]));
    assert!(all.fences[1] > mine);
}

/// And what the owner releases meanwhile is a new grant.
#[test]
fn what_it_gives_back_meanwhile_is_granted_anew() {
    let server = Server::start();
    let mut client = server.client();
    let mine = holds_one(&mut client, "mine", "bob");
    holds_one(&mut client, "a", "alice");
    let mut waiter = waits(&server, "mine a", "bob", "");
    free(&mut client, "mine", "bob");
    assert!(waiter.is_blocked(&mut client));
    free(&mut client, "a", "alice");
    let all = granted(&mut waiter);
    assert!(all.fences[0] > mine && all.fences[0] == all.fences[1] && all.holds == [1, 1], "{all:?}");
}

/// Its owner gets the missing lock by another connection: then it has them all.
#[test]
fn it_re_enters_where_its_owner_gets_the_lock_by_another_way() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    let mut first = super::waits_for_one(&server, "a", "bob");
    let mut waiter = waits(&server, "b a", "bob", "");
    free(&mut client, "b", "alice");
    assert!(waiter.is_blocked(&mut client));
    free(&mut client, "a", "alice");
    let one = first.granted();
    let all = granted(&mut waiter);
    assert_eq!((all.fences[1], &all.holds[..]), (one.fence, &[1, 2][..]));
}

#[test]
fn opposite_orders_dont_deadlock() {
    let server = Server::start();
    let mut client = server.client();
    for first in ["a", "b"] {
        holds(&mut client, "a b", "alice", "");
        let mut bob = waits(&server, "a b", "bob", "");
        let mut carol = waits(&server, "b a", "carol", "");
        for key in ["a", "b"] {
            assert_eq!(owners(&mut client, key), ["bob", "carol"]);
        }
        free(&mut client, first, "alice");
        free(&mut client, if first == "a" { "b" } else { "a" }, "alice");
        let bobs = granted(&mut bob);
        assert!(carol.is_blocked(&mut client));
        release(&mut client, "a b", "bob");
        assert!(granted(&mut carol).fences[0] > bobs.fences[0]);
        release(&mut client, "a b", "carol");
    }
}

/// A release with several keys frees the last ones of several waiters.
#[test]
fn one_release_serves_several() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a b c d", "alice", "");
    let mut waiters =
        [("a b", "x"), ("c d", "y"), ("b c", "z")].map(|(keys, owner)| waits(&server, keys, owner, ""));
    release(&mut client, "d c b a", "alice");
    let [x, y, z] = &mut waiters;
    assert_ne!(granted(x).fences, granted(y).fences);
    assert!(z.is_blocked(&mut client));
    release(&mut client, "a b", "x");
    assert!(z.is_blocked(&mut client));
    release(&mut client, "c d", "y");
    granted(z);
}

#[test]
fn resp3_is_answered_alike() {
    let server = Server::start();
    let mut client = server.client();
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
