//! `INFO lock`: how long clients wait, how long contended locks are held, and how waits end.

use redis::Value;

use crate::operators::waits::queue_up;
use crate::support::{Client, Mailbox, Server, Setup, Waiter, server_time, wait_for, wait_until};

#[track_caller]
fn gauge(client: &mut Client, field: &str) -> i64 {
    let value = client.info("lock", field);
    value.parse().unwrap_or_else(|_| panic!("{field}: {value:?}"))
}

/// Waits for this many ms.
#[track_caller]
fn wait_ms(client: &mut Client, ms: i64) {
    let until = server_time(client) + ms;
    wait_until(client, until);
}

#[test]
fn the_oldest_wait_is_that_of_whoever_still_waits() {
    let (server, mut client) = Server::and_client();
    assert_eq!(gauge(&mut client, "lock_oldest_wait_ms"), 0);
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    assert_eq!(gauge(&mut client, "lock_oldest_wait_ms"), 0);
    let first = Waiter::new(&server, "k", "OWNER bob");
    wait_ms(&mut client, 300);
    let began = server_time(&mut client);
    let second = Waiter::new(&server, "k", "OWNER carol");
    drop(second);
    let mut third = server.client();
    queue_up(&mut third, "k", "dave", "");
    assert!(gauge(&mut client, "lock_oldest_wait_ms") >= 300);
    drop(first);
    wait_for("the second one to be the oldest", || {
        gauge(&mut client, "lock_oldest_wait_ms") <= server_time(&mut client) - began
    });
    drop(third);
    wait_for("nobody to wait", || gauge(&mut client, "lock_oldest_wait_ms") == 0);
}

#[test]
fn the_sum_of_waits_is_of_those_that_ended_in_a_grant() {
    let (server, mut client, mut bob) = Server::waited_for();
    let began = server_time(&mut client);
    let impatient = server.client().send("LOCK.ACQUIRE k OWNER carol BLOCK 150");
    wait_ms(&mut client, 200);
    assert_eq!(impatient, Ok(Value::Nil));
    assert_eq!(gauge(&mut client, "lock_waits_ms"), 0);
    client.ask::<()>("LOCK.RELEASE k alice");
    bob.granted();
    let (sum, gone_by) = (gauge(&mut client, "lock_waits_ms"), server_time(&mut client) - began);
    assert!((200..=gone_by + 60_000).contains(&sum), "{sum}");
    assert_eq!(gauge(&mut client, "lock_waits_all"), 1);
    assert_eq!(gauge(&mut client, "lock_waits_ungranted"), 1);
}

#[test]
fn every_wait_that_ends_without_a_grant_counts_once() {
    let (server, [mut client, mut places]) = Server::and_clients();
    let _mail = Mailbox::of(&server, "ch");
    client.acquire("k", "OWNER alice SHARED PX 600000").unwrap();
    client.acquire("k", "OWNER bob SHARED PX 600000").unwrap();
    client.acquire("other", "OWNER alice PX 600000").unwrap();
    let mut expected = 0;
    let mut one_more = |client: &mut Client, why: &str| {
        expected += 1;
        wait_for(why, || gauge(client, "lock_waiters") == 0);
        assert_eq!(gauge(client, "lock_waits_ungranted"), expected, "{why}");
    };
    drop(Waiter::new(&server, "k", "OWNER carol"));
    one_more(&mut client, "a connection that closes");
    assert_eq!(places.send("LOCK.ACQUIRE k OWNER carol BLOCK 50"), Ok(Value::Nil));
    one_more(&mut client, "a timeout");
    let sent_away = Waiter::new(&server, "k", "OWNER carol");
    client.ask::<i64>(&format!("CLIENT UNBLOCK {} ERROR", sent_away.id));
    one_more(&mut client, "CLIENT UNBLOCK");
    queue_up(&mut places, "k", "carol", "");
    assert_eq!(places.ask::<i64>("LOCK.LEAVE k carol"), 1);
    one_more(&mut client, "LOCK.LEAVE");
    let all = places.send("LOCK.MACQUIRE 3 k other free OWNER carol BLOCK 50");
    assert_eq!(all, Ok(Value::Nil));
    one_more(&mut client, "one who waits for several");
    let _waiter = Waiter::new(&server, "other", "OWNER carol");
    client.ask::<()>("SET other text");
    one_more(&mut client, "a key of another type");
    // A request that is refused at once is no wait.
    assert_eq!(client.acquire("k", "OWNER carol"), None);
    assert_eq!(gauge(&mut client, "lock_waits_ungranted"), 6);
}

#[test]
fn the_rest_of_the_grace_runs_out() {
    let (_server, mut client) = Setup::new().module_args("failover-grace 600000").start_and_client();
    let grace = gauge(&mut client, "lock_grace_ms");
    assert!((500_000..=600_000).contains(&grace), "{grace}");
    wait_for("it to run", || gauge(&mut client, "lock_grace_ms") < grace);
    client.ask::<()>("CONFIG SET lock.failover-grace 0");
    assert_eq!(gauge(&mut client, "lock_grace_ms"), 0);
}
