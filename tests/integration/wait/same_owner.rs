//! Several waiters of one owner, granted in one step in which some of them go away: what the dead held is taken back, and
//! what the others were told of stays.

use crate::support::{Grant, Server, Waiter, soon, transaction, wait_until};

/// Bob's connections wait, each with such options, and carol after them. In the step in which bob's are granted one of them
/// goes: bob has one hold, then carol has the lock. What the others were told.
fn one_goes<const N: usize>(options: [&str; N], dead: usize, how: &str) -> Vec<Grant> {
    let (server, mut client) = Server::held();
    let mut bobs = options.map(|options| Waiter::new(&server, "k", &format!("OWNER bob {options}")));
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let leave = how.replace("{}", &bobs[dead].id.to_string());
    transaction(&mut client, &["LOCK.RELEASE k alice", &leave]);
    let living = bobs.iter_mut().enumerate().filter(|(place, _)| *place != dead);
    let told: Vec<Grant> = living.map(|(_, bob)| bob.granted()).collect();
    let what = format!("{options:?} {dead} {leave}");
    soon("one hold", || client.holder("k").is_some_and(|holder| holder.holds == 1));
    // Nor is it taken back later.
    wait_until(&mut client, told[0].granted_at() + 50);
    let holder = client.holder("k").unwrap();
    assert_eq!((&holder.owner[..], holder.fence, holder.holds), ("bob", told[0].fence, 1), "{what}");
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k bob"), 0, "{what}");
    assert_eq!(carol.granted().owner, "carol", "{what}");
    told
}

const KILL: &str = "CLIENT KILL ID {}";

/// What the dead one held is taken back, not the other's.
#[test]
fn of_two_waiters_of_one_owner_one_goes() {
    for dead in [0, 1] {
        for how in [KILL, "CLIENT UNBLOCK {} ERROR"] {
            one_goes(["", ""], dead, how);
        }
    }
}

#[test]
fn of_two_waiters_of_one_owner_both_go() {
    let (server, mut client) = Server::held();
    let bobs = [0, 1].map(|_| Waiter::new(&server, "k", "OWNER bob"));
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let kills = bobs.each_ref().map(|bob| format!("CLIENT KILL ID {}", bob.id));
    transaction(&mut client, &["LOCK.RELEASE k alice", &kills[0], &kills[1]]);
    assert_eq!(carol.granted().owner, "carol");
    assert_eq!(client.holder("k").unwrap().holds, 1);
}

#[test]
fn of_two_waiters_with_once_one_goes() {
    // A waiter with `ONCE` got no hold of its own, so its death takes none back.
    one_goes(["", "ONCE"], 1, KILL);
    // The other way round, the one that asked for no second hold has been told that it holds the lock once, and does.
    one_goes(["", "ONCE"], 0, KILL);
    // Both were told of one hold, whoever of them brought it.
    for dead in [0, 1] {
        one_goes(["ONCE", "ONCE"], dead, KILL);
    }
    // One that came before the dead one asked for the hold of another, and that one lives: the dead one's hold is nobody's.
    let told = one_goes(["", "ONCE", ""], 2, KILL);
    assert_eq!([told[0].holds, told[1].holds], [1, 1]);
}
