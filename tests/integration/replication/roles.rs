//! A primary is demoted, and promoted again at once.

use redis::Value;

use crate::support::{Mailbox, Setup, convert};

/// The most locks that a connection may keep alive, each with a place in its queue.
const MANY: usize = 2_000;

fn each(line: impl Fn(usize) -> String) -> Vec<String> {
    (0..MANY).map(line).collect()
}

/// The old state is dropped over many turns, but it has no effect any more after the demotion.
#[test]
fn the_new_role_begins_with_nothing_of_the_earlier_one() {
    let setup = Setup::new().module_args(&format!("max-places {MANY}"));
    let (server, mut client) = setup.start_and_client();
    let (mut holder, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
    let hold = each(|number| format!("LOCK.ACQUIRE k{number} OWNER o PX 600000 SESSION"));
    let wait = each(|number| format!("LOCK.ACQUIRE k{number} OWNER w{number} BLOCK 0 NOTIFY ch"));
    holder.ask_all::<Value, _>(&hold);
    client.ask_all::<Value, _>(&wait);
    let gauges = ["lock_sessions", "lock_places", "lock_waiters"];
    assert_eq!(gauges.map(|gauge| client.info("lock", gauge)), ["2000", "2000", "2000"]);

    // All commands run in one turn of the server.
    let lines = ["REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "INFO lock"];
    holder.begin_together(&lines.map(|line| line.split(' ').collect()));
    let [_, _, info] = lines.map(|_| holder.finish().unwrap());
    let info: String = convert(info);
    for gauge in gauges {
        assert!(info.contains(&format!("{gauge}:0\r\n")), "{info}");
    }
    // If the locks of the earlier role counted, these would exceed the limit.
    let held: Vec<Value> = holder.ask_all(&hold);
    assert!(held.iter().all(|reply| matches!(reply, Value::Array(_))));
    let mut told: Vec<String> = (0..MANY).map(|_| mail.next()).collect();
    told.sort();
    let mut expected = each(|number| format!("gone w{number}"));
    expected.sort();
    assert_eq!(told, expected);
    client.ask_all::<Value, _>(&wait);
    assert_eq!(gauges.map(|gauge| client.info("lock", gauge)), ["2000", "2000", "2000"]);
    // The new sessions are renewed, released and handed over as usual.
    drop(holder);
    assert!((0..MANY).all(|_| mail.next().starts_with("granted ")));
}
