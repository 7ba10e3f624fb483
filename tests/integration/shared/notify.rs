//! Places of `NOTIFY` for all kinds, and what several holders hear of their grants.

use redis::Value;

use super::{holds, readers, release, waits};
use crate::support::{Client, grant, heard, owners, soon};

/// Asks for `k` by `NOTIFY ch WANTED`.
#[track_caller]
fn ask(client: &mut Client, owner: &str, options: &str) -> Value {
    client.ask(&format!("LOCK.ACQUIRE k OWNER {owner} ONCE PX 600000 {options} NOTIFY ch WANTED"))
}

#[track_caller]
fn queue_up(client: &mut Client, owner: &str, options: &str) {
    let reply = ask(client, owner, &format!("{options} BLOCK 60000"));
    assert_eq!(reply, Value::SimpleString("QUEUED".into()), "{owner}");
}

#[test]
fn places_of_all_kinds_are_served_as_blocked_clients_are() {
    let (server, mut client, mut mail) = heard("claim 600000");
    holds(&mut client, "first", "");
    queue_up(&mut client, "r1", "SHARED");
    let mut blocked = waits(&server, "r2", "SHARED");
    queue_up(&mut client, "l", "LIMIT 3");
    queue_up(&mut client, "w", "");
    queue_up(&mut client, "r3", "SHARED");
    release(&mut client, "first");
    let told = [mail.next(), mail.next()];
    assert!(told[0].ends_with(" r1") && told[1].ends_with(" l"), "{told:?}");
    blocked.granted();
    assert_eq!(client.holding("k"), ["r1", "r2", "l"]);
    assert_eq!(owners(&mut client, "k"), ["w", "r3"]);
    for (owner, options, limit) in [("r1", "SHARED", 0), ("l", "LIMIT 3", 3)] {
        let claimed = grant(ask(&mut client, owner, options)).unwrap();
        let held = client.held_by("k", owner).unwrap();
        assert_eq!(held.lasting(), (owner, claimed.fence, 1, limit));
        assert_eq!(mail.next(), format!("wanted {} {owner}", claimed.fence), "with the claim");
    }
    for owner in ["r1", "r2", "l"] {
        release(&mut client, owner);
    }
    assert!(mail.next().ends_with(" w"));
    grant(ask(&mut client, "w", "")).unwrap();
    assert!(mail.next().starts_with("wanted "));
    release(&mut client, "w");
    assert!(mail.next().ends_with(" r3"));
    assert_eq!(client.held_by("k", "r3").unwrap().limit, 0);
}

/// A process that dies with places and with grants that it has not claimed.
#[test]
fn a_closed_connection_gives_up_what_it_has_not_claimed() {
    let (server, mut client, mut mail) = heard("claim 600000");
    let mut dies = server.client();
    holds(&mut client, "first", "");
    for owner in ["a", "b", "c"] {
        queue_up(&mut dies, owner, "LIMIT 2");
    }
    let mut writer = waits(&server, "w", "");
    release(&mut client, "first");
    for owner in ["a", "b"] {
        assert!(mail.next().ends_with(owner));
    }
    grant(ask(&mut dies, "b", "LIMIT 2")).unwrap();
    drop(dies);
    soon("the end of a and of the place of c", || {
        client.holding("k") == ["b"] && owners(&mut client, "k") == ["w"]
    });
    release(&mut client, "b");
    writer.granted();
}

#[test]
fn each_holder_hears_that_the_lock_is_wanted_once() {
    let (server, mut client, mut mail) = heard("claim 600000");
    let fences = ["a", "b"].map(|owner| grant(ask(&mut client, owner, "SHARED")).unwrap().fence);
    readers(&mut client, ["silent"]);
    assert!(mail.rest(&mut client).is_empty());
    let _writer = waits(&server, "w", "");
    let mut told = [mail.next(), mail.next()];
    told.sort();
    assert_eq!(told, [format!("wanted {} a", fences[0]), format!("wanted {} b", fences[1])]);
    let _reader = waits(&server, "r", "SHARED");
    assert!(mail.rest(&mut client).is_empty(), "once for each queue");
    // A client that asks again is told again.
    ask(&mut client, "b", "SHARED");
    assert_eq!(mail.rest(&mut client), [format!("wanted {} b", fences[1])]);
}

#[test]
fn each_holder_hears_of_its_own_grant_only() {
    let (_server, mut client, mut mail) = heard("claim 600000");
    let [a, b, c, d] =
        ["a", "b", "c", "d"].map(|owner| grant(ask(&mut client, owner, "SHARED")).unwrap().fence);
    client.ask::<()>(&format!("LOCK.BREAK k FENCE {b}"));
    assert_eq!(mail.rest(&mut client), [format!("lost {b} b")]);
    release(&mut client, "a");
    assert!(mail.rest(&mut client).is_empty(), "its own release");
    client.ask::<i64>("LOCK.EXTEND k c PX 30");
    assert_eq!(mail.next(), format!("lost {c} c"));
    assert_eq!(client.holding("k"), ["d"]);
    client.ask::<()>("LOCK.BREAK k");
    assert_eq!(mail.rest(&mut client), [format!("lost {d} d")]);
    assert!(a < b);
}

#[test]
fn all_hear_of_what_ends_all() {
    for end in [
        "LOCK.BREAK k",
        "DEL k",
        "FLUSHALL",
        "SET k x",
        "RENAME k l",
        "PEXPIRE k 1",
        "SWAPDB 0 1",
        "MOVE k 1",
    ] {
        let (_server, mut client, mut mail) = heard("claim 600000");
        let fences = ["a", "b"].map(|owner| grant(ask(&mut client, owner, "SHARED")).unwrap().fence);
        readers(&mut client, ["silent"]);
        client.ask::<Value>(end);
        let mut told = [mail.next(), mail.next()];
        told.sort();
        assert_eq!(told, [format!("lost {} a", fences[0]), format!("lost {} b", fences[1])], "{end}");
        assert!(mail.rest(&mut client).is_empty(), "{end}");
    }
}
