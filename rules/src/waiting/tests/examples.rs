//! Examples with hundreds of holders or places, for which a scene would be too long.

use std::num::NonZeroU32;

use super::server::{AT, Reply, Rules, Server, Writes, at, time};
use crate::lock::{AcquireRequest, Deadline, Millis, Owner, Room};
use crate::waiting::{Channel, Confirm, LockRef, Message, MessageKind, WaitOptions};

const NOW: Millis = 1_700_000_000_000;

/// The client is blocked, and waits without limit.
const BLOCKED: WaitOptions = WaitOptions { timeout: Some(0), channel: None, detect: false, confirm: None };

fn name(owner: &str) -> Owner<'static> {
    Owner::new(owner.as_bytes()).unwrap().into_owned()
}

fn ask(owner: &str, lease: Millis, session: bool) -> AcquireRequest<'static> {
    AcquireRequest { session, ..AcquireRequest::new(name(owner), lease) }
}

fn read(owner: &str, lease: Millis) -> AcquireRequest<'static> {
    AcquireRequest { room: Room::ANY, ..ask(owner, lease, false) }
}

fn place() -> WaitOptions {
    let channel = Some(Channel { address: b"a".as_slice().into(), wanted: false, start: None });
    WaitOptions { channel, ..BLOCKED }
}

/// Returns a server with a lock that has this many holders, all with sessions on connection 0.
fn shared_by(holders: usize, lease: Millis) -> Server {
    let mut server = Server::new(2);
    for number in 0..holders {
        let ask = AcquireRequest { session: true, ..read(&format!("reader-{number}"), lease) };
        let reply = server.acquire_on(Rules::PLAIN, NOW, 0, 0, &ask, &WaitOptions::default());
        assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
    }
    server
}

/// Commands that settle a lock do not delay the renewals of its sessions.
#[test]
fn all_sessions_are_renewed_in_time_beside_commands() {
    let mut server = shared_by(3, 300);
    for now in (NOW..NOW + 1_000).step_by(10) {
        server.acquire_on(Rules::PLAIN, now, 1, 0, &ask("writer", 100, false), &WaitOptions::default());
        server.run_all_due(Rules::PLAIN, now);
        assert_eq!(server.holders(now).len(), 3, "{}", now - NOW);
    }
}

/// A client re-enters while more waiters fit than its step serves. Its reply must be about its own grant, not another one made in the step.
#[test]
fn a_reply_is_about_the_grant_of_its_client() {
    let rules = Rules { slow: true, ..Rules::PLAIN };
    let mut server = Server::new(7);
    server.acquire_on(rules, NOW, 0, 0, &ask("writer", 900, false), &WaitOptions::default());
    for conn in 1..6 {
        server.acquire_on(rules, NOW, conn, 0, &read(&conn.to_string(), 900), &BLOCKED);
    }
    server.release(rules, NOW, &name("writer"), None, false);
    let again = AcquireRequest { once: true, ..read("1", 900) };
    let reply = server.acquire_on(rules, NOW, 6, 0, &again, &WaitOptions::default());
    let own = server.fence_of(0, &name("1"), NOW);
    assert!(matches!(reply, Reply::Granted { fence, .. } if Some(fence) == own), "{reply:?}");
}

/// All steps of a turn share one budget. Here, two steps use it up.
#[test]
fn a_turn_ends_when_its_steps_have_used_up_its_budget() {
    let mut server = Server::new(4);
    for (lock, conn) in (0..3).zip(1..) {
        for number in 0..1_200 {
            let brief = read(&format!("{number}"), 1);
            server.acquire_on(Rules::PLAIN, NOW, 0, lock, &brief, &WaitOptions::default());
        }
        let reply =
            server.acquire_on(Rules::PLAIN, NOW, conn, lock, &read("long", 9), &WaitOptions::default());
        assert!(matches!(reply, Reply::Granted { .. }));
        server.acquire_on(Rules::PLAIN, NOW, conn, lock, &ask("a", 9, false), &BLOCKED);
    }
    server.run_due(Rules::PLAIN, NOW + 2, Writes::Taken);
    assert_eq!([0, 1, 2].map(|lock| server.all_held_of(lock).len()), [1, 1, 1_201]);
}

