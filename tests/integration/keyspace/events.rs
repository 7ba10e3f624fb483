//! Keyspace events: how others learn of what happens to a lock.

use crate::support::{Client, Server};

/// What was published while the steps ran, as `channel message`.
fn published(server: &Server, steps: &[&str]) -> Vec<String> {
    let (mut listener, mut actor) = (server.client(), server.client());
    listener.ask::<()>("PSUBSCRIBE *");
    for step in steps {
        actor.ask::<redis::Value>(step);
    }
    actor.ask::<i64>("PUBLISH end of-the-steps");
    let mut seen = Vec::new();
    loop {
        match next_message(&mut listener) {
            message if message == "end of-the-steps" => return seen,
            message => seen.push(message),
        }
    }
}

fn next_message(listener: &mut Client) -> String {
    let (_kind, _pattern, channel, message): (String, String, String, String) =
        redis::from_redis_value(listener.finish().unwrap()).unwrap();
    format!("{channel} {message}")
}

const STEPS: &[&str] = &[
    "LOCK.ACQUIRE k OWNER alice",
    "LOCK.EXTEND k alice PX 50000",
    "LOCK.RELEASE k alice",
    "LOCK.ACQUIRE k OWNER bob",
    "LOCK.BREAK k",
];

#[test]
fn each_grant_extension_release_and_break_is_one_event_with_the_locks_name() {
    let server = Server::start();
    server.client().ask::<()>("CONFIG SET notify-keyspace-events Ed");
    assert_eq!(
        published(&server, STEPS),
        [
            "__keyevent@0__:lock.acquired k",
            "__keyevent@0__:lock.extended k",
            "__keyevent@0__:lock.released k",
            "__keyevent@0__:lock.acquired k",
            "__keyevent@0__:lock.broken k",
        ]
    );
}

#[test]
fn they_come_by_the_name_of_the_lock_too() {
    let server = Server::start();
    server.client().ask::<()>("CONFIG SET notify-keyspace-events KEd");
    assert_eq!(
        published(&server, &STEPS[..1]),
        ["__keyspace@0__:k lock.acquired", "__keyevent@0__:lock.acquired k"]
    );
}

#[test]
fn without_the_setting_there_is_none() {
    let server = Server::start();
    assert_eq!(published(&server, STEPS), [""; 0]);
}

#[test]
fn what_changes_nothing_is_no_event() {
    let server = Server::start();
    let mut client = server.client();
    client.ask::<()>("CONFIG SET notify-keyspace-events KEA");
    client.acquire("k", "OWNER alice").unwrap();
    let steps = [
        "LOCK.ACQUIRE k OWNER bob",
        "LOCK.ACQUIRE k OWNER alice ONCE PX 1",
        "LOCK.BREAK free",
        "LOCK.INFO k",
    ];
    assert_eq!(published(&server, &steps), [""; 0]);
}
