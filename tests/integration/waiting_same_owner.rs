//! Several waiters of one owner, granted in one step in which some of them go away: what the dead held is taken back, and
//! what the others were told of stays.

use crate::support::{Server, Waiter, soon, transaction, wait_for, wait_until};

/// Two of bob's connections wait, and both are granted at once; what the dead one held is taken back, not the other's.
#[test]
fn of_two_waiters_of_one_owner_one_goes() {
    for dead in [0, 1] {
        for how in ["CLIENT KILL ID {}", "CLIENT UNBLOCK {} ERROR"] {
            let server = Server::start();
            let mut client = server.client();
            client.acquire("k", "OWNER alice").unwrap();
            let mut bobs = [0, 1].map(|_| Waiter::new(&server, "k", "OWNER bob"));
            let mut carol = Waiter::new(&server, "k", "OWNER carol");
            let leave = how.replace("{}", &bobs[dead].id.to_string());
            transaction(&mut client, &["LOCK.RELEASE k alice", &leave]);
            let left = bobs[1 - dead].granted();
            soon("one hold", || client.holder("k").is_some_and(|holder| holder.holds == 1));
            let holder = client.holder("k").unwrap();
            assert_eq!((&holder.owner[..], holder.fence), ("bob", left.fence), "{dead} {leave}");
            assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0, "{dead} {leave}");
            assert_eq!(carol.granted().owner, "carol");
        }
    }
}

#[test]
fn of_two_waiters_of_one_owner_both_go() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let bobs = [0, 1].map(|_| Waiter::new(&server, "k", "OWNER bob"));
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let kills = bobs.each_ref().map(|bob| format!("CLIENT KILL ID {}", bob.id));
    transaction(&mut client, &["LOCK.RELEASE k alice", &kills[0], &kills[1]]);
    assert_eq!(carol.granted().owner, "carol");
    assert_eq!(client.holder("k").unwrap().holds, 1);
}

/// A waiter with `ONCE` got no hold of its own, so its death takes none back.
#[test]
fn a_dead_waiter_that_asked_for_no_second_hold_takes_none_away() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let mut first = Waiter::new(&server, "k", "OWNER bob");
    let once = Waiter::new(&server, "k", "OWNER bob ONCE");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let kill = format!("CLIENT KILL ID {}", once.id);
    transaction(&mut client, &["LOCK.RELEASE k alice", &kill]);
    let granted = first.granted();
    wait_until(&mut client, granted.granted_at() + 50);
    let holder = client.holder("k").unwrap();
    assert_eq!((&holder.owner[..], holder.fence, holder.holds), ("bob", granted.fence, 1));
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0);
    assert_eq!(carol.granted().owner, "carol");
}

/// The other way round, the one that asked for no second hold has been told that it holds the lock once, and does.
#[test]
fn a_living_waiter_that_asked_for_no_second_hold_keeps_the_lock_of_a_dead_one() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let first = Waiter::new(&server, "k", "OWNER bob");
    let mut once = Waiter::new(&server, "k", "OWNER bob ONCE");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let kill = format!("CLIENT KILL ID {}", first.id);
    transaction(&mut client, &["LOCK.RELEASE k alice", &kill]);
    let granted = once.granted();
    wait_until(&mut client, granted.granted_at() + 50);
    let holder = client.holder("k").unwrap();
    assert_eq!((&holder.owner[..], holder.fence, holder.holds), ("bob", granted.fence, 1));
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0);
    assert_eq!(carol.granted().owner, "carol");
}

/// One that came before the dead one asked for the hold of another, and that one lives: the dead one's hold is nobody's.
#[test]
fn a_waiter_that_asked_for_no_second_hold_inherits_none_that_came_after_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    let mut first = Waiter::new(&server, "k", "OWNER bob");
    let mut once = Waiter::new(&server, "k", "OWNER bob ONCE");
    let last = Waiter::new(&server, "k", "OWNER bob");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let kill = format!("CLIENT KILL ID {}", last.id);
    transaction(&mut client, &["LOCK.RELEASE k alice", &kill]);
    assert_eq!((first.granted().holds, once.granted().holds), (1, 1));
    wait_for("one hold", || client.holder("k").is_some_and(|holder| holder.holds == 1));
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0);
    assert_eq!(carol.granted().owner, "carol");
}