/// Whether `DETECT` finds a cycle through the last holder of the second lock, if both locks have this many holders.
fn is_found(holders: u32) -> bool {
    let rules = Rules::PLAIN;
    let mut server = Server::new(3);
    for lock in [0, 1] {
        for number in 0..holders {
            let reader = read(&format!("{lock} {number}"), 1_000);
            server.acquire_on(rules, NOW, 0, lock, &reader, &WaitOptions::default());
        }
    }
    server.acquire_on(rules, NOW, 1, 2, &ask("a", 1_000, false), &WaitOptions::default());
    let last = ask(&format!("1 {}", holders - 1), 1_000, false);
    assert_eq!(server.acquire_on(rules, NOW, 2, 2, &last, &BLOCKED), Reply::Waits);
    let detect = WaitOptions { detect: true, ..BLOCKED };
    match server.acquire_all(rules, NOW, 1, &[0, 1], &ask("a", 1_000, false), &detect) {
        Reply::Cycle(_) => true,
        reply => {
            assert_eq!(reply, Reply::Waits);
            false
        }
    }
}

/// The bound is a thousand holders, waiters and locks. Waits beyond the bound count as able to end.
#[test]
fn detect_looks_no_further_than_its_bound() {
    assert!(is_found(10) && is_found(499));
    assert!(!is_found(501) && !is_found(1_200));
}

/// The owner has a hundred places ahead of the upgrade, each also for another lock. The upgrade goes ahead of these places, and is granted
/// as soon as its owner is the only holder.
#[test]
fn an_upgrade_behind_many_places_of_its_owner_is_granted() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = Server::new(3);
    let place = place();
    for (conn, owner) in [(0, "a"), (1, "b")] {
        server.acquire_on(rules, NOW, conn, 0, &read(owner, 1_000), &WaitOptions::default());
    }
    server.acquire_on(rules, NOW, 2, 1, &ask("other", 1_000, false), &WaitOptions::default());
    for _ in 0..100 {
        assert_eq!(server.acquire_all(rules, NOW, 0, &[0, 1], &read("a", 1_000), &place), Reply::Queued);
    }
    assert_eq!(server.acquire_on(rules, NOW, 0, 0, &ask("a", 1_000, false), &place), Reply::Queued);
    server.release(rules, NOW, &name("b"), None, false);
    for _ in 0..10 {
        server.run_due(rules, NOW, Writes::Taken);
    }
    assert_eq!(server.held(NOW).unwrap().grant.room(), Room::ONE);
    assert!(server.next_due().is_none_or(|at| at > NOW), "something is due for ever");
}

/// Each turn does only one piece of work here, and something is always due at once.
#[test]
fn a_turn_goes_on_where_the_last_one_stopped() {
    let rules = Rules { slow: true, ..Rules::PLAIN };
    let mut server = Server::new(4);
    let blocked = |timeout| WaitOptions { timeout: Some(timeout), ..BLOCKED };
    for (conn, lock, timeout) in [(1, 0, 3), (2, 1, 6), (3, 2, 0)] {
        server.acquire_on(rules, NOW, 0, lock, &ask("holder", 1_000, false), &WaitOptions::default());
        server.acquire_on(rules, NOW, conn, lock, &ask("a", 1_000, false), &blocked(timeout));
    }
    for (now, conn) in [(NOW + 4, 1), (NOW + 7, 2)] {
        let mut told = Vec::new();
        // There are six kinds of work: one of the first six turns ends the wait, and one of the next six answers the client.
        for _ in 0..12 {
            server.touch(2);
            told.extend(server.run_due(rules, now, Writes::Taken));
        }
        assert_eq!(told, [(conn, Reply::Null)]);
    }
}

/// Places of one owner are granted a lock together, and one command claims them all, so only a few are granted at once. Here, a reader holds
/// the lock, too, and a writer waits ahead of the other places.
#[test]
fn one_claim_is_that_of_a_few_places() {
    let rules = Rules { claim: 100, ..Rules::PLAIN };
    let mut server = Server::new(3);
    let (a, b) = (ask("a", 1_000, false), read("b", 1_000));
    server.acquire_on(rules, NOW, 0, 0, &a, &WaitOptions::default());
    let place = place();
    server.acquire_on(rules, NOW, 1, 0, &read("reader", 1_000), &BLOCKED);
    server.acquire_on(rules, NOW, 0, 0, &b, &place);
    server.acquire_on(rules, NOW, 2, 0, &ask("writer", 1_000, false), &BLOCKED);
    (1..40).for_each(|_| _ = server.acquire_on(rules, NOW, 0, 0, &b, &place));
    server.release(rules, NOW, &a.owner, None, true);
    server.run_all_due(rules, NOW);
    assert_eq!(server.asks().len(), 1 + 8);
    let claim = AcquireRequest { once: true, ..b };
    server.acquire_on(rules, NOW, 0, 0, &claim, &WaitOptions::default());
    server.run_all_due(rules, NOW);
    assert_eq!(server.asks().len(), 1);
}

