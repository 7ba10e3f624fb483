//! An upgrade that has to wait: it stands in front of the queue, and there is one at a time.

use redis::Value;

use super::{DEADLOCK, count, gets_null, holds, readers, release, shown, waits};
use crate::support::{Listener, Server, grant, heard, owners, queue, wait_for};

#[test]
fn it_stands_in_front_of_the_queue_and_keeps_its_fence() {
    let (server, mut client) = Server::and_client();
    let [reader, _] = readers(&mut client, ["a", "b"]);
    let mut writer = waits(&server, "w", "");
    let mut late = waits(&server, "r", "SHARED");
    let mut upgrade = waits(&server, "a", "");
    assert_eq!(owners(&mut client, "k"), ["a", "w", "r"]);
    gets_null(&mut client, "c", "SHARED");
    assert_eq!(release(&mut client, "b"), 0);
    let upgraded = upgrade.granted();
    assert_eq!((&upgraded.owner[..], upgraded.fence, upgraded.holds), ("a", reader.fence, 2));
    assert_eq!((shown(&mut client, "mode"), shown(&mut client, "holders")), ("exclusive".into(), "1".into()));
    assert_eq!(owners(&mut client, "k"), ["w", "r"]);
    assert_eq!(count(&mut client, "lock_upgrades"), 1);
    assert_eq!(release(&mut client, "a"), 1);
    assert_eq!(owners(&mut client, "k"), ["w", "r"], "it has that room until its end");
    assert_eq!(release(&mut client, "a"), 0);
    assert!(writer.granted().fence > reader.fence);
    release(&mut client, "w");
    assert_eq!(late.granted().owner, "r");
}

#[test]
fn each_way_in_which_the_others_end_lets_it_go_on() {
    let (server, mut client) = Server::and_client();
    for end in ["LOCK.RELEASE k b", "LOCK.EXTEND k b PX 1", "LOCK.BREAK k FENCE #"] {
        let [reader, b] = readers(&mut client, ["a", "b"]);
        let mut upgrade = waits(&server, "a", "");
        client.ask::<Value>(&end.replace('#', &b.fence.to_string()));
        let upgraded = upgrade.granted();
        assert_eq!((upgraded.fence, upgraded.holds), (reader.fence, 2), "{end}");
        client.ask::<()>("LOCK.BREAK k");
    }
    let mut session = server.client();
    readers(&mut client, ["a"]);
    holds(&mut session, "b", "SHARED SESSION");
    let mut upgrade = waits(&server, "a", "");
    drop(session);
    assert_eq!(upgrade.granted().holds, 2);
}

#[test]
fn a_second_owner_that_wants_to_wait_for_one_is_told_at_once() {
    let (server, mut client) = Server::and_client();
    readers(&mut client, ["a", "b", "c"]);
    let mut upgrade = waits(&server, "a", "");
    let before = client.snapshot();
    for options in ["BLOCK 0", "BLOCK 600000 ONCE", "LIMIT 2 BLOCK 0", "BLOCK 0 NOTIFY ch", "BLOCK 1 SESSION"]
    {
        assert_eq!(client.refused(&format!("LOCK.ACQUIRE k OWNER b {options}")), DEADLOCK, "{options}");
    }
    assert_eq!(client.snapshot(), before);
    assert_eq!(count(&mut client, "lock_deadlocks"), 5);
    // Without waiting there is none, nor for one that only fits.
    gets_null(&mut client, "b", "");
    assert_eq!(holds(&mut client, "b", "SHARED BLOCK 0").holds, 2);
    // An owner that waits may ask by another connection.
    let mut other = waits(&server, "a", "ONCE");
    client.ask::<()>("LOCK.RELEASE k b ALL");
    release(&mut client, "c");
    let holds = [upgrade.granted().holds, other.granted().holds];
    assert_eq!(holds.iter().max(), Some(&2), "{holds:?}");
    assert_eq!(count(&mut client, "lock_deadlocks"), 5);
}

