//! What holders hear of their grants.

use redis::Value;

use super::ask;
use crate::support::{Client, Grant, Mailbox, Server, grant, heard};

/// Alice holds `k`, and hears of it, also that somebody waits.
#[track_caller]
fn holds(client: &mut Client, options: &str) -> Grant {
    grant(ask(client, "alice", &format!("{options} WANTED"))).unwrap()
}

/// However a grant ends, its holder hears of it, if it did not end it itself.
#[test]
fn a_grant_that_is_lost_is_told() {
    let ends = [
        "LOCK.BREAK k",
        "DEL k",
        "UNLINK k",
        "FLUSHALL",
        "FLUSHDB",
        "SET k x",
        "RENAME k l",
        "PEXPIRE k 1",
        "SWAPDB 0 1",
        "MOVE k 1",
    ];
    for end in ends {
        let (_server, mut client, mut mail) = heard("");
        let fence = holds(&mut client, "PX 60000").fence;
        client.ask::<Value>(end);
        assert_eq!(mail.next(), format!("lost {fence} alice"), "{end}");
        assert!(mail.rest(&mut client).is_empty(), "{end}");
    }
}

#[test]
fn the_channel_named_last_counts() {
    let (server, mut client) = Server::and_client();
    let (mut mail, mut elsewhere) = (Mailbox::of(&server, "ch"), Mailbox::of(&server, "elsewhere"));
    let fence = holds(&mut client, "PX 60000").fence;
    client.acquire("k", "OWNER alice ONCE NOTIFY elsewhere").unwrap();
    // A client that asks without a channel changes nothing of that.
    client.acquire("k", "OWNER alice ONCE").unwrap();
    client.ask::<()>("LOCK.BREAK k");
    assert_eq!(elsewhere.next(), format!("lost {fence} alice"));
    assert!(mail.rest(&mut client).is_empty());
}
