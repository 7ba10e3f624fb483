//! `MAXHOLD`, `lock.max-hold`: an age that no grant outlives, whatever keeps it alive.

use crate::support::{
    Client, Grant, Server, Stopwatch, Waiter, grant, in_each_kind_of_file, is_left_of, wait_for,
};

/// Bob, who waits, gets the lock when alice's grant has reached that age: not before, and soon after. The watch was started
/// before her grant.
#[track_caller]
fn ends_at(age: i64, first: &Grant, bob: &mut Waiter, watch: &Stopwatch) {
    let second = grant(bob.client.finish().unwrap()).unwrap();
    let reached = second.granted_at() - first.granted_at();
    let latest = age + watch.allowed();
    assert!(reached >= age && reached < latest, "the grant ended at an age of {reached} ms, not {age}");
}

#[test]
fn the_first_lease_is_cut_to_it() {
    let server = Server::start();
    let mut client = server.client();
    let granted = client.acquire("k", "OWNER alice PX 60000 MAXHOLD 5000").unwrap();
    assert_eq!(granted.lease, 5000);
    let ends: i64 = client.ask("PEXPIRETIME k");
    assert!(
        (0..=client.ttl_beyond_lease()).contains(&(ends - granted.granted_at() - 5000)),
        "{granted:?}, {ends}"
    );
    assert_eq!(client.acquire("l", "OWNER alice PX 4000 MAXHOLD 5000").unwrap().lease, 4000);
    client.ask::<()>("CONFIG SET lock.max-hold 3000");
    assert_eq!(client.acquire("m", "OWNER alice PX 60000 MAXHOLD 5000").unwrap().lease, 3000);
    assert_eq!(client.acquire("n", "OWNER alice").unwrap().lease, 3000);
    assert_eq!(client.acquire("o", "OWNER alice MAXHOLD 2000").unwrap().lease, 2000);
}

#[test]
fn no_session_keeps_a_grant_beyond_it() {
    let server = Server::start();
    let (mut alice, mut client) = (server.client(), server.client());
    let watch = Stopwatch::start();
    let first = alice.acquire("k", "OWNER alice PX 900 MAXHOLD 2000 SESSION").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob");
    ends_at(2000, &first, &mut bob, &watch);
    client.ask::<()>("LOCK.BREAK k");
    client.ask::<()>("CONFIG SET lock.max-hold 2000");
    let watch = Stopwatch::start();
    let first = alice.acquire("k", "OWNER alice PX 900 SESSION").unwrap();
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    ends_at(2000, &first, &mut carol, &watch);
}

/// Alice does this as often as she can, until she has lost the lock.
#[track_caller]
fn no_effort_keeps_it(options: &str, max_hold: &str, mut effort: impl FnMut(&mut Client)) {
    let server = Server::start();
    let (mut alice, mut client) = (server.client(), server.client());
    client.ask::<()>(&format!("CONFIG SET lock.max-hold {max_hold}"));
    let watch = Stopwatch::start();
    let first = alice.acquire("k", &format!("OWNER alice PX 1900 {options}")).unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 60000");
    wait_for("the end of the grant", || {
        effort(&mut alice);
        client.holder("k").is_some_and(|holder| holder.fence != first.fence)
    });
    ends_at(2000, &first, &mut bob, &watch);
}

#[test]
fn no_extension_keeps_a_grant_beyond_it() {
    for (options, max_hold) in [("MAXHOLD 2000", "0"), ("", "2000"), ("MAXHOLD 5000", "2000")] {
        no_effort_keeps_it(options, max_hold, |alice| {
            let _ = alice.send("LOCK.EXTEND k alice PX 1900");
        });
    }
}

#[test]
fn no_reentry_keeps_a_grant_beyond_it() {
    no_effort_keeps_it("MAXHOLD 2000", "0", |alice| {
        let _ = alice.send("LOCK.ACQUIRE k OWNER alice PX 1900");
    });
    no_effort_keeps_it("", "2000", |alice| {
        let _ = alice.send("LOCK.ACQUIRE k OWNER alice ONCE PX 1900 MAXHOLD 60000");
    });
}

