//! Histories made by hand of locks that were asked for by one command, good ones and bad ones.

use super::check::check;
use super::check_tests::{acquire, acquire_for, broken, granted, look_at, record, release};
use super::record::{Call, Micros, Record, Reply, Room};
use super::several::groups;

/// One command for several locks, and what came of each.
fn all(
    client: i64,
    (sent, received): (Micros, Micros),
    keys: [&str; 2],
    call: Call,
    replies: [Reply; 2],
) -> [Record; 2] {
    let with = keys.map(String::from);
    let of = |key: &str, reply| {
        let call = call.clone();
        Record { key: key.into(), with: with.to_vec(), ..record(client, sent, received, call, reply) }
    };
    let [first, second] = replies;
    [of(keys[0], first), of(keys[1], second)]
}

/// That record, as one of another lock.
fn at(key: &str, record: Record) -> Record {
    Record { key: key.into(), ..record }
}

fn look(key: &str, sent: Micros, grants: &[(&str, i64)], queue: &[i64]) -> Record {
    let grants: Vec<_> = grants.iter().map(|(owner, fence)| (*owner, *fence, 1)).collect();
    at(key, record(9, sent, sent + 10, Call::Info, look_at(&grants, queue)))
}

fn null(key: &str, sent: Micros) -> Record {
    at(key, record(9, sent, sent + 10, Call::Info, Reply::Null))
}

fn both(reply: &Reply) -> [Reply; 2] {
    [reply.clone(), reply.clone()]
}

/// For 10 ms: long enough to be looked at.
fn lasting(owner: &str, block: Option<i64>) -> Call {
    acquire_for(owner, block, 10, Room::Plain)
}

fn grant(fence: i64, holds: i64) -> Reply {
    Reply::Granted { fence, holds, lease: 10, slot: None }
}

/// a holds k; c waits for k and l, and d for l; a gives it back, c gets both, and d gets l when c gives them back.
fn story() -> Vec<Record> {
    let mut history = vec![
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        look("k", 1300, &[("a", 1050)], &[3]),
        look("l", 1300, &[], &[3]),
        at("l", record(4, 1320, 2710, acquire("d", Some(0)), granted(2700))),
        look("k", 1400, &[("a", 1050)], &[3]),
        look("l", 1400, &[], &[3, 4]),
        record(1, 1450, 1550, release("a"), Reply::Number(0)),
        look("k", 1600, &[("c", 1500)], &[]),
        look("l", 1600, &[("c", 1500)], &[4]),
    ];
    history.extend(all(3, (1200, 1650), ["k", "l"], lasting("c", Some(0)), both(&grant(1500, 1))));
    history.extend(all(3, (2600, 2750), ["k", "l"], release("c"), both(&Reply::Number(0))));
    history
}

/// Where each of its records is.
const D: usize = 3;
const LOOK_L: usize = 5;
const HELD_L: usize = 8;
const C: std::ops::Range<usize> = 9..11;

#[test]
fn a_good_history() {
    assert_eq!(broken(&story()), "");
    let (_, figures) = check(&story());
    // c waits at two moments, and has both at the third.
    assert_eq!((figures.together, figures.moments, figures.queued), (1, 3, 3));
}

#[test]
fn granted_in_part() {
    let mut history = story();
    history[C.start].reply = Reply::Null;
    history[7].reply = Reply::Null;
    assert!(broken(&history).contains('A'));
    history[C.start].reply = grant(1490, 1);
    assert!(broken(&history).contains('2'), "with two fences");
    // What was held before keeps its own, and that is no new grant.
    let mut history = story();
    history[C.start].reply = grant(1490, 2);
    history[7].reply = look_at(&[("c", 1490, 1)], &[]);
    assert!(!broken(&history).contains('2'));
}

#[test]
fn one_fence_for_two_commands() {
    let mut history = story();
    history[D].reply = granted(1500);
    assert!(broken(&history).contains('2'));
}

