//! `MAXHOLD` and `lock.max-hold`: no grant outlives this age, whatever keeps it alive. The age is the time since the grant, even if fences
//! run ahead of the clock, because the clock was set back, or because another server granted the lock.

use redis::Value;

use crate::support::{
    Client, Payload, Server, Stopwatch, grant, in_each_kind_of_file, restore_from_primary, server_time,
    wait_for, wait_until, wall_clock,
};

/// An hour, in ms.
const HOUR: i64 = 3_600_000;

/// The maximum age, in ms, of grants that a test keeps alive.
const AGE: i64 = 1500;

/// A maximum age that outlasts a restart of the server or a full copy to a replica.
const LONG: i64 = 20_000;

/// Alice has a grant of each: the fence of `k` is the time, the fence of `ahead` is later than the time.
const KEYS: [&str; 2] = ["k", "ahead"];

/// The earliest and the latest time at which a grant was made, in ms since 1970.
#[derive(Clone, Copy, Debug)]
struct Made {
    after: i64,
    before: i64,
}

/// Shows the server a fence of an hour from now.
fn run_ahead(client: &mut Client) {
    let fence = (wall_clock() + HOUR) * 1000;
    let payload = Payload::lock(client, b"any", fence as u64, 1).encode();
    restore_from_primary(client, "any", 0, &payload);
    client.ask::<()>("DEL any");
}

/// Makes alice's grant of this key.
#[track_caller]
fn take_one(client: &mut Client, key: &str, options: &str) -> Made {
    let after = server_time(client);
    let granted = client.acquire(key, &format!("OWNER alice {options}")).unwrap();
    let before = server_time(client);
    let ahead = granted.granted_at() > before + HOUR / 2;
    assert_eq!(ahead, key == "ahead", "{granted:?}, made by {before}");
    Made { after, before }
}

/// Makes alice's two grants.
#[track_caller]
fn take(client: &mut Client, options: &str) -> [Made; 2] {
    let first = take_one(client, "k", options);
    run_ahead(client);
    [first, take_one(client, "ahead", options)]
}

/// `LOCK.INFO` shows for each grant the time since it was made.
#[track_caller]
fn show_their_age(client: &mut Client, made: &[Made; 2]) {
    for (key, made) in KEYS.iter().zip(made) {
        let earliest = server_time(client) - made.before;
        let shown: i64 = client.lock_info(key).expect("a held lock")["held-ms"].parse().unwrap();
        let latest = server_time(client) - made.after;
        let ages = earliest - 1..=latest + 1;
        assert!(ages.contains(&shown), "{key}: held for {shown} ms, not {earliest} to {latest}");
    }
}

/// Checks that alice's extensions and re-entries end at the maximum age of her grant.
#[track_caller]
fn are_extended_to(age: i64, client: &mut Client, made: &[Made; 2]) {
    let beyond = client.ttl_beyond_lease();
    for (key, made) in KEYS.iter().zip(made) {
        let asked = server_time(client);
        let left: i64 = client.ask(&format!("LOCK.EXTEND {key} alice EX 1000"));
        let most = made.before + age - asked;
        assert!(left <= most, "{key}: {left} ms are left, {} too many", left - most);
        let ends: i64 = client.ask(&format!("PEXPIRETIME {key}"));
        let expected = made.after + age..=made.before + age + beyond;
        assert!(expected.contains(&ends), "{key}: {ends}, not {expected:?}");
        let again = client.acquire(key, "OWNER alice PX 600000 ONCE").unwrap();
        assert!(again.lease <= most, "{key}: {again:?}");
    }
}

/// Checks that alice's grant ends at this age, although she tries to keep it, and that bob has the lock soon afterwards.
#[track_caller]
fn ends_at(age: i64, server: &Server, key: &str, made: Made, effort: &str) {
    let (mut alice, mut bob, mut client) = (server.client(), server.client(), server.client());
    let watch = Stopwatch::start();
    // On a busy machine, bob may come after the end of the grant.
    bob.begin(&format!("LOCK.ACQUIRE {key} OWNER bob PX 60000 BLOCK 0"));
    wait_for("the end of alice's grant", || {
        if !effort.is_empty() {
            let _ = alice.send(&effort.replace("KEY", key));
        }
        let late = server_time(&mut client) - made.before - age;
        assert!(late < watch.allowed(), "alice has {key} for {late} ms too long, in spite of {effort:?}");
        client.holder(key).is_some_and(|holder| holder.owner == "bob")
    });
    let reached = server_time(&mut client) - made.after;
    assert!(reached >= age, "the grant ended at an age of {reached} ms");
    grant(bob.finish().unwrap()).unwrap();
}

