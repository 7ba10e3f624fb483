//! One fair queue over all kinds: who fits comes only where nobody waits in front, and the heads that fit come together.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{gets_null, holds, readers, release, waits};
use crate::support::{Client, Server, Waiter, grant, owners, queue, wait_until_gone};

#[test]
fn who_fits_waits_behind_who_does_not() {
    let server = Server::start();
    let mut client = server.client();
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
    let server = Server::start();
    let mut client = server.client();
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

/// Each that gives it back lets in as many as fit then, not more.
#[test]
fn one_goes_and_one_comes() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["a", "b", "c"] {
        holds(&mut client, owner, "LIMIT 3");
    }
    let mut waiters: Vec<_> = (0..6).map(|n| waits(&server, &n.to_string(), "LIMIT 3")).collect();
    let mut holding: Vec<String> = ["a", "b", "c"].map(String::from).into();
    for (place, waiter) in waiters.iter_mut().enumerate() {
        let gone = holding.remove(place % 3);
        assert_eq!(release(&mut client, &gone), 0);
        waiter.granted();
        holding.push(place.to_string());
        assert_eq!(client.holding("k"), holding);
        assert_eq!(queue(&mut client, "k").len(), 5 - place);
    }
}

/// When one goes away who stood in front, those behind who fit come in at once.
#[test]
fn those_behind_one_that_goes_away_come_in() {
    let server = Server::start();
    let mut client = server.client();
    let kill = |client: &mut Client, id| client.ask::<()>(&format!("CLIENT KILL ID {id}"));
    let unblock = |client: &mut Client, id| client.ask::<()>(&format!("CLIENT UNBLOCK {id} TIMEOUT"));
    for leave in [kill, unblock] {
        readers(&mut client, ["a"]);
        let writer = waits(&server, "w", "");
        let mut behind = ["r1", "r2"].map(|owner| waits(&server, owner, "SHARED"));
        let last = waits(&server, "w2", "");
        leave(&mut client, writer.id);
        for waiter in &mut behind {
            waiter.granted();
        }
        assert_eq!(client.holding("k"), ["a", "r1", "r2"]);
        assert_eq!(owners(&mut client, "k"), ["w2"]);
        client.ask::<()>(&format!("CLIENT KILL ID {}", last.id));
        wait_until_gone(&mut client, last.id);
        client.ask::<()>("LOCK.BREAK k");
    }
}

#[test]
fn those_behind_one_whose_time_is_up_come_in() {
    let server = Server::start();
    let mut client = server.client();
    readers(&mut client, ["a"]);
    let mut writer = server.client();
    writer.begin("LOCK.ACQUIRE k OWNER w BLOCK 700");
    crate::support::wait_for("the writer to wait", || owners(&mut client, "k") == ["w"]);
    let mut reader = server.client();
    reader.begin("LOCK.ACQUIRE k OWNER r SHARED PX 600000 BLOCK 600000");
    assert_eq!(writer.finish(), Ok(redis::Value::Nil));
    assert_eq!(grant(reader.finish().unwrap()).unwrap().owner, "r");
    assert_eq!(client.holding("k"), ["a", "r"]);
}

#[test]
fn those_behind_a_place_that_is_left_come_in() {
    let server = Server::start();
    let (mut client, mut asker) = (server.client(), server.client());
    let _mail = crate::support::Mailbox::of(&server, "ch");
    for leave in ["LOCK.LEAVE k w", "close"] {
        readers(&mut client, ["a"]);
        assert_eq!(asker.ask::<String>("LOCK.ACQUIRE k OWNER w ONCE BLOCK 0 NOTIFY ch"), "QUEUED");
        let mut reader = waits(&server, "r", "SHARED");
        if leave == "close" {
            asker = server.client();
        } else {
            assert_eq!(client.ask::<i64>(leave), 1);
        }
        reader.granted();
        client.ask::<()>("LOCK.BREAK k");
    }
    drop(asker);
}

/// Readers come again and again, so that it is hardly ever free of them: each writer gets it nevertheless, in its turn.
#[test]
fn writers_dont_starve_behind_readers_that_keep_coming() {
    const WRITES: usize = 30;
    let server = Server::start();
    let over = AtomicBool::new(false);
    let (over, server) = (&over, &server);
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let mut client = server.client();
                for turn in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    holds(&mut client, &format!("r{number}-{turn}"), "SHARED BLOCK 0");
                    client.ask::<i64>(&format!("LOCK.RELEASE k r{number}-{turn}"));
                }
            });
        }
        let mut client = server.client();
        for turn in 0..WRITES {
            let owner = format!("w{turn}");
            holds(&mut client, &owner, "BLOCK 0");
            assert_eq!(client.holding("k"), [&owner[..]]);
            release(&mut client, &owner);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.client().holders("k"), []);
}

/// The next reader stands in the queue before the one before it is done, time after time: the writer comes in between.
#[test]
fn a_writer_comes_between_readers_that_overlap() {
    let server = Server::start();
    let mut client = server.client();
    for round in 0..20 {
        let [first] = readers(&mut client, ["r0"]);
        let mut writer = waits(&server, "w", "");
        let mut next = waits(&server, "r1", "SHARED");
        release(&mut client, "r0");
        let granted = writer.granted();
        assert!(granted.fence > first.fence && next.is_blocked(&mut client), "round {round}");
        // And no writer that comes now is before the reader.
        let mut last = waits(&server, "w2", "");
        release(&mut client, "w");
        assert_eq!(next.granted().owner, "r1");
        assert!(last.is_blocked(&mut client), "round {round}");
        release(&mut client, "r1");
        last.granted();
        release(&mut client, "w2");
    }
}

/// What a release lets in is there in the same step.
#[test]
fn no_newcomer_slips_in_in_the_step_of_a_release() {
    let server = Server::start();
    let mut client = server.client();
    for line in ["LOCK.RELEASE k b", "LOCK.BREAK k", "DEL k", "PEXPIRE k -1", "FLUSHDB"] {
        holds(&mut client, "b", "LIMIT 2");
        holds(&mut client, "a", "LIMIT 2");
        let mut first = waits(&server, "c", "LIMIT 2");
        let mut second = waits(&server, "d", "LIMIT 2");
        let newcomer = "LOCK.ACQUIRE k OWNER newcomer SHARED";
        let replies = crate::support::transaction(&mut client, &[line, newcomer]);
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

#[test]
fn a_raised_cap_lets_the_next_ones_in() {
    let server = Server::start();
    let mut client = server.client();
    client.ask::<()>("CONFIG SET lock.max-holders 2");
    readers(&mut client, ["a", "b"]);
    let mut waiters = ["c", "d"].map(|owner| waits(&server, owner, "SHARED"));
    client.ask::<()>("CONFIG SET lock.max-holders 1000");
    for waiter in &mut waiters {
        waiter.granted();
    }
}
