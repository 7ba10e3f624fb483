//! `START`: the message is the grant, and work begins at it.

use super::{ask, queue_up};
use crate::support::{Mailbox, Server, Setup, Waiter, grant, is_left_of, wait_for};

/// A message that starts work, taken apart.
#[derive(Debug)]
struct Started {
    fence: i64,
    lasts: i64,
    slot: i64,
    number: i64,
    owner: String,
}

#[track_caller]
fn started(mail: &mut Mailbox) -> Started {
    let message = mail.next();
    let words: Vec<&str> = message.split(' ').collect();
    let [word, numbers @ .., owner] = words.as_slice() else { panic!("{message}") };
    let numbers: Vec<i64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    let [fence, lasts, slot, number] = numbers.as_slice() else { panic!("{message}") };
    assert_eq!(*word, "start", "{message}");
    Started { fence: *fence, lasts: *lasts, slot: *slot, number: *number, owner: owner.to_string() }
}

#[test]
fn the_message_is_the_grant() {
    let server = Server::start();
    let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut client, "bob", "PX 60000 START 1");
    queue_up(&mut client, "bob", "PX 60000 START 7"); // the place is kept, with the latest number
    client.ask::<()>("LOCK.RELEASE k alice");
    let told = started(&mut mail);
    assert_eq!((told.lasts, told.slot, told.number, told.owner.as_str()), (5000, 0, 7, "bob"));
    let held = client.holder("k").unwrap();
    assert!(held.fence == told.fence && held.holds == 1 && is_left_of(5000, &held), "{held:?}");
    wait_for("the place to be gone", || client.info("lock", "lock_places") == "0");
    assert_eq!(client.ask::<i64>("LOCK.LEAVE k bob"), 0);
    assert_eq!(client.ask::<i64>(&format!("LOCK.RELEASE k bob FENCE {}", told.fence)), 0);
    assert!(client.holder("k").is_none());
}

#[test]
fn an_extension_sets_the_whole_lease() {
    let server = Server::start();
    let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut client, "bob", "PX 60000 START 1");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = started(&mut mail).fence;
    assert_eq!(client.ask::<i64>(&format!("LOCK.EXTEND k bob PX 60000 FENCE {fence}")), 60_000);
    let again = grant(ask(&mut client, "bob", "PX 60000 START 2")).unwrap();
    assert_eq!((again.fence, again.holds), (fence, 1));
}

#[test]
fn it_says_how_long_the_grant_lasts_and_its_number() {
    // Room, what the place asks for, what the message says.
    let cases = [
        ("", "PX 2000", 2000, 0),
        ("SHARED", "PX 60000 SHARED", 5000, 0),
        ("LIMIT 2", "PX 60000 LIMIT 2", 5000, 2),
    ];
    for (held, asked, lasts, slot) in cases {
        let server = Server::start();
        let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
        let all = if held == "SHARED" { "" } else { held }; // readers wait for a writer
        client.acquire("k", &format!("OWNER alice {all}")).unwrap();
        if slot > 0 {
            client.acquire("k", &format!("OWNER carol {all}")).unwrap();
        }
        queue_up(&mut client, "bob", &format!("{asked} START 1"));
        client.ask::<()>(if slot > 0 { "LOCK.RELEASE k carol" } else { "LOCK.RELEASE k alice" });
        let told = started(&mut mail);
        assert_eq!((told.lasts, told.slot), (lasts, slot), "{asked}");
    }
}

/// The setting comes after the place was taken.
#[test]
fn a_setting_may_allow_less_than_the_time_to_claim() {
    let server = Server::start();
    let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut client, "bob", "PX 60000 START 1");
    for setting in ["lock.default-lease", "lock.max-lease"] {
        client.ask::<()>(&format!("CONFIG SET {setting} 3000"));
    }
    client.ask::<()>("LOCK.RELEASE k alice");
    assert_eq!(started(&mut mail).lasts, 3000);
}

#[test]
fn it_outlives_the_connection_and_lapses_if_nobody_extends_it() {
    let server = Setup::new().module_args("claim 1500").start();
    let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
    client.acquire("k", "OWNER alice").unwrap();
    let mut asking = server.client();
    queue_up(&mut asking, "bob", "PX 60000 START 1");
    let mut carol = Waiter::new(&server, "k", "OWNER carol PX 60000");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = started(&mut mail).fence;
    let id: i64 = asking.ask("CLIENT ID");
    client.ask::<i64>(&format!("CLIENT KILL ID {id}"));
    // Of what its connection kept alive, nothing would be left by now.
    wait_for("the connection to be gone", || {
        !client.ask::<String>("CLIENT LIST").contains(&format!("id={id} "))
    });
    for _ in 0..20 {
        client.ask::<String>("PING");
    }
    assert_eq!(client.holder("k").unwrap().fence, fence);
    assert_eq!(mail.next(), format!("lost {fence} bob"));
    assert!(grant(carol.client.finish().unwrap()).unwrap().fence > fence);
}

#[test]
fn nobody_hears_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut client, "bob", "PX 60000 START 1");
    client.ask::<()>("LOCK.RELEASE k alice");
    wait_for("the grant to be taken back", || client.holder("k").is_none());
    assert_eq!(client.info("lock", "lock_places"), "0");
}

#[test]
fn its_holder_hears_that_it_is_lost() {
    let server = Server::start();
    let (mut client, mut mail) = (server.client(), Mailbox::of(&server, "ch"));
    client.acquire("k", "OWNER alice").unwrap();
    queue_up(&mut client, "bob", "PX 60000 START 1 WANTED");
    queue_up(&mut client, "carol", "PX 60000 START 1");
    client.ask::<()>("LOCK.RELEASE k alice");
    let fence = started(&mut mail).fence;
    assert_eq!(mail.next(), format!("wanted {fence} bob"));
    client.ask::<i64>("LOCK.BREAK k");
    let told = [mail.next(), mail.next()];
    assert!(told.contains(&format!("lost {fence} bob")), "{told:?}");
    assert!(
        told.iter().any(|message| message.starts_with("start ") && message.ends_with(" carol")),
        "{told:?}"
    );
}

#[test]
fn what_it_can_not_be_said_with() {
    let server = Server::start();
    let (mut client, _mail) = (server.client(), Mailbox::of(&server, "ch"));
    for (command, error) in [
        ("LOCK.ACQUIRE k OWNER bob BLOCK 0 START 1 ONCE", "ERR syntax error"),
        ("LOCK.ACQUIRE k OWNER bob BLOCK 0 NOTIFY ch START 1 ONCE SESSION", "ERR syntax error"),
        ("LOCK.ACQUIRE k OWNER bob BLOCK 0 NOTIFY ch START 1 ONCE SYNC 1 100", "ERR syntax error"),
        ("LOCK.MACQUIRE 1 k OWNER bob BLOCK 0 NOTIFY ch START 1 ONCE", "ERR syntax error"),
        ("LOCK.ACQUIRE k OWNER bob BLOCK 0 NOTIFY ch ONCE START", "ERR syntax error"),
        (
            "LOCK.ACQUIRE k OWNER bob BLOCK 0 NOTIFY ch START 0 ONCE",
            "ERR value is out of range, must be positive",
        ),
        (
            "LOCK.ACQUIRE k OWNER bob BLOCK 0 NOTIFY ch START x ONCE",
            "ERR value is not an integer or out of range",
        ),
    ] {
        let said = client.send(command).unwrap_err();
        assert!(said.to_string().contains(error.trim_start_matches("ERR ")), "{command}: {said}");
    }
    assert!(client.holder("k").is_none());
}