/// The ways to limit the age: for the grant, for all grants, or both.
const WAYS: [(&str, i64); 3] = [("MAXHOLD 1500", 0), ("", AGE), ("MAXHOLD 600000", AGE)];

/// Tests each way, with a fence that is the time and with one that is later.
#[track_caller]
fn no_effort_keeps_it(options: &str, effort: &str) {
    for (own, of_all) in WAYS {
        let (server, mut session) = Server::and_client();
        session.ask::<()>(&format!("CONFIG SET lock.max-hold {of_all}"));
        for key in KEYS {
            if key == "ahead" {
                run_ahead(&mut session);
            }
            let made = take_one(&mut session, key, &format!("{own} {options}"));
            ends_at(AGE, &server, key, made, effort);
        }
    }
}

#[test]
fn no_extension_keeps_a_grant_beyond_max_hold() {
    no_effort_keeps_it("PX 600000", "LOCK.EXTEND KEY alice PX 600000");
    no_effort_keeps_it("PX 1400", "LOCK.EXTEND KEY alice PX 1400");
}

#[test]
fn no_session_keeps_a_grant_beyond_max_hold() {
    no_effort_keeps_it("PX 600000 SESSION", "");
    no_effort_keeps_it("PX 450 SESSION", "");
}

#[test]
fn an_extension_is_cut_to_what_is_left_of_max_hold() {
    let (_server, mut client) = Server::and_client();
    let made = take(&mut client, "PX 10000 MAXHOLD 20000");
    are_extended_to(LONG, &mut client, &made);
    wait_until(&mut client, made[1].before + 500);
    are_extended_to(LONG, &mut client, &made);
    client.ask::<()>("CONFIG SET lock.max-hold 15000");
    are_extended_to(15_000, &mut client, &made);
}

#[test]
fn info_shows_the_age_of_a_grant() {
    let (_server, mut client) = Server::and_client();
    let made = take(&mut client, "");
    show_their_age(&mut client, &made);
    wait_until(&mut client, made[1].before + 300);
    show_their_age(&mut client, &made);
    // No change of the grant resets its age.
    for line in [
        "LOCK.ACQUIRE KEY OWNER alice",
        "LOCK.EXTEND KEY alice PX 60000",
        "PERSIST KEY",
        "LOCK.RELEASE KEY alice",
    ] {
        for key in KEYS {
            client.ask::<Value>(&line.replace("KEY", key));
        }
        show_their_age(&mut client, &made);
    }
}

/// Checks the grants after they have passed through a replica, a file or a payload.
#[track_caller]
fn are_kept(server: &Server, made: [Made; 2]) {
    let mut client = server.client();
    wait_until(&mut client, made[1].before + 300);
    show_their_age(&mut client, &made);
    are_extended_to(LONG, &mut client, &made);
}

const KEPT: &str = "PX 10000 MAXHOLD 20000";

#[test]
fn a_promoted_replica_keeps_to_max_hold() {
    let primary = Server::start();
    let replica = primary.replica();
    let made = take(&mut primary.client(), "PX 600000 MAXHOLD 4000");
    primary.client().ask::<i64>("LOCK.EXTEND k alice EX 1000");
    replica.wait_for_sync_with(&primary);
    let mut client = replica.client();
    show_their_age(&mut client, &made);
    client.ask::<()>("REPLICAOF NO ONE");
    are_extended_to(4000, &mut client, &made);
    ends_at(4000, &replica, "ahead", made[1], "LOCK.EXTEND KEY alice EX 1000");
}

#[test]
fn files_keep_the_longest_hold_of_a_grant() {
    in_each_kind_of_file(|client| take(client, KEPT), are_kept);
}

#[test]
fn a_payload_keeps_the_longest_hold_of_a_grant() {
    let (server, mut client) = Server::and_client();
    let made = take(&mut client, KEPT);
    for key in KEYS {
        let dump: Vec<u8> = client.ask(&format!("DUMP {key}"));
        client.ask_words::<(), _>([b"RESTORE", key.as_bytes(), b"10000", &dump, b"REPLACE"]);
    }
    are_kept(&server, made);
}
