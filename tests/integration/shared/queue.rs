//! One fair queue over all kinds: who fits comes only where nobody waits in front, and the heads that fit come together.

use super::{gets_null, holds, readers, release, waits};
use crate::support::{Mailbox, Server, Waiter, owners, transaction, wait_for};

#[test]
fn who_fits_waits_behind_who_does_not() {
    let (server, mut client) = Server::and_client();
    readers(&mut client, ["a"]);
    let mut writer = waits(&server, "w", "");
    for options in ["SHARED", "LIMIT 3", ""] {
        gets_null(&mut client, "r", options);
    }
    let mut late = ["r1", "r2"].map(|owner| waits(&server, owner, "SHARED"));
    assert_eq!(owners(&mut client, "k"), ["w", "r1", "r2"]);
    release(&mut client, "a");
    writer.granted();
    assert_eq!(client.holding("k"), ["w"]);
    release(&mut client, "w");
    let fences = late.each_mut().map(|waiter| waiter.granted().fence);
    assert!(fences.is_sorted(), "{fences:?}");
    assert_eq!(client.holding("k"), ["r1", "r2"]);
}

/// The kinds of those who wait, and who of them hold the lock one time after the other, each time that all give it back.
#[track_caller]
fn are_served(kinds: &[&str], turns: &[&[usize]]) {
    let (server, mut client) = Server::and_client();
    holds(&mut client, "first", "");
    let mut waiters: Vec<Waiter> =
        kinds.iter().enumerate().map(|(place, kind)| waits(&server, &place.to_string(), kind)).collect();
    release(&mut client, "first");
    let mut last = 0;
    for turn in turns {
        let names: Vec<_> = turn.iter().map(usize::to_string).collect();
        assert_eq!(client.holding("k"), names, "{kinds:?}");
        for place in *turn {
            let fence = waiters[*place].granted().fence;
            assert!(fence > last, "{kinds:?}: {fence} after {last}");
            last = fence;
        }
        for name in &names {
            assert_eq!(release(&mut client, name), 0);
        }
    }
    assert_eq!(client.holders("k"), [], "{kinds:?}");
}

#[test]
fn the_heads_that_fit_come_together() {
    let (r, w) = ("SHARED", "");
    are_served(&[r, r, w, r, w, w, r, r], &[&[0, 1], &[2], &[3], &[4], &[5], &[6, 7]]);
    are_served(&["LIMIT 3", r, "LIMIT 9", r, "LIMIT 3"], &[&[0, 1, 2], &[3, 4]]);
    are_served(&[r, "LIMIT 2", "LIMIT 2", "LIMIT 2", r], &[&[0, 1], &[2, 3], &[4]]);
    are_served(&["LIMIT 1", r, w], &[&[0], &[1], &[2]]);
    are_served(&[r, "LIMIT 1", r], &[&[0], &[1], &[2]]);
}

/// How one waits in front, and how it goes away.
const WAYS: [(&str, &str); 4] = [
    ("BLOCK 0", "CLIENT KILL ID #"),
    ("BLOCK 0", "CLIENT UNBLOCK # ERROR"),
    ("ONCE BLOCK 0 NOTIFY ch", "LOCK.LEAVE k @"),
    ("ONCE BLOCK 0 NOTIFY ch", "CLIENT KILL ID #"),
];

/// A writer, or one that waits for an upgrade: those behind who fit come in at once.
#[test]
fn those_behind_one_that_goes_away_come_in() {
    let (server, mut client) = Server::and_client();
    let _mail = Mailbox::of(&server, "ch");
    for (owner, (options, way)) in ["w", "a"].into_iter().flat_map(|owner| WAYS.map(|way| (owner, way))) {
        readers(&mut client, ["a", "b"]);
        let mut front = server.client();
        let id: i64 = front.ask("CLIENT ID");
        front.begin(&format!("LOCK.ACQUIRE k OWNER {owner} {options}"));
        wait_for("one in front", || owners(&mut client, "k") == [owner]);
        let mut behind = waits(&server, "r", "SHARED");
        assert_eq!(client.ask::<i64>(&way.replace('#', &id.to_string()).replace('@', owner)), 1);
        behind.granted();
        assert_eq!(client.holding("k"), ["a", "b", "r"], "{owner}: {way}");
        client.ask::<()>("LOCK.BREAK k");
    }
}

/// What a release lets in is there in the same step.
#[test]
fn no_newcomer_slips_in_in_the_step_of_a_release() {
    let (server, mut client) = Server::and_client();
    for line in ["LOCK.RELEASE k b", "LOCK.BREAK k", "DEL k", "PEXPIRE k -1", "FLUSHDB"] {
        holds(&mut client, "b", "LIMIT 2");
        holds(&mut client, "a", "LIMIT 2");
        let mut first = waits(&server, "c", "LIMIT 2");
        let mut second = waits(&server, "d", "LIMIT 2");
        let newcomer = "LOCK.ACQUIRE k OWNER newcomer SHARED";
        let replies = transaction(&mut client, &[line, newcomer]);
        assert_eq!(replies[1], Ok(redis::Value::Nil), "{line}");
        assert_eq!(first.granted().owner, "c", "{line}");
        let left = if line.starts_with("LOCK.RELEASE") { vec!["a", "c"] } else { vec!["c", "d"] };
        assert_eq!(client.holding("k"), left, "{line}");
        if left == ["a", "c"] {
            release(&mut client, "a");
        }
        second.granted();
        client.ask::<()>("FLUSHALL");
    }
}
