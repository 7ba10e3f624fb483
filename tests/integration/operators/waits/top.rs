//! `LOCK.WAITS TOP`: the locks with the most waits.

use super::{Shown, queue_up, waits};
use crate::support::Server;

/// Returns the names, and the number of waits for each.
fn told(shown: &[Shown]) -> Vec<(String, i64)> {
    shown.iter().map(|shown| (shown.text("key"), shown.number("waits"))).collect()
}

fn expected(all: &[(&str, i64)]) -> Vec<(String, i64)> {
    all.iter().map(|(key, waits)| ((*key).to_owned(), *waits)).collect()
}

#[test]
fn the_lock_with_the_most_waits_comes_first() {
    let (server, [mut client, mut places]) = Server::and_clients();
    assert_eq!(told(&waits(&mut client, "TOP")), expected(&[]));
    for key in ["a", "b", "c"] {
        client.acquire(key, "OWNER alice PX 600000").unwrap();
    }
    queue_up(&mut places, "a", "one", "");
    for owner in ["one", "two", "three"] {
        queue_up(&mut places, "c", owner, "");
    }
    for _ in 0..2 {
        queue_up(&mut places, "b", "again", "");
        assert_eq!(places.ask::<i64>("LOCK.LEAVE b again"), 1);
    }
    // Nobody waits for this lock.
    client.acquire("free", "OWNER alice").unwrap();
    for mut client in [server.client(), server.client_resp3()] {
        let top = waits(&mut client, "TOP");
        assert_eq!(told(&top), expected(&[("c", 3), ("b", 2), ("a", 1)]));
        let waiters: Vec<i64> = top.iter().map(|shown| shown.number("waiters")).collect();
        assert_eq!(waiters, [3, 0, 1]);
        assert!(top.iter().all(|shown| shown.number("error") == 0 && shown.number("db") == 0));
        assert!(top.iter().all(|shown| (0..60_000).contains(&shown.number("last-wait-ms"))));
    }
}
