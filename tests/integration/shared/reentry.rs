//! An owner that holds the lock asks again: with as much room, with more, with less; and gives back what it has.

use redis::Value;

use super::{NOT_HELD, count, gets_null, holds, readers, release, shown, waits};
use crate::support::{Server, transaction};

#[test]
fn with_the_same_room_it_is_one_more_hold() {
    let server = Server::start();
    let mut client = server.client();
    for options in ["SHARED", "LIMIT 3"] {
        let [first, _] = [holds(&mut client, "a", options), holds(&mut client, "b", "SHARED")];
        let again = holds(&mut client, "a", options);
        assert_eq!((again.fence, again.holds), (first.fence, 2), "{options}");
        let once = holds(&mut client, "a", &format!("{options} ONCE"));
        assert_eq!((once.fence, once.holds), (first.fence, 2), "{options}");
        assert_eq!(client.holding("k"), ["a", "b"]);
        assert_eq!(client.held_by("k", "b").unwrap().holds, 1);
        client.ask::<()>("LOCK.BREAK k");
    }
}

#[test]
fn with_more_room_the_grant_keeps_its_own() {
    let server = Server::start();
    let mut client = server.client();
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
fn it_goes_past_a_queue() {
    let server = Server::start();
    let mut client = server.client();
    let [first, _] = readers(&mut client, ["a", "b"]);
    let mut writer = waits(&server, "w", "");
    let again = holds(&mut client, "a", "SHARED BLOCK 0");
    assert_eq!((again.fence, again.holds), (first.fence, 2));
    gets_null(&mut client, "c", "SHARED");
    client.ask::<()>("LOCK.RELEASE k a ALL");
    release(&mut client, "b");
    assert_eq!(writer.granted().owner, "w");
}

#[test]
fn its_lease_gets_longer_and_the_others_dont() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a", "SHARED PX 300000");
    holds(&mut client, "b", "SHARED PX 100000");
    assert!(holds(&mut client, "a", "SHARED PX 1000").lease > 200_000, "never shorter");
    assert_eq!(holds(&mut client, "a", "SHARED PX 900000").lease, 900_000);
    assert!(client.held_by("k", "b").unwrap().lease <= 100_000);
    assert!(client.ask::<i64>("PTTL k") > 300_000);
}

#[test]
fn with_less_room_it_is_upgraded_in_place_where_it_fits() {
    let server = Server::start();
    let mut client = server.client();
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
fn once_takes_no_hold_and_has_less_room_all_the_same() {
    let server = Server::start();
    let mut client = server.client();
    let [reader] = readers(&mut client, ["a"]);
    for _ in 0..2 {
        let writer = holds(&mut client, "a", "ONCE");
        assert_eq!((writer.fence, writer.holds), (reader.fence, 1));
        assert_eq!(
            (shown(&mut client, "mode"), shown(&mut client, "limit")),
            ("exclusive".into(), "1".into())
        );
    }
    assert_eq!(count(&mut client, "lock_upgrades"), 1);
    gets_null(&mut client, "b", "SHARED");
    assert_eq!(release(&mut client, "a"), 0);
}

#[test]
fn with_less_room_beside_others_it_depends_on_them() {
    let server = Server::start();
    let mut client = server.client();
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

/// Where nobody can wait, an upgrade that does not fit is answered at once.
#[test]
fn in_a_transaction_and_in_a_script_it_does_not_wait() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    let line = "LOCK.ACQUIRE k OWNER a BLOCK 0";
    assert_eq!(transaction(&mut client, &[line]), [Ok(Value::Nil)]);
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'OWNER', 'a', 'BLOCK', '0')";
    assert_eq!(client.ask_words::<Value, _>(["EVAL", script, "1", "k"]), Value::Nil);
    let replies = transaction(&mut client, &["LOCK.RELEASE k b", line]);
    assert_ne!(replies[1], Ok(Value::Nil), "alone by then");
    assert_eq!(client.held_by("k", "a").unwrap().limit, 1);
}

#[test]
fn each_owner_gives_back_its_own() {
    let server = Server::start();
    let mut client = server.client();
    let [a, b] = readers(&mut client, ["a", "b"]);
    readers(&mut client, ["a", "a"]);
    assert_eq!(client.refused("LOCK.RELEASE k c"), NOT_HELD);
    assert_eq!(client.refused(&format!("LOCK.RELEASE k a FENCE {}", b.fence)), NOT_HELD);
    assert_eq!(client.refused(&format!("LOCK.EXTEND k b FENCE {}", a.fence)), NOT_HELD);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k a FENCE {}", a.fence)), 2);
    assert_eq!(client.ask::<i64>("LOCK.RELEASE k a ALL"), 0);
    assert_eq!(client.refused("LOCK.RELEASE k a"), NOT_HELD);
    assert_eq!(client.holding("k"), ["b"]);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k b ALL FENCE {}", b.fence)), 0);
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
}

/// Where the oldest grant ends, the next one is shown in its place.
#[test]
fn the_oldest_grant_may_be_the_first_to_end() {
    let server = Server::start();
    let mut client = server.client();
    let grants = readers(&mut client, ["a", "b", "c"]);
    for (place, owner) in ["a", "b", "c"].into_iter().enumerate() {
        let oldest = client.holder("k").unwrap();
        assert_eq!((&oldest.owner[..], oldest.fence), (owner, grants[place].fence));
        assert_eq!(release(&mut client, owner), 0);
    }
    assert_eq!(client.holder("k"), None);
}
