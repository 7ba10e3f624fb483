//! Who may hold a lock beside whom: the others are fewer than one's own room, and than the room of each of them.

use super::{count, gets_null, holds, readers, release, shown, take, waits};
use crate::support::{Part, Payload, Server, Setup, queue, reader, soon};

/// What one may ask for, and for how many that has room.
const KINDS: [(&str, usize); 6] =
    [("", 1), ("LIMIT 1", 1), ("LIMIT 2", 2), ("LIMIT 3", 3), ("LIMIT 1000", 1000), ("SHARED", usize::MAX)];

#[test]
fn of_all_kinds_three_at_a_time() {
    let server = Server::start();
    let mut client = server.client();
    for first in KINDS {
        for second in KINDS {
            for third in KINDS {
                let mut there: Vec<(&str, usize)> = Vec::new();
                for (owner, (options, room)) in ["a", "b", "c"].into_iter().zip([first, second, third]) {
                    let what = format!("{owner} of {first:?} {second:?} {third:?}");
                    let fits = there.len() < room && there.iter().all(|(_, other)| there.len() < *other);
                    let granted = take(&mut client, owner, options);
                    assert_eq!(granted.is_some(), fits, "{what}");
                    if granted.is_some() {
                        there.push((owner, room));
                    }
                    let owners: Vec<_> = there.iter().map(|(owner, _)| *owner).collect();
                    assert_eq!(client.holding("k"), owners, "{what}");
                    let least = there.iter().map(|(_, room)| *room).min().unwrap();
                    let limit = if least == usize::MAX { 0 } else { least };
                    assert_eq!(shown(&mut client, "limit"), limit.to_string(), "{what}");
                    assert_eq!(shown(&mut client, "holders"), there.len().to_string(), "{what}");
                }
                client.ask::<()>("LOCK.BREAK k");
            }
        }
    }
}

/// A client that does not fit waits, and has the lock as soon as it fits.
#[test]
fn of_all_kinds_one_behind_the_other() {
    let server = Server::start();
    let mut client = server.client();
    for (first, room) in KINDS {
        for (second, other) in KINDS {
            holds(&mut client, "a", first);
            if room > 1 && other > 1 {
                // It would not wait.
                holds(&mut client, "b", &format!("{second} BLOCK 0"));
            } else {
                let mut b = waits(&server, "b", second);
                assert_eq!(client.holding("k"), ["a"], "{first}, {second}");
                assert_eq!(release(&mut client, "a"), 0);
                assert_eq!(b.granted().owner, "b", "{first}, {second}");
                assert_eq!(client.holding("k"), ["b"]);
            }
            client.ask::<()>("LOCK.BREAK k");
        }
    }
}

#[test]
fn a_refused_ask_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    for options in ["", "LIMIT 1", "LIMIT 2"] {
        gets_null(&mut client, "c", options);
    }
    holds(&mut client, "c", "LIMIT 3");
    for options in ["", "LIMIT 3", "LIMIT 100", "SHARED"] {
        gets_null(&mut client, "d", options);
    }
    // There is room again when that one is done, though the others go on.
    release(&mut client, "c");
    holds(&mut client, "d", "SHARED");
}

#[test]
fn each_grant_has_its_own_fence_above_all_before() {
    let server = Server::start();
    let mut client = server.client();
    let mut last = holds(&mut client, "w", "").fence;
    release(&mut client, "w");
    for round in 0..50 {
        for options in ["SHARED", "LIMIT 3", "LIMIT 9"] {
            let grant = holds(&mut client, &format!("o{round}{options}").replace(' ', ""), options);
            assert!(grant.fence > last && grant.holds == 1, "{grant:?} after {last}");
            last = grant.fence;
        }
        let fences: Vec<_> = client.holders("k").iter().map(|holder| holder.fence).collect();
        assert!(fences.is_sorted(), "the oldest first: {fences:?}");
        client.ask::<()>("LOCK.BREAK k");
    }
}

/// `LIMIT 1` is a plain lock, to the byte.
#[test]
fn limit_1_is_a_plain_lock() {
    let server = Server::start();
    let mut client = server.client();
    let fence = holds(&mut client, "alice", "LIMIT 1").fence;
    assert_eq!((shown(&mut client, "mode"), shown(&mut client, "limit")), ("exclusive".into(), "1".into()));
    let alice = Part { room: 1, ..reader(b"alice", fence as u64) };
    let payload = Payload::lock(&mut client, b"x", 1, 1).packed(false, &[alice]).encode();
    assert_eq!(client.ask::<Vec<u8>>("DUMP k"), payload);
    assert_eq!(count(&mut client, "lock_grants_shared"), 0);
    gets_null(&mut client, "bob", "SHARED");
}

#[test]
fn no_more_than_lock_max_holders() {
    let server = Setup::new().module_args("max-holders 3").start();
    let mut client = server.client();
    readers(&mut client, ["a", "b", "c"]);
    gets_null(&mut client, "d", "SHARED");
    gets_null(&mut client, "d", "LIMIT 3");
    assert_eq!(holds(&mut client, "b", "SHARED").holds, 2, "it holds it already");
    let mut d = waits(&server, "d", "SHARED");
    let mut e = waits(&server, "e", "SHARED");
    assert_eq!(release(&mut client, "a"), 0);
    d.granted();
    assert_eq!(queue(&mut client, "k").len(), 1);
    // None is ended where the cap is lowered, and none comes until there is room.
    client.ask::<()>("CONFIG SET lock.max-holders 1");
    release(&mut client, "c");
    release(&mut client, "d");
    assert_eq!(client.holding("k"), ["b"]);
    assert!(e.is_blocked(&mut client));
    client.ask::<()>("LOCK.RELEASE k b ALL");
    e.granted();
    gets_null(&mut client, "f", "SHARED");
    // 0: no cap.
    client.ask::<()>("CONFIG SET lock.max-holders 0");
    for number in 0..1500 {
        holds(&mut client, &format!("r{number}"), "SHARED");
    }
    assert_eq!(shown(&mut client, "holders"), "1501");
}

#[test]
fn a_thousand_are_the_most_by_default() {
    let server = Server::start();
    let mut client = server.client();
    let lines: Vec<_> =
        (0..1000).map(|number| format!("LOCK.ACQUIRE k OWNER r{number} PX 600000 SHARED")).collect();
    client.ask_all::<(String, i64, i64, i64), _>(&lines);
    gets_null(&mut client, "late", "SHARED");
    let mut late = waits(&server, "late", "SHARED");
    release(&mut client, "r500");
    late.granted();
    soon("all of them", || shown(&mut client, "holders") == "1000");
}
