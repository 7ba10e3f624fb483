//! The user's access to the channel of `NOTIFY` is revoked after the request: the server sends nothing more there for this user.

use redis::Value;

use super::{ask, queue_up};
use crate::support::{Client, Mailbox, Server, grant};

/// Returns a guest with access to `ch`, an operator, and a subscriber of this channel.
fn scene() -> (Server, Client, Client, Mailbox) {
    let server = Server::start();
    let guest = server.client_of("on nopass +@all ~* resetchannels &ch");
    let (client, mail) = (server.client(), Mailbox::of(&server, "ch"));
    (server, guest, client, mail)
}

/// Commands that each revoke the guest's access to `ch`.
const REVOKED: [&str; 3] =
    ["ACL SETUSER guest resetchannels", "ACL SETUSER guest resetchannels &other", "ACL DELUSER guest"];

#[track_caller]
fn counts(client: &mut Client, messages: &str, unheard: &str) {
    let shown = ["lock_messages", "lock_messages_unheard"].map(|field| client.info("lock", field));
    assert_eq!(shown, [messages, unheard]);
}

/// The next waiter gets the lock, as if nobody had received the message.
#[test]
fn a_place_is_not_told_of_its_grant() {
    for revoke in &REVOKED[..2] {
        let (_server, mut guest, mut client, mut mail) = scene();
        client.acquire("k", "OWNER alice").unwrap();
        queue_up(&mut guest, "guest", "");
        queue_up(&mut client, "carol", "");
        client.ask::<Value>(revoke);
        client.ask::<i64>("LOCK.RELEASE k alice");
        let told = mail.next();
        assert!(told.starts_with("granted ") && told.ends_with(" carol"), "{revoke}: {told}");
        assert_eq!(client.holder("k").unwrap().owner, "carol");
        assert!(mail.rest(&mut client).is_empty(), "{revoke}");
        counts(&mut client, "2", "1");
    }
}

#[test]
fn a_place_is_not_told_of_its_timeout() {
    let (_server, mut guest, mut client, mut mail) = scene();
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut guest, "guest", "BLOCK 300");
    queue_up(&mut client, "carol", "BLOCK 400");
    client.ask::<Value>(REVOKED[0]);
    assert_eq!(mail.next(), "timeout carol");
    assert!(mail.rest(&mut client).is_empty());
}

#[test]
fn a_holder_hears_nothing_more() {
    for revoke in REVOKED {
        let (_server, mut guest, mut client, mut mail) = scene();
        grant(ask(&mut guest, "guest", "PX 600000 WANTED")).unwrap();
        client.ask::<Value>(revoke);
        queue_up(&mut client, "carol", "");
        client.ask::<i64>("LOCK.BREAK k");
        let told = mail.next();
        assert!(told.starts_with("granted ") && told.ends_with(" carol"), "{revoke}: {told}");
        assert!(mail.rest(&mut client).is_empty(), "{revoke}");
        counts(&mut client, "3", "2");
    }
}

/// The access of the user that asked counts, whoever uses the connection now. It may be granted again.
#[test]
fn the_right_is_looked_up_for_each_message() {
    let (_server, mut guest, mut client, mut mail) = scene();
    let fence = grant(ask(&mut guest, "guest", "PX 600000")).unwrap().fence;
    client.ask::<()>("ACL SETUSER other on nopass +@all ~* &*");
    guest.ask::<()>("AUTH other any");
    client.ask::<Value>(REVOKED[0]);
    queue_up(&mut client, "carol", "");
    assert!(mail.rest(&mut client).is_empty());
    client.ask::<i64>("LOCK.LEAVE k carol");
    client.ask::<Value>("ACL SETUSER guest &c*");
    client.ask::<i64>("LOCK.BREAK k");
    assert_eq!(mail.next(), format!("lost {fence} guest"));
}
