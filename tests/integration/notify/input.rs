//! Refused requests, and arguments with any bytes.

use redis::Value;

use crate::support::{Client, Server, Setup, transaction};

const QUEUED: &str = "QUEUED";

fn queued() -> Result<Value, String> {
    Ok(Value::SimpleString(QUEUED.into()))
}

#[test]
fn names_are_of_any_bytes() {
    let (server, mut client) = Server::and_client();
    let (key, owner, channel) = (b"\0 \r\n\xff", b"a \0\xfe\r\nb %s", b"\xfdc h\0");
    let mut mail = server.client();
    mail.begin_words([&b"SUBSCRIBE"[..], channel]);
    mail.finish().unwrap();
    client.ask_words::<Value, _>([&b"LOCK.ACQUIRE"[..], key, b"OWNER", b"alice"]);
    let words = [&b"LOCK.ACQUIRE"[..], key, b"OWNER", owner, b"BLOCK", b"0", b"NOTIFY", channel, b"ONCE"];
    assert_eq!(client.send_words(words), queued());
    client.ask_words::<i64, _>([&b"LOCK.RELEASE"[..], key, b"alice"]);
    let (_, on, text): (String, Vec<u8>, Vec<u8>) = redis::from_redis_value(mail.finish().unwrap()).unwrap();
    assert_eq!(on, channel);
    let (_, fence, holds, _): (Vec<u8>, u64, u32, i64) = client.ask_words(words);
    assert_eq!(holds, 1);
    assert_eq!(text, [format!("granted {fence} ").as_bytes(), owner].concat());
}

/// Returns a user that may use all locks and these channels.
#[track_caller]
fn user(server: &Server, channels: &str) -> Client {
    server.client_of(&format!("~* +@all resetchannels {channels}"))
}

#[test]
fn a_channel_needs_the_right_to_it() {
    let (server, mut client) = Server::and_client();
    client.ask::<()>("ACL LOG RESET");
    let mut guest = user(&server, "&grants:*");
    let refused = guest.refused("LOCK.ACQUIRE k OWNER bob NOTIFY secrets");
    assert_eq!(refused, "NOPERM No permissions to access a channel");
    assert_eq!(client.holder("k"), None);
    let log: Vec<std::collections::HashMap<String, Value>> = client.ask("ACL LOG");
    assert_eq!(log[0]["reason"], Value::BulkString(b"channel".into()));
    assert_eq!(log[0]["object"], Value::BulkString(b"secrets".into()));
    guest.acquire("k", "OWNER bob NOTIFY grants:7").unwrap();
    client.ask::<()>("ACL SETUSER guest resetchannels");
    let mut guest = user(&server, "");
    assert!(guest.refused("LOCK.ACQUIRE k OWNER bob NOTIFY grants:7").starts_with("NOPERM"));
    guest.acquire("k", "OWNER bob ONCE").unwrap();
}

#[test]
fn it_may_be_said_in_a_transaction_and_not_in_a_script() {
    let (_server, mut client, mut mail) = super::held("");
    let replies =
        transaction(&mut client, &["LOCK.ACQUIRE k OWNER bob BLOCK 0 NOTIFY ch", "LOCK.RELEASE k alice"]);
    assert_eq!(replies, [queued(), Ok(Value::Int(0))]);
    assert!(mail.next().starts_with("granted "));
    let script = ["EVAL", "return redis.call('LOCK.ACQUIRE', 'l', 'NOTIFY', 'ch')", "0"];
    assert!(client.send_words(script).unwrap_err().contains("NOTIFY is not allowed in scripts"));
    assert_eq!(client.holder("l"), None);
}

#[test]
fn a_connection_has_so_many_places_and_a_queue_too() {
    let server = Setup::new().module_args("max-places 2 max-waiters 2").start();
    let (mut client, mut other) = (server.client(), server.client());
    for key in ["a", "b", "c"] {
        client.acquire(key, "OWNER alice").unwrap();
    }
    let place = |client: &mut Client, key: &str, owner: &str| {
        client.send(&format!("LOCK.ACQUIRE {key} OWNER {owner} ONCE BLOCK 0 NOTIFY ch"))
    };
    assert_eq!(place(&mut client, "a", "bob"), queued());
    assert_eq!(place(&mut client, "b", "bob"), queued());
    let refused = place(&mut client, "c", "bob").unwrap_err();
    assert_eq!(refused, "MAXPLACES too many places and sessions hang on this connection (lock.max-places)");
    // Asking again does not take a new place.
    assert_eq!(place(&mut client, "b", "bob"), queued());
    assert_eq!(place(&mut other, "a", "carol"), queued());
    let refused = place(&mut other, "a", "dave").unwrap_err();
    assert!(refused.starts_with("MAXWAITERS "), "{refused}");
    // A place that another connection takes over is not new in the queue, but counts for the new connection.
    assert_eq!(place(&mut other, "a", "bob"), queued());
    assert!(place(&mut other, "b", "bob").unwrap_err().starts_with("MAXPLACES "));
    assert_eq!(client.ask::<i64>("LOCK.LEAVE b bob"), 1);
    assert_eq!(place(&mut client, "c", "bob"), queued());
    client.ask::<()>("CONFIG SET lock.max-places 0");
    assert_eq!(place(&mut client, "b", "bob"), queued());
}
