//! The age of a grant while fences run ahead of the clock, as after a clock that was set back, or with a lock that another
//! server granted: it is the time since the grant, and what is capped by it ends in time.

use crate::support::{
    Client, Payload, Server, Stopwatch, Waiter, in_each_kind_of_file, restore_from_primary, server_time,
    wait_for, wait_until, wall_clock,
};

/// An hour, in ms.
const HOUR: i64 = 3_600_000;

/// The greatest age of the grants here, in ms.
const AGE: i64 = 1500;

/// When a grant was made, in ms since 1970: not before, and not after.
#[derive(Clone, Copy)]
struct Made {
    after: i64,
    before: i64,
}

/// Has the server see a fence of an hour from now.
fn run_ahead(client: &mut Client) {
    let ahead = (wall_clock() + HOUR) * 1000;
    let payload = Payload::lock(client, b"ahead", ahead as u64, 1).encode();
    restore_from_primary(client, "ahead", 0, &payload);
    client.ask::<()>("DEL ahead");
}

fn server() -> Server {
    let server = Server::start();
    run_ahead(&mut server.client());
    server
}

/// Alice's grant of `k`, made now, with a fence that is not the time.
#[track_caller]
fn take(client: &mut Client, options: &str) -> Made {
    let after = server_time(client);
    let granted = client.acquire("k", &format!("OWNER alice {options}")).unwrap();
    let before = server_time(client);
    assert!(granted.granted_at() > before + HOUR / 2, "the fence is the time: {granted:?}");
    Made { after, before }
}

/// What `LOCK.INFO` shows as the age of the grant is the time since then.
#[track_caller]
fn shows_its_age(client: &mut Client, made: Made) {
    let earliest = server_time(client) - made.before;
    let shown: i64 = client.lock_info("k").expect("a held lock")["held-ms"].parse().unwrap();
    let latest = server_time(client) - made.after;
    assert!((earliest - 1..=latest + 1).contains(&shown), "held for {shown} ms, not {earliest} to {latest}");
}

/// An extension of alice's ends with the greatest age of her grant.
#[track_caller]
fn is_extended_within(age: i64, client: &mut Client, made: Made) {
    let asked = server_time(client);
    let left: i64 = client.ask("LOCK.EXTEND k alice EX 1000");
    let most = made.before + age - asked;
    assert!(left <= most, "{left} ms are left, {} too many", left - most);
    let ends: i64 = client.ask("PEXPIRETIME k");
    assert!(ends <= made.before + age + client.ttl_beyond_lease(), "{ends}");
}

/// Alice's grant ends with that age, whatever is done all the time to keep it; and soon after bob has the lock.
#[track_caller]
fn ends_at(age: i64, server: &Server, made: Made, mut effort: impl FnMut(&mut Client)) {
    let (mut alice, mut client) = (server.client(), server.client());
    let watch = Stopwatch::start();
    let mut bob = Waiter::new(server, "k", "OWNER bob PX 60000");
    wait_for("the end of alice's grant", || {
        effort(&mut alice);
        let late = server_time(&mut client) - made.before - age;
        assert!(late < watch.allowed(), "alice has the lock for {late} ms too long");
        client.holder("k").is_some_and(|holder| holder.owner == "bob")
    });
    let reached = server_time(&mut client) - made.after;
    assert!(reached >= age, "the grant ended at an age of {reached} ms");
    bob.granted();
}

/// The ways of saying it: the grant's own greatest age, all grants', or both.
const WAYS: [(&str, i64); 3] = [("MAXHOLD 1500", 0), ("", AGE), ("MAXHOLD 600000", AGE)];

#[track_caller]
fn no_effort_keeps_it(options: &str, effort: &str) {
    for (own, of_all) in WAYS {
        let server = server();
        let mut client = server.client();
        client.ask::<()>(&format!("CONFIG SET lock.max-hold {of_all}"));
        let made = take(&mut client, &format!("{own} {options}"));
        ends_at(AGE, &server, made, |alice| {
            if !effort.is_empty() {
                let _ = alice.send(effort);
            }
        });
    }
}

#[test]
fn an_idle_grant_ends_at_its_greatest_age() {
    no_effort_keeps_it("PX 600000", "");
}

#[test]
fn an_extended_grant_ends_at_its_greatest_age() {
    no_effort_keeps_it("PX 600000", "LOCK.EXTEND k alice PX 600000");
}

