//! An owner that holds the lock asks again: with as much room, with more, with less; and gives back what it has.

use super::{count, gets_null, holds, readers, release};
use crate::support::{HELD_BY_ANOTHER, OTHER_FENCE, Server};

#[test]
fn with_more_room_the_grant_keeps_its_own() {
    let (_server, mut client) = Server::and_client();
    for (first, again, limit) in
        [("", "SHARED", 1), ("", "LIMIT 5", 1), ("LIMIT 2", "LIMIT 3", 2), ("LIMIT 2", "SHARED", 2)]
    {
        holds(&mut client, "a", first);
        assert_eq!(holds(&mut client, "a", again).holds, 2, "{first}, {again}");
        assert_eq!(client.held_by("k", "a").unwrap().limit, limit, "{first}, {again}");
        if limit == 1 {
            gets_null(&mut client, "b", "SHARED");
        } else {
            holds(&mut client, "b", "SHARED");
            gets_null(&mut client, "c", "SHARED");
        }
        client.ask::<()>("LOCK.BREAK k");
    }
    assert_eq!(count(&mut client, "lock_upgrades"), 0);
}

#[test]
fn with_less_room_it_is_upgraded_in_place_where_it_fits() {
    let (_server, mut client) = Server::and_client();
    for (first, less, limit) in
        [("SHARED", "", 1), ("LIMIT 3", "", 1), ("SHARED", "LIMIT 4", 4), ("LIMIT 3", "LIMIT 2", 2)]
    {
        let before = count(&mut client, "lock_upgrades");
        let reader = holds(&mut client, "a", first);
        let upgraded = holds(&mut client, "a", less);
        assert_eq!((upgraded.fence, upgraded.holds), (reader.fence, 2), "{first}, {less}");
        assert_eq!(client.held_by("k", "a").unwrap().limit, limit);
        assert_eq!(count(&mut client, "lock_upgrades"), before + 1);
        // There is no way down but to give back all holds.
        assert_eq!(release(&mut client, "a"), 1);
        holds(&mut client, "a", first);
        assert_eq!(release(&mut client, "a"), 1);
        assert_eq!(client.held_by("k", "a").unwrap().limit, limit, "{first}, {less}");
        if limit == 1 {
            gets_null(&mut client, "b", "SHARED");
        }
        assert_eq!(release(&mut client, "a"), 0);
        let next = holds(&mut client, "a", first);
        assert!(next.fence > reader.fence);
        holds(&mut client, "b", "SHARED");
        client.ask::<()>("LOCK.BREAK k");
    }
}

#[test]
fn with_less_room_beside_others_it_depends_on_them() {
    let (_server, mut client) = Server::and_client();
    readers(&mut client, ["a", "b", "c"]);
    for options in ["", "LIMIT 1", "LIMIT 2", "ONCE", "LIMIT 2 ONCE"] {
        gets_null(&mut client, "a", options);
    }
    assert_eq!(holds(&mut client, "a", "LIMIT 3").holds, 2);
    gets_null(&mut client, "d", "SHARED");
    release(&mut client, "c");
    assert_eq!(holds(&mut client, "a", "LIMIT 2").holds, 3);
    gets_null(&mut client, "d", "SHARED");
    release(&mut client, "b");
    assert_eq!(holds(&mut client, "a", "").holds, 4);
    assert_eq!(count(&mut client, "lock_upgrades"), 3);
}

#[test]
fn each_owner_gives_back_its_own() {
    let (_server, mut client) = Server::and_client();
    let [a, b] = readers(&mut client, ["a", "b"]);
    readers(&mut client, ["a", "a"]);
    assert_eq!(client.refused("LOCK.RELEASE k c"), HELD_BY_ANOTHER);
    assert_eq!(client.refused(&format!("LOCK.RELEASE k a FENCE {}", b.fence)), OTHER_FENCE);
    assert_eq!(client.refused(&format!("LOCK.EXTEND k b FENCE {}", a.fence)), OTHER_FENCE);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k a FENCE {}", a.fence)), 2);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k a ALL"), 0);
    assert_eq!(client.refused("LOCK.RELEASE k a"), HELD_BY_ANOTHER);
    assert_eq!(client.holding("k"), ["b"]);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k b ALL FENCE {}", b.fence)), 0);
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
}
