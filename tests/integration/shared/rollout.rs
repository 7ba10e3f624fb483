//! A limit that is rolled out client by client, as each says its own.

use super::{gets_null, holds, release, shown, waits};
use crate::support::{Server, owners};

/// Ten may work at a time; then the new version comes, in which it is five.
#[test]
fn from_ten_to_five() {
    let server = Server::start();
    let mut client = server.client();
    let old: Vec<_> = (0..8).map(|number| format!("old{number}")).collect();
    for owner in &old {
        holds(&mut client, owner, "LIMIT 10");
    }
    gets_null(&mut client, "new0", "LIMIT 5");
    let mut first = waits(&server, "new0", "LIMIT 5");
    let mut later = waits(&server, "old8", "LIMIT 10");
    for owner in &old[..3] {
        release(&mut client, owner);
        assert_eq!(owners(&mut client, "k"), ["new0", "old8"]);
    }
    // Four are left: it is the fifth, and bears no sixth.
    release(&mut client, &old[3]);
    first.granted();
    assert_eq!((shown(&mut client, "holders"), shown(&mut client, "limit")), ("5".into(), "5".into()));
    assert_eq!(owners(&mut client, "k"), ["old8"]);
    release(&mut client, &old[4]);
    later.granted();
    for number in 1..4 {
        release(&mut client, &old[4 + number]);
        holds(&mut client, &format!("new{number}"), "LIMIT 5");
        gets_null(&mut client, "old9", "LIMIT 10");
    }
    // Taken back: those of the old limit come in as those of the new one go.
    for number in 0..4 {
        release(&mut client, &format!("new{number}"));
    }
    for number in 0..9 {
        holds(&mut client, &format!("older{number}"), "LIMIT 10");
    }
    gets_null(&mut client, "one-too-many", "LIMIT 10");
    assert_eq!((shown(&mut client, "holders"), shown(&mut client, "limit")), ("10".into(), "10".into()));
}

/// From a plain lock to one that is shared, and back.
#[test]
fn from_alone_to_together() {
    let server = Server::start();
    let mut client = server.client();
    holds(&mut client, "old", "");
    let mut new = ["n1", "n2"].map(|owner| waits(&server, owner, "LIMIT 2"));
    let mut old = waits(&server, "older", "");
    release(&mut client, "old");
    for waiter in &mut new {
        waiter.granted();
    }
    release(&mut client, "n1");
    assert!(old.is_blocked(&mut client));
    release(&mut client, "n2");
    old.granted();
    gets_null(&mut client, "n3", "LIMIT 2");
}