#[test]
fn a_reentered_grant_ends_at_its_greatest_age() {
    no_effort_keeps_it("PX 600000", "LOCK.ACQUIRE k OWNER alice PX 600000");
    no_effort_keeps_it("PX 1400", "LOCK.ACQUIRE k OWNER alice ONCE PX 1400");
}

#[test]
fn a_session_ends_at_the_greatest_age_of_its_grant() {
    no_effort_keeps_it("PX 600000 SESSION", "");
    no_effort_keeps_it("PX 450 SESSION", "");
}

#[test]
fn an_extension_answers_what_is_left() {
    let server = server();
    let mut client = server.client();
    let made = take(&mut client, "PX 10000 MAXHOLD 20000");
    is_extended_within(LONG, &mut client, made);
    wait_until(&mut client, made.before + 500);
    is_extended_within(LONG, &mut client, made);
    client.ask::<()>("CONFIG SET lock.max-hold 15000");
    is_extended_within(15_000, &mut client, made);
}

#[test]
fn the_age_is_shown() {
    let server = server();
    let mut client = server.client();
    let made = take(&mut client, "");
    shows_its_age(&mut client, made);
    wait_until(&mut client, made.before + 300);
    shows_its_age(&mut client, made);
    // No change of the grant makes it any younger.
    for line in
        ["LOCK.ACQUIRE k OWNER alice", "LOCK.EXTEND k alice PX 60000", "PERSIST k", "LOCK.RELEASE k alice"]
    {
        client.ask::<redis::Value>(line);
        shows_its_age(&mut client, made);
    }
}

#[test]
fn a_waiters_grant_has_an_age_too() {
    let server = server();
    let mut client = server.client();
    take(&mut client, "");
    let mut bob = Waiter::new(&server, "k", "OWNER bob PX 600000 MAXHOLD 20000");
    let after = server_time(&mut client);
    client.ask::<i64>("LOCK.RELEASE k alice");
    let made = Made { after, before: server_time(&mut client) };
    assert!(bob.granted().granted_at() > made.before + HOUR / 2);
    wait_until(&mut client, made.before + 300);
    shows_its_age(&mut client, made);
    let left: i64 = client.ask("LOCK.EXTEND k bob EX 1000");
    assert!(left <= LONG - 300, "{left}");
}

/// Long enough for a server to be started again, or for a replica to copy all.
const LONG: i64 = 20_000;

/// A grant with a greatest age, after it has gone by way of a replica, a file or a payload.
#[track_caller]
fn is_kept(server: &Server, made: Made) {
    let mut client = server.client();
    wait_until(&mut client, made.before + 300);
    shows_its_age(&mut client, made);
    is_extended_within(LONG, &mut client, made);
}

#[test]
fn a_replica_that_was_told_of_the_grant_keeps_its_age() {
    let primary = server();
    let replica = primary.replica();
    let made = take(&mut primary.client(), "PX 600000 MAXHOLD 4000");
    primary.client().ask::<i64>("LOCK.EXTEND k alice EX 1000");
    replica.wait_for_sync_with(&primary);
    let mut client = replica.client();
    shows_its_age(&mut client, made);
    client.ask::<()>("REPLICAOF NO ONE");
    is_extended_within(4000, &mut client, made);
    ends_at(4000, &replica, made, |alice| {
        let _ = alice.send("LOCK.EXTEND k alice EX 1000");
    });
}

#[test]
fn a_replica_that_copied_the_grant_keeps_its_age() {
    let primary = server();
    let made = take(&mut primary.client(), "PX 10000 MAXHOLD 20000");
    let replica = primary.replica();
    replica.client().ask::<()>("REPLICAOF NO ONE");
    is_kept(&replica, made);
}

#[test]
fn files_keep_the_age() {
    let make = |client: &mut Client| {
        run_ahead(client);
        take(client, "PX 10000 MAXHOLD 20000")
    };
    in_each_kind_of_file(make, is_kept);
}

#[test]
fn a_payload_keeps_the_age() {
    let server = server();
    let mut client = server.client();
    let made = take(&mut client, "PX 10000 MAXHOLD 20000");
    let dump: Vec<u8> = client.ask("DUMP k");
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"10000", &dump, b"REPLACE"]);
    is_kept(&server, made);
}
