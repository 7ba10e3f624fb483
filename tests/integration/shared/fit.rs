//! Who may hold a lock beside whom: the others are fewer than one's own room, and than the room of each of them.

use super::{count, gets_null, holds, readers, release, shown, take, waits};
use crate::support::{Client, Part, Payload, Server, Setup, queue, reader};

/// What one may ask for, and for how many that has room.
const KINDS: [(&str, usize); 6] =
    [("", 1), ("LIMIT 1", 1), ("LIMIT 2", 2), ("LIMIT 3", 3), ("LIMIT 1000", 1000), ("SHARED", usize::MAX)];

/// Who holds the lock with which room is shown, and for how many it has room by that.
#[track_caller]
fn are_shown(client: &mut Client, there: &[(&str, usize)], what: &str) {
    let (owners, rooms): (Vec<_>, Vec<_>) = there.iter().copied().unzip();
    assert_eq!(client.holding("k"), owners, "{what}");
    let least = rooms.into_iter().min().unwrap();
    let limit = if least == usize::MAX { 0 } else { least };
    assert_eq!(shown(client, "limit"), limit.to_string(), "{what}");
    assert_eq!(shown(client, "mode"), if least == 1 { "exclusive" } else { "shared" }, "{what}");
    assert_eq!(shown(client, "holders"), there.len().to_string(), "{what}");
}

#[test]
fn of_all_kinds_three_at_a_time() {
    let (_server, mut client) = Server::and_client();
    let mut last = 0;
    for (first, second, third) in
        KINDS.iter().flat_map(|a| KINDS.iter().flat_map(move |b| KINDS.iter().map(move |c| (a, b, c))))
    {
        let mut there: Vec<(&str, usize)> = Vec::new();
        for (owner, &(options, room)) in ["a", "b", "c"].into_iter().zip([first, second, third]) {
            let what = format!("{owner} of {first:?} {second:?} {third:?}");
            let fits = there.len() < room && there.iter().all(|(_, other)| there.len() < *other);
            let granted = take(&mut client, owner, options);
            assert_eq!(granted.is_some(), fits, "{what}");
            if let Some(granted) = granted {
                assert!(granted.fence > last && granted.holds == 1, "{what}: {granted:?} after {last}");
                last = granted.fence;
                there.push((owner, room));
            }
            are_shown(&mut client, &there, &what);
        }
        while there.len() > 1 {
            release(&mut client, there.remove(0).0);
            are_shown(&mut client, &there, "the others");
        }
        client.ask::<()>("LOCK.BREAK k");
    }
}

/// None is ended where the cap is lowered, and none comes until there is room; where it is raised, the next ones come at once.
#[test]
fn no_more_than_lock_max_holders() {
    let (server, mut client) = Setup::new().module_args("max-holders 3").start_and_client();
    readers(&mut client, ["a", "b", "c"]);
    gets_null(&mut client, "d", "SHARED");
    gets_null(&mut client, "d", "LIMIT 3");
    assert_eq!(holds(&mut client, "b", "SHARED").holds, 2, "it holds it already");
    let mut waiters = ["d", "e", "f"].map(|owner| waits(&server, owner, "SHARED"));
    assert_eq!(release(&mut client, "a"), 0);
    waiters[0].granted();
    assert_eq!(queue(&mut client, "k").len(), 2);
    client.ask::<()>("CONFIG SET lock.max-holders 1");
    release(&mut client, "c");
    release(&mut client, "d");
    assert_eq!(client.holding("k"), ["b"]);
    assert!(waiters[1].is_blocked(&mut client));
    client.ask::<()>("CONFIG SET lock.max-holders 2");
    waiters[1].granted();
    assert_eq!(queue(&mut client, "k").len(), 1);
    client.ask::<()>("CONFIG SET lock.max-holders 0");
    waiters[2].granted();
    for number in 0..1500 {
        holds(&mut client, &format!("r{number}"), "SHARED");
    }
    assert_eq!(shown(&mut client, "holders"), "1503");
}

/// `LIMIT 1` is a plain lock, to the byte.
#[test]
fn limit_1_is_a_plain_lock() {
    let (_server, mut client) = Server::and_client();
    let fence = holds(&mut client, "alice", "LIMIT 1").fence;
    assert_eq!((shown(&mut client, "mode"), shown(&mut client, "limit")), ("exclusive".into(), "1".into()));
    let alice = Part { room: 1, ..reader(b"alice", fence as u64) };
    let payload = Payload::lock(&mut client, b"x", 1, 1).packed(false, &[alice]).encode();
    assert_eq!(client.ask::<Vec<u8>>("DUMP k"), payload);
    assert_eq!(count(&mut client, "lock_grants_shared"), 0);
    gets_null(&mut client, "bob", "SHARED");
}
