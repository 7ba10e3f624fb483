//! `DETECT`: what the reply shows users of locks to which they have no access.

use super::circles::{WOULD, hold, waits};
use crate::support::{Server, Waiter};

/// An owner's name is shown to users that may write to one of the locks beside it: the lock that it holds, or the lock that it waits for.
#[test]
fn owners_are_named_to_those_who_may_write_to_a_lock_beside_them() {
    let (server, mut client) = Server::and_client();
    hold(&mut client, "a b c d e f");
    let _waiters = ["bc", "cd", "de", "ef", "fa"].map(|link| {
        let (owner, next) = link.split_at(1);
        waits(&server, &format!("{next}s"), owner)
    });
    for (keys, circle) in [
        (
            "~bs",
            "a waits for \"bs\" held by b, b waits for a lock held by somebody, \
             somebody waits for a lock held by somebody, somebody waits for a lock held by somebody, \
             somebody waits for a lock held by somebody, somebody waits for a lock held by a",
        ),
        (
            "~bs %R~cs",
            "a waits for \"bs\" held by b, b waits for \"cs\" held by somebody, \
             somebody waits for a lock held by somebody, somebody waits for a lock held by somebody, \
             somebody waits for a lock held by somebody, somebody waits for a lock held by a",
        ),
        (
            "~bs ~es",
            "a waits for \"bs\" held by b, b waits for a lock held by somebody, \
             somebody waits for a lock held by d, d waits for \"es\" held by e, \
             e waits for a lock held by somebody, somebody waits for a lock held by a",
        ),
        (
            "~bs ~as",
            "a waits for \"bs\" held by b, b waits for a lock held by somebody, \
             somebody waits for a lock held by somebody, somebody waits for a lock held by somebody, \
             somebody waits for a lock held by f, f waits for \"as\" held by a",
        ),
    ] {
        client.ask::<()>(&format!("ACL SETUSER guest reset on nopass +@all {keys}"));
        let mut guest = server.client();
        guest.ask::<()>("AUTH guest any");
        let told = guest.refused("LOCK.ACQUIRE bs OWNER a BLOCK 0 DETECT");
        assert_eq!(told, format!("{WOULD}{circle}"), "{keys}");
    }
}

/// The owner of a session is shown only because of the lock that it holds, and the waiter on its connection because of the other lock.
#[test]
fn owners_on_one_connection_are_named_each_by_its_own_lock() {
    let (server, mut client) = Server::and_client();
    hold(&mut client, "a b");
    let mut holder = server.client();
    holder.acquire("session", "OWNER holder SESSION PX 600000").unwrap();
    let words = "LOCK.ACQUIRE as OWNER waiter BLOCK 0 PX 600000".split_whitespace();
    let _waiter = Waiter::of_words(&server, holder, words);
    for (keys, circle) in [
        (
            "~session",
            "a waits for \"session\" held by holder on the connection of somebody, somebody waits for a lock held by a",
        ),
        (
            "~session ~as",
            "a waits for \"session\" held by holder on the connection of waiter, waiter waits for \"as\" held by a",
        ),
    ] {
        client.ask::<()>(&format!("ACL SETUSER guest reset on nopass +@all {keys}"));
        let mut guest = server.client();
        guest.ask::<()>("AUTH guest any");
        let told = guest.refused("LOCK.ACQUIRE session OWNER a BLOCK 0 DETECT");
        assert_eq!(told, format!("{WOULD}{circle}"), "{keys}");
    }
}