/// A place for two locks may not re-enter one of them before its owner has claimed others. Then it is tried.
#[test]
fn a_place_for_several_locks_waits_for_claims() {
    let (rules, mut server) = (Rules { claim: 100, ..Rules::PLAIN }, Server::new(1));
    let (a, b) = (ask("a", 1_000, false), ask("b", 1_000, false));
    for lock in [0, 1] {
        server.acquire_on(rules, NOW, 0, lock, &a, &WaitOptions::default());
    }
    (0..32).for_each(|_| _ = server.acquire_on(rules, NOW, 0, 0, &b, &place()));
    server.acquire_all(rules, NOW, 0, &[1, 0], &b, &place());
    server.release_all(rules, NOW, &[0], &a.owner, true);
    server.release_all(rules, NOW, &[1], &a.owner, true);
    server.run_all_due(rules, NOW);
    assert_eq!(server.asks().len(), 1);
    let claim = AcquireRequest { once: true, ..b };
    server.acquire_on(rules, NOW, 0, 0, &claim, &WaitOptions::default());
    server.run_all_due(rules, NOW);
    assert!(server.asks().is_empty());
}

/// A writer has released its lock, for which three readers wait, and the budget was enough for one of them. A refused release wakes nobody,
/// but the lock is still due to be looked at.
#[test]
fn a_refused_release_loses_no_look() {
    let (rules, mut server) = (Rules { slow: true, ..Rules::PLAIN }, Server::new(5));
    server.acquire_on(rules, NOW, 0, 0, &ask("a", 1_000, false), &WaitOptions::default());
    for (conn, who) in [(1, "b"), (2, "c"), (3, "d")] {
        server.acquire_on(rules, NOW, conn, 0, &read(who, 1_000), &BLOCKED);
    }
    server.release(rules, NOW, &name("a"), None, false);
    assert_eq!(server.release(rules, NOW, &name("x"), None, false), None);
    server.run_all_due(rules, NOW);
    assert!(server.asks().is_empty());
}

/// The clock may be set back to before the end of a pause. Once the pause is over, it must not delay anything, even at such a time.
#[test]
fn a_pause_that_is_over_delays_nothing() {
    let (rules, mut server) = (Rules::PLAIN, Server::new(2));
    server.run_due(rules, NOW, Writes::Paused);
    server.run_due(rules, NOW + 1, Writes::Taken);
    let now = NOW - 1_000;
    server.acquire_on(rules, now, 0, 0, &ask("a", 1_000, false), &WaitOptions::default());
    server.acquire_on(rules, now, 1, 0, &ask("b", 1_000, false), &BLOCKED);
    server.delete(0);
    assert!(server.next_due().is_some_and(|due| due <= now));
}

/// Clients are paused: nothing is tried before the pause is over, and what became due is done then, at once.
#[test]
fn what_is_due_waits_for_the_end_of_a_pause() {
    let (rules, mut server) = (Rules::PLAIN, Server::new(2));
    server.acquire_on(rules, NOW, 0, 0, &ask("a", 300, true), &WaitOptions::default());
    server.acquire_on(rules, NOW, 0, 1, &ask("h", 1_000, false), &WaitOptions::default());
    server.acquire_all(rules, NOW, 1, &[1, 2], &ask("b", 1_000, false), &BLOCKED);
    server.release_all(rules, NOW, &[1], &name("h"), false);
    server.run_due(rules, NOW + 100, Writes::Paused);
    assert_eq!(server.next_due(), Some(NOW + 101));
    server.run_due(rules, NOW + 101, Writes::Taken);
    assert_eq!(server.held(NOW).unwrap().deadline, Deadline::At(NOW + 401));
    assert_eq!(server.all_held_of(2).len(), 1);
}

