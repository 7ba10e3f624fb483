//! Several waits of one owner, some of them for several locks.

use super::{ask, holds};
use crate::support::{Server, Setup, Waiter, convert, owners, soon, transaction};

/// `alice` holds both locks. Of one name, one waits for a, then two for both, then one more for a.
fn four_wait(server: &Server) -> [Waiter; 4] {
    let mut client = server.client();
    holds(&mut client, "a b", "alice", "");
    let mut waits = Vec::new();
    for (number, several) in (1..).zip([false, true, true, false]) {
        waits.push(if several {
            let line = ask("a b", "bob", "BLOCK 0");
            Waiter::of_words(server, server.client(), line.split(' '))
        } else {
            Waiter::new(server, "a", "OWNER bob PX 600000 BLOCK 0")
        });
        soon("all wait", || owners(&mut client, "a").len() == number);
    }
    waits.try_into().ok().unwrap()
}

/// The last hold is given back while a wait for both stands in front of one that might re-enter.
#[test]
fn a_grant_that_is_given_back_is_nobody_s() {
    let server = Setup::new().start();
    let mut client = server.client();
    let [mut first, _second, third, mut last] = four_wait(&server);
    client.ask::<i64>("LOCK.RELEASE a alice");
    let given = first.granted();
    // In one step: the one that is passed over goes, and what it had been passed for ends.
    let kill = format!("CLIENT KILL ID {}", third.id);
    let replies = transaction(&mut client, &[&kill, "LOCK.RELEASE a bob"]);
    let left: i64 = convert(replies[1].clone().unwrap());
    if left == 0 {
        assert!(last.is_blocked(&mut client));
        assert!(client.holder("a").is_none());
    } else {
        // It had re-entered before that.
        assert_eq!((last.granted().fence, left), (given.fence, 1));
    }
}

/// At most two others of its owner are passed over: when one of them goes, the next is looked at.
#[test]
fn one_behind_those_who_wait_for_both_has_it_when_one_of_them_goes() {
    let server = Setup::new().start();
    let mut client = server.client();
    let [mut first, _second, third, mut last] = four_wait(&server);
    client.ask::<i64>("LOCK.RELEASE a alice");
    let given = first.granted();
    assert!(last.is_blocked(&mut client));
    drop(third);
    let again = last.granted();
    assert_eq!((again.fence, again.holds), (given.fence, 2));
}
