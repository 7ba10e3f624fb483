//! An upgrade that has to wait: it stands in front of the queue, and there is one at a time.

use redis::Value;

use super::{DEADLOCK, count, gets_null, holds, readers, release, shown, waits};
use crate::support::{Mailbox, Server, Waiter, grant, owners, queue, soon, wait_until_gone};

#[test]
fn it_stands_in_front_of_the_queue_and_keeps_its_fence() {
    let server = Server::start();
    let mut client = server.client();
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
fn it_waits_for_as_many_as_it_has_no_room_for() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b", "c", "d"]);
    let mut upgrade = waits(&server, "c", "LIMIT 2 ONCE");
    release(&mut client, "a");
    assert!(upgrade.is_blocked(&mut client));
    assert_eq!(client.held_by("k", "c").unwrap().limit, 0, "not yet");
    release(&mut client, "d");
    let upgraded = upgrade.granted();
    assert_eq!((&upgraded.owner[..], upgraded.holds), ("c", 1));
    assert_eq!(client.held_by("k", "c").unwrap().limit, 2);
    assert_eq!(client.holding("k"), ["b", "c"]);
}

#[test]
fn each_way_in_which_the_others_end_lets_it_go_on() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
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
fn when_the_first_gives_up_a_second_may_wait() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    let first = waits(&server, "a", "");
    assert_eq!(client.refused("LOCK.ACQUIRE k OWNER b BLOCK 0"), DEADLOCK);
    client.ask::<()>(&format!("CLIENT KILL ID {}", first.id));
    wait_until_gone(&mut client, first.id);
    let mut second = waits(&server, "b", "");
    assert_eq!(client.holding("k"), ["a", "b"], "the grant is no part of the wait");
    release(&mut client, "a");
    assert_eq!(second.granted().holds, 2);
}

/// One that has waited in vain keeps what it had.
#[test]
fn its_time_may_be_up() {
    let server = Server::start();
    let mut client = server.client();
    let [reader, _] = readers(&mut client, ["a", "b"]);
    let mut writer = waits(&server, "w", "");
    let upgrade: Value = client.ask("LOCK.ACQUIRE k OWNER a PX 600000 BLOCK 50");
    assert_eq!(upgrade, Value::Nil);
    let held = client.held_by("k", "a").unwrap();
    assert_eq!(held.lasting(), ("a", reader.fence, 1, 0));
    assert_eq!(owners(&mut client, "k"), ["w"]);
    release(&mut client, "b");
    release(&mut client, "a");
    writer.granted();
}

/// Behind an upgrade that goes away, those who fit come in.
#[test]
fn those_behind_one_that_goes_away_come_in() {
    let server = Server::start();
    let mut client = server.client();
    for leave in ["CLIENT KILL ID #", "CLIENT UNBLOCK # ERROR", "CLIENT UNBLOCK # TIMEOUT"] {
        readers(&mut client, ["a", "b"]);
        let upgrade = waits(&server, "a", "");
        let mut reader = waits(&server, "r", "SHARED");
        assert_eq!(owners(&mut client, "k"), ["a", "r"]);
        client.ask::<()>(&leave.replace('#', &upgrade.id.to_string()));
        reader.granted();
        assert_eq!(client.holding("k"), ["a", "b", "r"], "{leave}");
        client.ask::<()>("LOCK.BREAK k");
    }
}

#[test]
fn it_may_wait_without_a_connection() {
    let server = Server::start();
    let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
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

/// Whoever waits for an upgrade can still be held to its grant: by its own connections.
#[test]
fn meanwhile_its_grant_is_one_as_any() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    let mut upgrade = waits(&server, "a", "");
    assert_eq!(client.ask::<i64>("LOCK.EXTEND k a PX 700000"), 700_000);
    assert_eq!(holds(&mut client, "a", "SHARED").holds, 2);
    assert_eq!(release(&mut client, "a"), 1);
    release(&mut client, "b");
    assert!(upgrade.granted().lease > 600_000);
    soon("one holder", || client.holding("k") == ["a"]);
}

/// It is served before those who came with it: readers that keep coming don't hold it up.
#[test]
fn readers_that_keep_coming_dont_hold_it_up() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b"]);
    let mut upgrade = waits(&server, "a", "");
    let mut late: Vec<Waiter> =
        (0..5).map(|number| waits(&server, &format!("r{number}"), "SHARED")).collect();
    release(&mut client, "b");
    assert_eq!(upgrade.granted().holds, 2);
    client.ask::<()>("LOCK.RELEASE k a ALL");
    for waiter in &mut late {
        waiter.granted();
    }
}

#[test]
fn an_upgrade_in_a_transaction_is_told_null_where_another_waits() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a", "b", "c"]);
    let _upgrade = waits(&server, "a", "");
    client.ask::<()>("MULTI");
    client.ask::<()>("LOCK.ACQUIRE k OWNER b BLOCK 1000");
    assert_eq!(client.ask::<Vec<Value>>("EXEC"), [Value::Nil]);
}