/// A grace ends early, because of a new value of the setting. The look at which the server finds this is made, although another client begins
/// to wait before.
#[test]
fn a_newcomer_puts_off_no_look() {
    let (mut rules, mut server) = (Rules { grace: 1_000, ..Rules::PLAIN }, Server::new(3));
    server.acquire_on(rules, NOW, 0, 0, &read("a", 1_000), &WaitOptions::default());
    server.promote(NOW);
    server.acquire_on(rules, NOW, 1, 0, &read("b", 1_000), &BLOCKED);
    rules.grace = 0;
    server.acquire_on(rules, NOW, 2, 0, &read("c", 1_000), &BLOCKED);
    server.run_all_due(rules, NOW + 100);
    assert!(server.asks().is_empty());
}

/// An upgrade goes ahead of the queue, and is shown so.
#[test]
fn a_queue_is_shown_in_the_order_in_which_it_is_served() {
    let mut server = Server::new(4);
    let asks = [read("a", 1_000), read("b", 1_000), ask("c", 1_000, false), ask("a", 1_000, false)];
    for (conn, ask) in (0..).zip(&asks) {
        server.acquire_on(Rules::PLAIN, NOW, conn, 0, ask, &BLOCKED);
    }
    let shown = server.table.queue_of(at(0), 9, time(NOW));
    let owners: Vec<_> = shown.into_iter().map(|waiter| waiter.owner).collect();
    assert_eq!(owners, [name("a"), name("c")]);
}

/// A lease ends beside one that a session renews, and a timer ends its grant at once, not when the session is renewed.
#[test]
fn a_lapse_beside_a_session_is_noticed_at_once() {
    let mut server = shared_by(1, 1_000);
    server.acquire_on(Rules::PLAIN, NOW, 1, 0, &read("brief", 100), &WaitOptions::default());
    server.run_all_due(Rules::PLAIN, NOW + 101);
    assert_eq!(server.all_held().len(), 1);
}

/// The server swaps databases: the hold of a client that has not been told of it is taken back where the lock is then; also that of a client
/// that has gone away, if the server has refused to look at the lock. That of a client that an operator had told of it stays.
#[test]
fn a_hold_to_take_back_follows_its_lock() {
    let rules = Rules { late: true, ..Rules::PLAIN };
    for (gone, told, replicas) in
        [(true, false, None), (false, false, None), (false, false, NonZeroU32::new(1)), (false, true, None)]
    {
        let mut server = Server::new(2);
        let confirm = replicas.map(|replicas| Confirm { replicas, within: 100 });
        server.acquire_on(rules, NOW, 0, 0, &ask("a", 1_000, false), &WaitOptions::default());
        let waits = WaitOptions { confirm, ..BLOCKED };
        server.acquire_on(rules, NOW, 1, 0, &ask("b", 1_000, false), &waits);
        server.release(rules, NOW, &name("a"), None, false);
        if gone {
            server.close(rules, NOW, 1);
            server.run_due(rules, NOW, Writes::Refused);
        } else if told {
            server.unblock(rules, NOW, 1, false);
        }
        server.table.swapped(0, 1, NOW);
        let is_unsettled = server.table.is_unsettled(LockRef { db: 1, ..AT });
        assert_eq!(is_unsettled, !told, "{gone} {replicas:?}");
    }
}

/// A lock's hash slot is moving to this server, which so far has its key, but no connection that keeps a grant alive: holders and places are
/// sent away.
#[test]
fn who_has_no_session_is_sent_away_from_a_slot_that_arrives() {
    let (rules, mut server) = (Rules::PLAIN, Server::new(1));
    let listens = WaitOptions { timeout: None, ..place() };
    server.acquire_on(rules, NOW, 0, 0, &read("holder", 1_000), &listens);
    server.acquire_on(rules, NOW, 0, 0, &ask("waiter", 1_000, false), &place());
    server.touch(0);
    server.run_due(rules, NOW, Writes::Arriving);
    let told = server.messages.iter().map(|message| (message.kind, message.owner.clone()));
    assert_eq!(told.collect::<Vec<_>>(), ["waiter", "holder"].map(|who| (MessageKind::Gone, name(who))));
}

