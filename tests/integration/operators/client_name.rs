//! `client-name`: which process holds a lock or waits for it.

use std::collections::HashMap;

use redis::Value;

use crate::support::{Client, Mailbox, Server, Waiter, convert};

const ALICE: &str = "redislock:web-3:812:secret";
const BOB: &str = "redislock:billing-7.x_1:1:secret:{tag}";

type Map = HashMap<String, Value>;

#[track_caller]
fn part(map: &Map, name: &str) -> Vec<Map> {
    convert(map[name].clone())
}

/// Returns the names of the holder of `k` and its waiters. They must be the same in all replies, and contain no secret.
#[track_caller]
fn names(client: &mut Client) -> (String, Vec<String>) {
    let name = |map: &Map| convert::<String>(map["client-name"].clone());
    let info: Map = client.ask("LOCK.INFO k FULL");
    let queue: Vec<String> = part(&info, "queue").iter().map(name).collect();
    let (_, waits): (String, Vec<Map>) = client.ask("LOCK.WAITS KEY k");
    assert_eq!(waits.iter().map(name).collect::<Vec<_>>(), queue);
    let holders = waits.iter().map(|wait| part(wait, "holders").remove(0));
    for holder in holders.chain(part(&info, "grants")) {
        assert_eq!(name(&holder), name(&info));
    }
    assert!(!format!("{info:?} {waits:?}").contains("secret"), "{info:?} {waits:?}");
    (name(&info), queue)
}

#[test]
fn the_process_is_named_while_it_waits_and_while_it_holds() {
    let (server, mut client) = Server::and_client();
    let mut mail = Mailbox::of(&server, BOB);
    client.acquire("k", &format!("OWNER alice PX 600000 NOTIFY {ALICE} ONCE")).unwrap();
    assert_eq!(names(&mut client), ("web-3:812".into(), vec![]));
    let bob = format!("LOCK.ACQUIRE k OWNER bob PX 600000 BLOCK 600000 NOTIFY {BOB} ONCE");
    assert_eq!(client.ask::<String>(&bob), "QUEUED");
    let later =
        ["LOCK.EXTEND k alice PX 500000", "LOCK.ACQUIRE k OWNER alice", "LOCK.ACQUIRE k OWNER alice LABEL x"];
    for line in later {
        client.ask::<Value>(line);
        assert_eq!(names(&mut client), ("web-3:812".into(), vec!["billing-7.x_1:1".into()]), "{line}");
    }
    assert_eq!(client.lock_info("k").unwrap()["label"], "x");
    client.ask::<()>("LOCK.RELEASE k alice ALL");
    assert!(mail.next().starts_with("granted "));
    for claim in ["PING", &bob, "LOCK.EXTEND k bob PX 500000"] {
        client.ask::<Value>(claim);
        assert_eq!(names(&mut client), ("billing-7.x_1:1".into(), vec![]), "{claim}");
    }
}

/// Such a name may allow its reader to receive and forge messages. The secret in a package's channel is never shown.
#[test]
fn a_channel_of_another_form_is_shown_whole_to_those_who_may_write() {
    let (server, mut client) = Server::and_client();
    client.ask::<()>("ACL SETUSER reader on nopass %R~* &* +@all");
    let mut reader = server.client();
    reader.ask::<()>("AUTH reader any");
    let forms = [
        ("redislock::812:secret", ":812", ":812"),
        ("redislock:web-3:812", "redislock:web-3:812", ""),
        ("redislock:web-3:eight:secret", "redislock:web-3:eight:secret", ""),
        ("redislock:web\u{1b}3:812:secret", "redislock:web\u{1b}3:812:secret", ""),
        ("locks:web-7", "locks:web-7", ""),
    ];
    for (channel, whole, for_reader) in forms {
        client.ask::<Value>(&format!("LOCK.ACQUIRE k OWNER alice ONCE NOTIFY {channel}"));
        assert_eq!(client.lock_info("k").unwrap()["client-name"], whole);
        assert_eq!(reader.lock_info("k").unwrap()["client-name"], for_reader, "{channel}");
    }
}

#[test]
fn without_a_channel_the_connection_is_named_as_its_client_has_named_it() {
    let (server, [mut client, mut holder, mut waiter]) = Server::and_clients();
    holder.ask::<()>("CLIENT SETNAME billing-7");
    waiter.ask::<()>("CLIENT SETNAME web-3");
    client.acquire("k", "OWNER alice").unwrap();
    assert_eq!(names(&mut client), (String::new(), vec![]), "nothing is known");
    holder.acquire("k", "OWNER alice SESSION").unwrap();
    let _waiter = Waiter::of_words(&server, waiter, "LOCK.ACQUIRE k OWNER bob BLOCK 0".split(' '));
    assert_eq!(names(&mut client), ("billing-7".into(), vec!["web-3".into()]));
}
