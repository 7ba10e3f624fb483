//! A search by `DETECT` changes nothing that it looks at, and nobody else notices it.

use redis::Value;

use crate::support::{Mailbox, Server, Waiter, wait_for};

/// Alice holds `as`, and is told of a cycle over `bs` and `cs`: Bob waits for Carol's lock and for a free one.
#[test]
fn a_search_by_detect_leaves_no_trace() {
    let (server, mut client) = Server::and_client();
    for owner in ["a", "b", "c"] {
        client.acquire(&format!("{owner}s"), &format!("OWNER {owner} PX 600000")).unwrap();
    }
    let _a = Waiter::new(&server, "bs", "OWNER a");
    let words = "LOCK.MACQUIRE 2 cs free OWNER b BLOCK 0";
    let _b = Waiter::of_words(&server, server.client(), words.split(' '));
    client.ask::<()>("CONFIG SET notify-keyspace-events KEAm");
    wait_for("a look at the clock", || client.ask::<i64>("OBJECT IDLETIME bs") > 0);
    let mut events = Mailbox::of(&server, "__keyevent@0__:keymiss");
    let before = ["keyspace_hits", "keyspace_misses"].map(|field| client.info("stats", field));
    let told = client.refused("LOCK.ACQUIRE as OWNER c BLOCK 0 DETECT");
    let after = ["keyspace_hits", "keyspace_misses"].map(|field| client.info("stats", field));
    assert!(client.ask::<i64>("OBJECT IDLETIME bs") > 0, "its last use");
    assert!(told.contains("never end: c waits"), "{told}");
    if client.version() < (7, 2) {
        println!("this server counts each look at a key");
        return;
    }
    assert_eq!(after, before, "hits and misses");
    client.ask::<Value>("PUBLISH __keyevent@0__:keymiss end");
    assert_eq!(events.next(), "end");
}