#[test]
fn held_in_part_at_a_moment() {
    // The answer is on its way still: nothing else tells.
    let mut history = story();
    history[HELD_L].reply = look_at(&[], &[4]);
    assert_eq!(broken(&history), "A");
    history[HELD_L].reply = look_at(&[("c", 1501, 1)], &[4]);
    assert_eq!(broken(&history), "A", "by another fence");
    history[HELD_L].reply = look_at(&[], &[4]);
    // An operator may have broken it, or c given it back, or gone away,
    let gone = |call| Record { key: String::new(), ..record(8, 1560, 1590, call, Reply::Number(1)) };
    for end in [
        at("l", record(8, 1560, 1590, Call::Break, Reply::Number(1))),
        at("l", record(3, 1605, 1620, release("c"), Reply::Number(0))),
        gone(Call::Kill(3)),
    ] {
        let mut history = history.clone();
        history.push(end);
        assert!(!broken(&history).contains('A'));
    }
    // but not of the other lock.
    for end in [
        record(8, 1560, 1590, Call::Break, Reply::Number(1)),
        at("l", record(8, 1110, 1190, Call::Break, Reply::Number(0))),
        at("l", record(3, 1700, 1720, release("c"), Reply::Number(0))),
        gone(Call::Kill(4)),
    ] {
        let mut history = history.clone();
        history.push(end);
        assert!(broken(&history).contains('A'));
    }
    // Its lease may be over, or its greatest age.
    let mut short = history.clone();
    short[C].iter_mut().for_each(|record| record.call = acquire("c", Some(0)));
    assert_eq!(broken(&short), "");
    // Where it asked for one of them by itself, it may have had that before.
    history.push(record(3, 1660, 1670, lasting("c", None), Reply::Null));
    assert_eq!(broken(&history), "");
}

#[test]
fn held_after_the_answer_was_no() {
    let mut history = story();
    for record in &mut history[C] {
        record.reply = Reply::Null;
        record.received = Some(1590);
    }
    assert_eq!(broken(&history).matches('A').count(), 2, "both locks");
    // The answer came while somebody looked.
    history[C].iter_mut().for_each(|record| record.received = Some(1605));
    assert!(!broken(&history).contains('A'));
}

#[test]
fn half_a_place() {
    let mut history = story();
    history[LOOK_L].reply = look_at(&[], &[4]);
    assert_eq!(broken(&history), "A");
    // A lock that is free for a moment shows no queue.
    history[LOOK_L].reply = Reply::Null;
    assert_eq!(broken(&history), "");
}

#[test]
fn two_holders_of_one_of_them() {
    let mut history = story();
    // d has l while c does.
    history[D] = at("l", record(4, 1320, 2000, acquire("d", Some(0)), granted(1990)));
    assert_eq!(broken(&history), "13", "and c releases what is another's");
    // One who asks for two has one that is held already.
    let mut history = story();
    history.extend(all(5, (1900, 2000), ["m", "k"], acquire("e", None), both(&granted(1950))));
    assert_eq!(broken(&history), "13");
}

#[test]
fn out_of_turn_in_one_queue() {
    // d comes when c stands in the queue of l, which is free and reserved.
    let mut history = story();
    history[D] = at("l", record(4, 1320, 1430, acquire("d", Some(0)), granted(1420)));
    history.push(at("l", record(4, 1435, 1440, release("d"), Reply::Number(0))));
    assert_eq!(broken(&history), "44", "who came later, and who stood behind");
    // So does one who asks for others too.
    let mut history = story();
    history.extend(all(5, (1330, 1350), ["m", "l"], acquire("e", None), both(&granted(1340))));
    history.extend(all(5, (1360, 1370), ["m", "l"], release("e"), both(&Reply::Number(0))));
    assert_eq!(broken(&history), "4");
}

