//! Histories made by hand, good ones and bad ones.

use super::check::check;
use super::record::{Call, Micros, Record, Reply, Room, Shown, read, write};

pub(super) fn record(client: i64, sent: Micros, received: Micros, call: Call, reply: Reply) -> Record {
    Record { client, sent, received: Some(received), key: "k".into(), with: Vec::new(), call, reply }
}

/// For 1 ms.
pub(super) fn acquire(owner: &str, block: Option<i64>) -> Call {
    acquire_for(owner, block, 1, Room::Plain)
}

pub(super) fn acquire_for(owner: &str, block: Option<i64>, lease: i64, room: Room) -> Call {
    Call::Acquire {
        owner: owner.into(),
        lease,
        block,
        once: false,
        session: false,
        max_hold: None,
        room,
        slot: None,
    }
}

/// With a lease of 1 ms.
pub(super) fn granted(fence: i64) -> Reply {
    Reply::Granted { fence, holds: 1, lease: 1, slot: None }
}

pub(super) fn release(owner: &str) -> Call {
    Call::Release { owner: owner.into(), all: false }
}

fn look(owner: &str, fence: i64, queue: &[i64]) -> Reply {
    look_at(&[(owner, fence, 1)], queue)
}

/// Each holder with its fence, and how many it bears, itself included.
pub(super) fn look_at(grants: &[(&str, i64, i64)], queue: &[i64]) -> Reply {
    let shown =
        |&(owner, fence, most): &(&str, i64, i64)| Shown { owner: owner.into(), fence, most, slot: 0 };
    Reply::Held { grants: grants.iter().map(shown).collect(), queue: queue.into() }
}

fn in_a_session(owner: &str, lease: i64, max_hold: Option<i64>) -> Call {
    let (owner, room) = (owner.into(), Room::Plain);
    Call::Acquire { owner, lease, block: None, once: false, session: true, max_hold, room, slot: None }
}

/// The guarantees that a history contradicts.
#[track_caller]
pub(super) fn broken(history: &[Record]) -> String {
    let (faults, _) = check(history);
    faults.iter().filter_map(|fault| fault.chars().next()).collect()
}

/// a holds the lock; c stands in the queue when d comes; a gives it back.
fn story() -> Vec<Record> {
    vec![
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        record(3, 1200, 1510, acquire("c", Some(0)), granted(1500)),
        record(9, 1300, 1310, Call::Info, look("a", 1050, &[3])),
        record(4, 1320, 1710, acquire("d", Some(0)), granted(1700)),
        record(1, 1450, 1550, release("a"), Reply::Number(0)),
        record(3, 1650, 1750, release("c"), Reply::Number(0)),
    ]
}

#[test]
fn a_good_history() {
    assert_eq!(broken(&story()), "");
    let (_, figures) = check(&story());
    assert_eq!((figures.records, figures.grants, figures.holds, figures.queued), (6, 3, 3, 1));
}

#[test]
fn a_history_comes_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    write(&path, &story()).unwrap();
    assert_eq!(read(&path).unwrap(), story());
}

#[test]
fn two_inside_their_leases() {
    let mut history = story();
    // c has it before a gives it back.
    history[1] = record(3, 1200, 1400, acquire("c", Some(0)), granted(1390));
    history[4].reply = Reply::Refused("NOTHELD".into());
    assert_eq!(broken(&history), "1");
    // Where a's lease is over at the same time, there is nothing wrong with it.
    let first = std::mem::replace(&mut history[0], record(1, 300, 400, acquire("a", None), granted(350)));
    assert_eq!(broken(&history), "");
    // Nor where an operator broke it.
    history[0] = first;
    history.push(record(8, 1380, 1395, Call::Break, Reply::Number(1)));
    assert_eq!(broken(&history), "");
}

#[test]
fn an_extension_counts() {
    let extend = Call::Extend { owner: "a".into(), lease: 6 };
    let mut history = vec![
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        record(1, 1900, 1950, extend, Reply::Number(6)),
        record(2, 2500, 2600, acquire("b", None), granted(2550)),
    ];
    assert_eq!(broken(&history), "1");
    history[1].reply = Reply::Refused("NOTHELD".into());
    assert_eq!(broken(&history), "");
}

#[test]
fn fences_that_do_not_rise() {
    let mut history = story();
    history[3] = record(4, 1800, 1900, acquire("d", None), granted(1500));
    assert_eq!(broken(&history), "222");
    history[3] = record(4, 1800, 1900, acquire("d", None), granted(1400));
    assert_eq!(broken(&history), "24");
}

#[test]
fn a_release_by_a_stranger() {
    let mut history = story();
    history.push(record(7, 1200, 1300, release("z"), Reply::Number(0)));
    assert_eq!(broken(&history), "3");
    history.pop();
    history.push(record(7, 1200, 1300, release("z"), Reply::Refused("NOTHELD".into())));
    assert_eq!(broken(&history), "");
}

#[test]
fn out_of_turn() {
    let mut history = story();
    history[1] = record(3, 1200, 1760, acquire("c", Some(0)), granted(1755));
    history[5] = record(4, 1720, 1730, release("d"), Reply::Number(0));
    assert_eq!(broken(&history), "4", "d before c");
    // Nobody saw that c was in the queue first.
    history[2].reply = look("a", 1050, &[]);
    assert_eq!(broken(&history), "");
}