/// A place for two locks has been granted them, and one of them moves to another server before the place is told: it has neither.
#[test]
fn a_place_whose_lock_moves_away_has_nothing() {
    let (rules, mut server) = (Rules { slow: true, claim: 100, ..Rules::PLAIN }, Server::new(3));
    server.acquire_all(rules, NOW, 0, &[0, 1, 2], &ask("holder", 1_000, false), &WaitOptions::default());
    server.acquire_on(rules, NOW, 1, 2, &ask("told first", 1_000, false), &BLOCKED);
    server.acquire_all(rules, NOW, 2, &[0, 1], &ask("a", 1_000, false), &place());
    server.release_all(rules, NOW, &[0, 1, 2], &name("holder"), true);
    server.run_due(rules, NOW, Writes::Taken);
    assert_eq!(server.all_held().len(), 1);
    server.touch(0);
    for _ in 0..6 {
        server.run_due(rules, NOW, Writes::Elsewhere);
        server.check();
    }
    assert!(matches!(&server.messages[..], [Message { kind: MessageKind::Gone, .. }]));
}

/// A try finds a place whose connection has closed, and which was to be tried, too.
#[test]
fn a_place_that_is_gone_is_tried_no_more() {
    let (rules, mut server) = (Rules { slow: true, ..Rules::PLAIN }, Server::new(4));
    for (lock, who) in [(1, "l"), (2, "m")] {
        server.acquire_on(rules, NOW, 0, lock, &ask(who, 1_000, false), &WaitOptions::default());
    }
    server.acquire_all(rules, NOW, 2, &[2, 0], &ask("a", 1_000, false), &BLOCKED);
    server.acquire_all(rules, NOW, 1, &[1, 0], &ask("gone", 1_000, false), &place());
    server.acquire_on(rules, NOW, 1, 2, &ask("given up first", 1_000, false), &place());
    server.release_all(rules, NOW, &[2], &name("m"), true);
    server.release_all(rules, NOW, &[1], &name("l"), true);
    // After this look, a turn begins with tries.
    server.touch(2);
    server.run_due(rules, NOW, Writes::Taken);
    server.close(rules, NOW, 1);
    server.run_due(rules, NOW, Writes::Taken);
    assert!(server.fence_of(0, &name("a"), NOW).is_some());
    server.check();
}

/// Waiters that are dropped are paid for by all of their locks, so one step drops only some of them.
#[test]
fn who_is_dropped_is_paid_for() {
    for overwritten in [true, false] {
        let (rules, mut server) = (Rules::PLAIN, Server::new(2));
        server.acquire_all(rules, NOW, 0, &[0, 1, 2], &ask("a", 1_000, false), &WaitOptions::default());
        for _ in 0..300 {
            server.acquire_all(rules, NOW, 1, &[0, 1, 2], &ask("b", 1_000, false), &place());
        }
        server.expire(rules, NOW);
        if overwritten {
            server.overwrite_one(0);
        } else {
            server.touch(0);
            server.run_due(rules, NOW, Writes::Elsewhere);
        }
        let dropped = 300 - server.asks().len();
        assert!((1..300).contains(&dropped) && server.table.budget.most() as usize >= dropped * 3 * 4);
    }
}

/// Holders are to be told that somebody waits, but nobody does any more. A turn that finds this out for some holders leaves the others to the
/// next one.
#[test]
fn notices_that_are_out_of_date_are_paid_for() {
    let (rules, mut server) = (Rules::PLAIN, Server::new(2));
    let channel = Channel { address: b"a".as_slice().into(), wanted: true, start: None };
    let listens = WaitOptions { timeout: None, channel: Some(channel), detect: false, confirm: None };
    for number in 0..1_500 {
        server.acquire_on(rules, NOW, 0, 0, &read(&number.to_string(), 1_000), &listens);
    }
    server.acquire_on(rules, NOW, 1, 0, &ask("writer", 1_000, false), &place());
    server.leave_on(rules, NOW, 0, &name("writer"));
    assert_eq!(server.unsent(), 1_500);
    server.run_due(rules, NOW, Writes::Taken);
    // That many changes are the budget of a turn. No notice makes the server look at all holders again.
    assert!((1..=1_100).contains(&server.unsent()), "{}", server.unsent());
    server.run_all_due(rules, NOW);
    assert_eq!(server.unsent(), 0);
}