#[test]
fn one_before_the_other_in_one_queue_only() {
    let mut history = story();
    history.extend(all(5, (1210, 2900), ["k", "l"], acquire("e", Some(0)), both(&granted(2850))));
    history.push(at("l", record(4, 2800, 2820, release("d"), Reply::Number(0))));
    history.extend([look("k", 1420, &[("a", 1050)], &[3, 5]), look("l", 1420, &[], &[3, 4, 5])]);
    assert_eq!(broken(&history), "");
    assert_eq!(check(&history).1.pairs, 1);
    let last = history.len() - 1;
    history[last].reply = look_at(&[], &[5, 3, 4]);
    assert!(broken(&history).contains('4'));
    assert!(check(&history).0.iter().any(|fault| fault.contains("behind it elsewhere")));
}

/// c waits for k and l, d for l alone. The server is at work, and nothing is held after 2.1 ms.
fn left() -> Vec<Record> {
    let late = |fence| Reply::Granted { fence, holds: 1, lease: 1, slot: None };
    let mut history = vec![
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        look("k", 1300, &[("a", 1050)], &[3]),
        at("l", record(4, 1320, 1_600_010, acquire("d", Some(0)), late(1_600_000))),
        null("z", 3000),
        null("z", 1_010_000),
    ];
    history.extend(all(3, (1200, 1_500_010), ["k", "l"], acquire("c", Some(0)), both(&late(1_500_000))));
    history
}

#[test]
fn left_waiting_for_two_that_are_free() {
    assert_eq!(broken(&left()), "5");
    // Somebody has the other one for two seconds: d is behind c, who waits for that.
    let mut history = left();
    let long = Reply::Granted { fence: 1060, holds: 1, lease: 2000, slot: None };
    history.push(at("l", record(5, 1000, 1100, acquire_for("e", None, 2000, Room::Plain), long)));
    history.push(at("l", record(5, 1_400_000, 1_450_000, release("e"), Reply::Number(0))));
    assert_eq!(broken(&history), "");
    // One of its locks is held by one who extended several, of which he had lost another.
    let extend = Call::Extend { owner: "e".into(), lease: 2000 };
    let refused = || Reply::Refused("NOTHELD".into());
    history.extend(all(5, (1500, 1600), ["k", "l"], extend, [refused(), refused()]));
    assert_eq!(broken(&history), "");
    // A release that is refused tells of each.
    history.extend(all(5, (1700, 1800), ["k", "l"], release("e"), [refused(), refused()]));
    assert_eq!(broken(&history), "5");
}

#[test]
fn one_for_one_lock_may_be_kept_by_another_lock() {
    // k stays held; d waits for l, which is free and reserved for c.
    let mut history = left();
    let long = Reply::Granted { fence: 1050, holds: 1, lease: 3000, slot: None };
    history[0] = record(1, 1000, 1100, acquire_for("a", None, 3000, Room::Plain), long);
    history.push(record(1, 1_400_000, 1_450_000, release("a"), Reply::Number(0)));
    assert_eq!(broken(&history), "");
    // Where nobody ever asked for both, that can't be.
    history.retain(|record| record.client != 3);
    history[1].reply = look_at(&[("a", 1050, 1)], &[]);
    assert_eq!(broken(&history), "5");
}

#[test]
fn locks_that_hang_together() {
    let mut history = story();
    assert_eq!(groups(&history), [["k", "l"].into()]);
    history.extend(all(5, (1, 2), ["m", "n"], acquire("e", None), both(&Reply::Null)));
    history.push(at("z", record(5, 1, 2, acquire("e", None), Reply::Null)));
    let mut found = groups(&history);
    found.sort();
    assert_eq!(found, [["k", "l"].into(), ["m", "n"].into(), ["z"].into()]);
    history.extend(all(5, (1, 2), ["n", "l"], acquire("e", None), both(&Reply::Null)));
    let mut found = groups(&history);
    found.sort();
    assert_eq!(found, [["k", "l", "m", "n"].into(), ["z"].into()]);
}