/// a's lease ends at 2.1 ms at the latest, c waits, and the server is at work.
fn free_with_a_queue() -> Vec<Record> {
    vec![
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        record(3, 1200, 1_500_010, acquire("c", Some(0)), granted(1_500_000)),
        record(9, 2250, 2300, Call::Info, Reply::Null),
        record(9, 1_010_000, 1_010_100, Call::Info, Reply::Null),
    ]
}

#[test]
fn a_free_lock_that_nobody_gets() {
    assert_eq!(broken(&free_with_a_queue()), "5");
    // There is nothing wrong with it where c came later,
    let mut history = free_with_a_queue();
    history[1].sent = 1_005_000;
    assert_eq!(broken(&history), "");
    // the server stood still,
    for turn in [2, 3] {
        let mut history = free_with_a_queue();
        history.remove(turn);
        assert_eq!(broken(&history), "");
    }
    // a has a longer lease,
    let mut history = free_with_a_queue();
    let extend = Call::Extend { owner: "a".into(), lease: 1490 };
    history.push(record(1, 1500, 1600, extend, Reply::Number(1490)));
    assert_eq!(broken(&history), "LL", "shown as free");
    for turn in [2, 3] {
        history[turn].reply = look("a", 1050, &[3]);
    }
    assert_eq!(broken(&history), "");
    // unless a gives it back,
    history.push(record(1, 1700, 1800, release("a"), Reply::Number(0)));
    assert_eq!(broken(&history), "5");
    // somebody else may have been granted it,
    let mut history = free_with_a_queue();
    history.push(Record { received: None, ..record(2, 1300, 0, acquire("b", None), Reply::Gone) });
    assert_eq!(broken(&history), "");
    // or c does not wait, being in a transaction.
    let mut history = free_with_a_queue();
    history[1].reply = Reply::Null;
    assert_eq!(broken(&history), "");
}

#[test]
fn a_session_that_nobody_ends() {
    let mut history = free_with_a_queue();
    history[0].call = in_a_session("a", 1, None);
    assert_eq!(broken(&history), "", "a keeps it");
    history.push(Record { key: String::new(), ..record(1, 1900, 2000, Call::Close, Reply::Gone) });
    assert_eq!(broken(&history), "5");
}

#[test]
fn a_grant_to_one_whose_time_was_up() {
    let mut history = free_with_a_queue();
    history[0].call = acquire_for("a", None, 1490, Room::Plain);
    assert_eq!(broken(&history), "");
    history[1].call = acquire("c", Some(1));
    assert_eq!(broken(&history), "5");
}

#[test]
fn a_waiter_that_is_left() {
    let mut history = story();
    history.push(Record { received: None, ..record(5, 1800, 0, acquire("e", Some(0)), Reply::Waits) });
    assert_eq!(broken(&history), "5");
}

#[test]
fn a_grant_to_the_dead() {
    let mut history = story();
    history.push(Record { received: None, ..record(5, 1350, 0, acquire("e", Some(0)), Reply::Gone) });
    history.push(record(9, 1360, 1370, Call::Kill(5), Reply::Number(1)));
    assert_eq!(broken(&history), "");
    history.push(record(9, 2900, 2910, Call::Info, look("e", 2800, &[])));
    assert_eq!(broken(&history), "6");
}

#[test]
fn a_grant_to_one_who_dies_in_the_same_step() {
    let mut history = vec![
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        Record { received: None, ..record(5, 1150, 0, acquire("e", Some(0)), Reply::Gone) },
        record(1, 1200, 1300, Call::Info, look("a", 1050, &[5])),
        record(1, 1200, 1300, release("a"), Reply::Number(0)),
        record(1, 1200, 1300, Call::Kill(5), Reply::Number(1)),
        record(9, 1310, 1320, Call::Info, look("e", 1250, &[])),
        record(9, 6400, 6500, Call::Info, Reply::Null),
    ];
    assert_eq!(broken(&history), "", "seen for a moment");
    history.push(record(9, 6600, 6700, Call::Info, look("e", 1250, &[])));
    assert_eq!(broken(&history), "6");
    // It may have been told where nobody saw that it waited.
    history[2].reply = look("a", 1050, &[]);
    assert_eq!(broken(&history), "");
}

#[test]
fn beyond_the_greatest_age() {
    let limited = in_a_session("a", 50, Some(20));
    let granted = |lease| Reply::Granted { fence: 1050, holds: 1, lease, slot: None };
    let extend = Call::Extend { owner: "a".into(), lease: 50 };
    let good = [
        record(1, 1000, 1100, limited, granted(20)),
        record(1, 8000, 8100, extend, Reply::Number(13)),
        record(9, 20_000, 20_100, Call::Info, look("a", 1050, &[])),
    ];
    assert_eq!(broken(&good), "");
    for (place, bad) in [
        (0, Record { reply: granted(50), ..good[0].clone() }),
        (1, Record { reply: Reply::Number(50), ..good[1].clone() }),
        (2, Record { sent: 24_000, ..good[2].clone() }),
    ] {
        let mut history = good.clone();
        history[place] = bad;
        assert_eq!(broken(&history), "M", "{place}");
    }
}