#[test]
fn it_may_wait_without_a_connection() {
    let (server, mut client, mut mail) = heard("");
    let [reader, _] = readers(&mut client, ["a", "b"]);
    let mut writer = waits(&server, "w", "");
    let ask = "LOCK.ACQUIRE k OWNER a ONCE PX 600000 BLOCK 60000 NOTIFY ch";
    assert_eq!(client.ask::<String>(ask), "QUEUED");
    let queued: Vec<_> = queue(&mut client, "k").into_iter().map(|one| (one.owner, one.by)).collect();
    assert_eq!(queued, [("a".into(), "notify".into()), ("w".into(), "block".to_string())]);
    release(&mut client, "b");
    assert_eq!(mail.next(), format!("granted {} a", reader.fence));
    let claimed = grant(client.ask(ask)).unwrap();
    assert_eq!((claimed.fence, claimed.holds), (reader.fence, 1));
    assert_eq!(client.held_by("k", "a").unwrap().limit, 1);
    release(&mut client, "a");
    writer.granted();
}

/// Owner a waits to write while it reads; its grant ends in that way, and it waits on, for a new one. Found by the module itself, not by
/// the server's search for what has expired.
#[test]
fn its_own_grant_ends_and_it_waits_on() {
    for end in ["LOCK.EXTEND k a PX 100", "LOCK.BREAK k FENCE #", "LOCK.RELEASE k a"] {
        let (server, mut client) = Server::and_client();
        client.ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
        let [reader, other] = readers(&mut client, ["a", "b"]);
        let mut upgrade = waits(&server, "a", "");
        client.ask::<Value>(&end.replace('#', &reader.fence.to_string()));
        wait_for("the end of the grant", || client.holding("k") == ["b"]);
        assert!(upgrade.is_blocked(&mut client), "{end}");
        release(&mut client, "b");
        let next = upgrade.granted();
        assert!(
            next.fence > other.fence && next.holds == 1,
            "{end}: {next:?} is no new grant after {other:?}"
        );
        assert_eq!(client.held_by("k", "a").unwrap().limit, 1);
    }
}

/// Where all grants end at once, it stands in front no longer, and gets a new grant when its turn comes.
#[test]
fn its_own_grant_ends_with_all_the_others() {
    let (server, mut client) = Server::and_client();
    for end in ["LOCK.BREAK k", "DEL k", "FLUSHALL", "RENAME k other"] {
        let [reader, _] = readers(&mut client, ["a", "b"]);
        let mut writer = waits(&server, "w", "");
        let mut upgrade = waits(&server, "a", "");
        assert_eq!(owners(&mut client, "k"), ["a", "w"]);
        client.ask::<Value>(end);
        writer.granted();
        assert_eq!(owners(&mut client, "k"), ["a"], "{end}");
        release(&mut client, "w");
        let next = upgrade.granted();
        assert!(next.fence > reader.fence && next.holds == 1, "{end}: {next:?}");
        assert_eq!(client.holding("k"), ["a"], "{end}");
        client.ask::<()>("FLUSHALL");
    }
}

/// A second owner may wait for an upgrade once the first has no grant to upgrade any more.
#[test]
fn a_second_upgrade_comes_before_one_that_has_lost_its_grant() {
    let (server, mut client) = Server::and_client();
    readers(&mut client, ["a", "b", "c"]);
    let mut listener = Listener::new(&server, "Ed");
    let mut first = waits(&server, "a", "");
    client.ask::<()>("LOCK.EXTEND k a PX 300");
    assert_eq!(listener.next(), ["lock.extended k", "lock.lapsed k"]);
    let mut second = waits(&server, "b", "");
    release(&mut client, "c");
    assert_eq!(second.granted().holds, 2, "its grant is the only one");
    client.ask::<()>("LOCK.RELEASE k b ALL");
    assert_eq!(first.granted().holds, 1);
}

/// A restored key may bring two readers that both wait to write.
#[test]
fn a_second_owner_that_holds_the_lock_again_is_told() {
    let (server, mut client) = Server::and_client();
    readers(&mut client, ["a", "b"]);
    let payload: Vec<u8> = client.ask("DUMP k");
    release(&mut client, "b");
    holds(&mut client, "c", "SHARED");
    let mut second = waits(&server, "b", "");
    let mut first = waits(&server, "a", "");
    client.ask_words::<(), _>([b"RESTORE", &b"k"[..], b"0", &payload, b"REPLACE"]);
    assert_eq!(second.refused(), DEADLOCK);
    client.ask::<()>("LOCK.RELEASE k b");
    assert_eq!(first.granted().holds, 2);
}
