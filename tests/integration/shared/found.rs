//! Defects that were found by trying to break it.

use redis::Value;

use super::{holds, readers, release, shown, waits};
use crate::support::{Client, Listener, Mailbox, Server, owners};

#[test]
fn a_raised_cap_lets_the_next_ones_in() {
    let server = Server::start();
    let mut client = server.client();
    client.ask::<()>("CONFIG SET lock.max-holders 2");
    readers(&mut client, ["a", "b"]);
    let mut waiters = ["c", "d"].map(|owner| waits(&server, owner, "SHARED"));
    client.ask::<()>("CONFIG SET lock.max-holders 1000");
    for waiter in &mut waiters {
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

#[test]
fn a_lapse_beside_a_session_is_told_when_it_happens() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "a", "SHARED SESSION");
    let mut listener = Listener::new(&server, "Ed");
    holds(&mut client, "b", "SHARED PX 20");
    assert_eq!(listener.next(), ["lock.acquired k", "lock.lapsed k"]);
    assert_eq!(shown(&mut client, "holders"), "1");
}

/// The steps of other clients do not go through all of them.
#[test]
fn many_places_of_one_owner_that_wait_to_upgrade_keep_nobody_up() {
    const PLACES: usize = 5_000;
    let server = Server::start();
    let mut client = server.client();
    let _mailbox = Mailbox::of(&server, "ch");
    readers(&mut client, ["a", "b"]);
    for _ in 0..PLACES {
        client.ask::<()>("LOCK.ACQUIRE k OWNER a BLOCK 0 NOTIFY ch PX 600000");
    }
    let took = |client: &mut Client| -> f64 {
        let stats: String = client.ask("INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_lock.extend:")).unwrap().to_owned();
        line.split("usec_per_call=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
    };
    // The least of some: another process may have the processor during one.
    let each = (0..20).map(|_| {
        client.ask::<()>("CONFIG RESETSTAT");
        client.ask::<()>("LOCK.EXTEND k b PX 600000");
        took(&mut client)
    });
    let least = each.fold(f64::INFINITY, f64::min);
    // All of them would take 4 ms or more.
    assert!(least < 1_500.0, "{least} us");
    release(&mut client, "b");
    assert_eq!(shown(&mut client, "mode"), "exclusive");
    assert_eq!(owners(&mut client, "k").iter().filter(|owner| *owner != "a").count(), 0);
}