#[test]
fn an_extension_answers_what_is_left_of_it() {
    let server = Server::start();
    let mut client = server.client();
    let granted = client.acquire("k", "OWNER alice PX 10000 MAXHOLD 50000").unwrap();
    let left: i64 = client.ask("LOCK.EXTEND k alice PX 600000");
    assert!(left > 40_000 && left <= 50_000, "{left}");
    assert_eq!(client.ask::<i64>("PEXPIRETIME k"), granted.granted_at() + 50_000);
    let again = client.acquire("k", "OWNER alice PX 600000").unwrap();
    assert!(again.lease <= 50_000, "{again:?}");
}

#[test]
fn wrong_ages_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    for (options, error) in [
        ("MAXHOLD", "ERR syntax error"),
        ("MAXHOLD 5 MAXHOLD 5", "ERR syntax error"),
        ("MAXHOLD 0", "ERR value is out of range, must be positive"),
        ("MAXHOLD -1", "ERR value is out of range, must be positive"),
        ("MAXHOLD long", "ERR value is not an integer or out of range"),
        ("MAXHOLD 9223372036854775808", "ERR value is not an integer or out of range"),
    ] {
        assert_eq!(client.refused(&format!("LOCK.ACQUIRE k {options}")), error, "{options}");
    }
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
    assert_eq!(client.acquire("k", "MAXHOLD 9007199254740991").unwrap().lease, 30_000);
}

/// Alice's grant may still not get older than it was allowed to.
#[track_caller]
fn is_kept(client: &mut Client, first: &Grant) {
    let left: i64 = client.ask("LOCK.EXTEND k alice PX 600000");
    assert!(left <= 50_000, "{left}");
    assert_eq!(client.ask::<i64>("PEXPIRETIME k"), first.granted_at() + 50_000);
    let again = client.acquire("k", "OWNER alice PX 600000").unwrap();
    assert!((again.fence, again.holds) == (first.fence, 3) && again.lease <= 50_000, "{again:?}");
}

#[track_caller]
fn take(client: &mut Client) -> Grant {
    let first = client.acquire("k", "OWNER alice PX 30000 MAXHOLD 50000").unwrap();
    client.acquire("k", "OWNER alice").unwrap();
    first
}

#[test]
fn files_keep_it() {
    in_each_kind_of_file(take, |server, first| is_kept(&mut server.client(), &first));
}

#[test]
fn a_replica_keeps_it() {
    let primary = Server::start();
    let before = take(&mut primary.client());
    let early = primary.replica();
    early.client().ask::<()>("REPLICAOF NO ONE");
    is_kept(&mut early.client(), &before);
    primary.client().ask::<()>("LOCK.BREAK k");
    let late = primary.replica();
    let first = take(&mut primary.client());
    late.wait_for_sync_with(&primary);
    late.client().ask::<()>("REPLICAOF NO ONE");
    is_kept(&mut late.client(), &first);
}

#[test]
fn a_dump_keeps_it() {
    let server = Server::start();
    let mut client = server.client();
    let first = take(&mut client);
    let dump: Vec<u8> = client.ask("DUMP k");
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"10000", &dump, b"REPLACE"]);
    is_kept(&mut client, &first);
}

#[test]
fn a_waiters_age_begins_when_it_is_granted() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 60000 MAXHOLD 600");
    let mut carol = Waiter::new(&server, "k", "OWNER carol");
    let watch = Stopwatch::start();
    client.ask::<i64>("LOCK.EXTEND k alice PX 300");
    let granted = grant(bob.client.finish().unwrap()).unwrap();
    assert!(is_left_of(600, &granted), "{granted:?}");
    ends_at(600, &granted, &mut carol, &watch);
}
