//! Each grant lapses by itself.

use super::{count, gets_null, holds, readers, release, shown, waits};
use crate::support::{
    Client, HELD_BY_ANOTHER, Listener, Server, grant, server_time, transaction, wait_for, wait_until,
};

/// A server whose own search for what has expired finds nothing: what the module misses, nothing makes up for.
fn alone() -> Server {
    let server = Server::start();
    server.client().ask::<()>("DEBUG SET-ACTIVE-EXPIRE 0");
    server
}

/// Cuts that owner's lease short, and waits until it is over, by the clock.
#[track_caller]
fn cut_and_wait(client: &mut Client, owner: &str) {
    client.ask::<()>(&format!("LOCK.EXTEND k {owner} PX 150"));
    let now = server_time(client);
    wait_until(client, now + 151);
}

/// Leases of three holders that end in another order than they began.
const LEASES: [(&str, i64); 3] = [("a", 250), ("b", 400), ("c", 100)];

#[test]
fn one_of_three_wherever_it_stands() {
    for place in 0..3 {
        let (server, mut client) = Server::and_client();
        let mut owners = vec!["a", "b", "c"];
        let mut listener = Listener::new(&server, "Ed");
        for owner in &owners {
            holds(&mut client, owner, "SHARED PX 600000");
        }
        let before = client.holders("k");
        client.ask::<()>(&format!("LOCK.EXTEND k {} PX 200", owners[place]));
        assert_eq!(listener.next::<3>(), ["lock.acquired k"; 3]);
        assert_eq!(listener.next(), ["lock.extended k"]);
        wait_for("the lapse", || client.holders("k").len() == 2);
        let lapsed = owners.remove(place);
        let (after, others) = (client.holders("k"), before.iter().filter(|holder| holder.owner != lapsed));
        assert!(after.iter().map(|one| one.lasting()).eq(others.map(|one| one.lasting())), "{after:?}");
        assert_eq!(client.refused(&format!("LOCK.RELEASE k {lapsed}")), HELD_BY_ANOTHER);
        assert_eq!(client.refused(&format!("LOCK.EXTEND k {lapsed}")), HELD_BY_ANOTHER);
        assert_eq!(listener.next(), ["lock.lapsed k"]);
        listener.nothing_but(&server, &[]);
        assert_eq!(count(&mut client, "lock_lapses"), 1);
        assert!(client.ask::<i64>("PTTL k") > 60_000);
        assert!(holds(&mut client, lapsed, "SHARED").fence > before[2].fence, "a new grant");
    }
}

#[test]
fn one_beside_a_session_is_found_when_it_ends() {
    let server = alone();
    let mut client = server.client();
    let mut listener = Listener::new(&server, "Ed");
    holds(&mut client, "a", "SHARED SESSION");
    holds(&mut client, "b", "SHARED PX 100");
    assert_eq!(listener.next(), ["lock.acquired k", "lock.acquired k", "lock.lapsed k"]);
}

#[test]
fn one_after_the_other_until_the_lock_is_free() {
    let (server, mut client) = Server::and_client();
    let mut listener = Listener::new(&server, "Ed");
    let asks = LEASES.map(|(owner, lease)| format!("LOCK.ACQUIRE k OWNER {owner} SHARED PX {lease}"));
    transaction(&mut client, &asks.each_ref().map(String::as_str));
    assert_eq!(listener.next::<3>(), ["lock.acquired k"; 3]);
    // Nobody looks before the key is gone: one event for all.
    assert_eq!(listener.next::<1>(), ["lock.lapsed k"]);
    assert_eq!(client.holders("k"), []);
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
    assert_eq!(count(&mut client, "lock_lapses"), 3);
}

#[test]
fn many_at_once() {
    let (server, mut client) = Server::and_client();
    let mut listener = Listener::new(&server, "Ed");
    holds(&mut client, "stays", "SHARED");
    let lines: Vec<_> = (0..500).map(|n| format!("LOCK.ACQUIRE k OWNER r{n} PX 600000 SHARED")).collect();
    client.ask_all::<(String, i64, i64, i64), _>(&lines);
    assert_eq!(listener.next::<501>(), [const { "lock.acquired k" }; 501].map(String::from));
    // All end in a moment.
    let lines: Vec<_> = (0..500).map(|n| format!("LOCK.EXTEND k r{n} PX 1")).collect();
    client.ask::<()>("MULTI");
    client.ask_all::<String, _>(&lines);
    client.ask::<redis::Value>("EXEC");
    wait_for("all lapses", || client.holding("k") == ["stays"]);
    holds(&mut client, "next", "SHARED");
    assert_eq!(count(&mut client, "lock_lapses"), 500);
    let events = listener.rest(&server);
    assert_eq!(events.iter().filter(|event| *event == "lock.lapsed k").count(), 500);
}

/// A lapse that nobody waits for is found by the next command at the latest.
#[test]
fn it_makes_room_for_the_next_one_who_asks() {
    let server = alone();
    let mut client = server.client();
    holds(&mut client, "a", "LIMIT 2");
    holds(&mut client, "b", "LIMIT 2");
    gets_null(&mut client, "c", "LIMIT 2");
    cut_and_wait(&mut client, "a");
    assert_eq!(client.holding("k"), ["b"], "not shown any more");
    assert_eq!(shown(&mut client, "holders"), "1");
    holds(&mut client, "c", "LIMIT 2");
    assert_eq!(count(&mut client, "lock_lapses"), 1);
    // A writer that holds it alone then.
    release(&mut client, "b");
    holds(&mut client, "d", "SHARED");
    cut_and_wait(&mut client, "c");
    assert_eq!(holds(&mut client, "d", "ONCE").holds, 1);
    assert_eq!(client.held_by("k", "d").unwrap().limit, 1);
}

/// It wakes who waits for room, at once and not before.
#[test]
fn it_makes_room_for_one_who_waits() {
    let server = alone();
    let mut client = server.client();
    holds(&mut client, "a", "LIMIT 2");
    holds(&mut client, "b", "LIMIT 2");
    let mut c = waits(&server, "c", "LIMIT 2");
    let mut d = waits(&server, "d", "LIMIT 2");
    let ends = server_time(&mut client) + 300;
    client.ask::<()>("LOCK.EXTEND k a PX 300");
    let granted = grant(c.client.finish().unwrap()).unwrap();
    assert!(granted.granted_at() >= ends, "{granted:?} before {ends}");
    assert_eq!(client.holding("k"), ["b", "c"]);
    assert!(d.is_blocked(&mut client));
    release(&mut client, "b");
    d.granted();
}

/// A lapse that the server slept over is still one before whatever comes next.
#[test]
fn it_counts_before_it_is_noticed() {
    let server = alone();
    let mut client = server.client();
    holds(&mut client, "a", "SHARED PX 200");
    let [b] = readers(&mut client, ["b"]);
    let mut waiter = waits(&server, "w", "");
    client.begin("DEBUG SLEEP 0.4");
    client.begin("LOCK.EXTEND k a PX 600000");
    client.begin("LOCK.ACQUIRE k OWNER a SHARED");
    client.begin("LOCK.INFO k");
    client.finish().unwrap();
    assert_eq!(client.finish(), Err(HELD_BY_ANOTHER.into()));
    assert_eq!(client.finish(), Ok(redis::Value::Nil), "a newcomer behind the writer");
    client.finish().unwrap();
    assert_eq!(client.holders("k").iter().map(|one| one.fence).collect::<Vec<_>>(), [b.fence]);
    release(&mut client, "b");
    waiter.granted();
}
