//! Histories made by hand of locks that were asked for by one command, each of which contradicts a guarantee.

use std::slice::from_ref;

use super::check::check;
use super::judge_tests::{
    acquire, acquire_for, are_broken, granted, granted_for, look as look_at, record, release,
};
use super::record::{Call, Micros, Record, Reply, Room};
use super::several::groups;

/// One command for several locks, and what came of each.
fn all(
    client: i64,
    (sent, received): (Micros, Micros),
    keys: [&str; 2],
    call: &Call,
    replies: [Reply; 2],
) -> [Record; 2] {
    let of = |(key, reply)| {
        let with = keys.map(String::from).into();
        at(key, Record { with, ..record(client, sent, received, call.clone(), reply) })
    };
    let [first, second] = replies;
    [(keys[0], first), (keys[1], second)].map(of)
}

/// That record, as one of another lock.
fn at(key: &str, record: Record) -> Record {
    Record { key: key.into(), ..record }
}

fn look(key: &str, sent: Micros, grants: &[(&str, i64)], queue: &[i64]) -> Record {
    let grants: Vec<_> = grants.iter().map(|(owner, fence)| (*owner, *fence, 1)).collect();
    at(key, look_at(sent, sent + 10, &grants, queue))
}

fn both(reply: &Reply) -> [Reply; 2] {
    [reply.clone(), reply.clone()]
}

/// For 10 ms: long enough to be looked at.
fn lasting(owner: &str, block: Option<i64>) -> Call {
    acquire_for(owner, block, 10, Room::Plain)
}

/// What c is answered, for each of its locks.
fn of_c(received: Micros, replies: [Reply; 2]) -> [(usize, Record); 2] {
    let [k, l] = all(3, (1200, received), ["k", "l"], &lasting("c", Some(0)), replies);
    [(C, k), (C + 1, l)]
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
    history.extend(of_c(1650, both(&granted_for(1500, 10))).map(|(_, record)| record));
    history.extend(all(3, (2600, 2750), ["k", "l"], &release("c"), both(&Reply::Number(0))));
    history
}

/// Where each of its records is.
const D: usize = 3;
const LOOK_L: usize = 5;
const HELD_L: usize = 8;
const C: usize = 9;

#[test]
fn what_there_is_to_judge() {
    let (_, figures) = check(&story());
    // c waits at two moments, and has both at the third.
    assert_eq!((figures.together, figures.moments, figures.queued), (1, 3, 3));
}

#[test]
fn in_part() {
    let lasting = |fence| granted_for(fence, 10);
    let d = |received, fence| at("l", record(4, 1320, received, acquire("d", Some(0)), granted(fence)));
    let not_held = (HELD_L, look("l", 1600, &[], &[4]));
    let free = |key, sent| at(key, record(9, sent, sent + 10, Call::Info, Reply::Null));
    are_broken(
        &story(),
        &[
            // Granted in part, or by two fences; and one fence of two commands.
            ("A", &of_c(1650, [Reply::Null, lasting(1500)])[..], &[]),
            ("2", &of_c(1650, [lasting(1490), lasting(1500)]), &[]),
            ("2222", &[(D, d(2710, 1500))], &[]),
            // One of them is not shown, or by another fence, though the answer is on its way still; an operator may have broken it.
            ("A", from_ref(&not_held), &[]),
            ("A", &[(HELD_L, look("l", 1600, &[("c", 1501)], &[4]))], &[]),
            ("", from_ref(&not_held), &[at("l", record(8, 1560, 1590, Call::Break, Reply::Number(1)))]),
            ("A", from_ref(&not_held), &[record(8, 1560, 1590, Call::Break, Reply::Number(1))]),
            // Held, both of them, after the answer was no.
            ("AA", &of_c(1590, both(&Reply::Null)), &[]),
            // Half a place. A lock that is free for a moment shows no queue.
            ("A", &[(LOOK_L, look("l", 1400, &[], &[4]))], &[]),
            ("", &[(LOOK_L, free("l", 1400))], &[]),
            // d has l while c does, who releases what is another's.
            ("13", &[(D, d(2000, 1990))], &[]),
            // d comes when c stands in the queue of l, which is free and reserved: it came later, and stood behind.
            ("44", &[(D, d(1430, 1420))], &[at("l", record(4, 1435, 1440, release("d"), Reply::Number(0)))]),
        ],
    );
    let e = all(5, (1900, 2000), ["m", "k"], &acquire("e", None), both(&granted(1950)));
    are_broken(&story(), &[("13", &[], &e)]);
}

#[test]
fn one_before_the_other_in_one_queue_only() {
    let mut history = story();
    history.extend(all(5, (1210, 2900), ["k", "l"], &acquire("e", Some(0)), both(&granted(2850))));
    history.push(at("l", record(4, 2800, 2820, release("d"), Reply::Number(0))));
    history.extend([look("k", 1420, &[("a", 1050)], &[3, 5]), look("l", 1420, &[], &[3, 4, 5])]);
    assert_eq!(check(&history).1.pairs, 1);
    let last = history.len() - 1;
    are_broken(&history, &[("444", &[(last, look("l", 1420, &[], &[5, 3, 4]))], &[])]);
}

#[test]
fn left_waiting_for_two_that_are_free() {
    // c waits for k and l, d for l alone. e has l for two seconds: d is behind c, who waits for that.
    let held = |lease| {
        let call = acquire_for("e", None, lease, Room::Plain);
        at("l", record(5, 1000, 1100, call, granted_for(1060, lease)))
    };
    let idle = |sent| at("z", record(9, sent, sent + 10, Call::Info, Reply::Null));
    let mut history = vec![
        held(2000),
        look("k", 1300, &[("a", 1050)], &[3]),
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        at("l", record(4, 1320, 1_600_010, acquire("d", Some(0)), granted(1_600_000))),
        idle(3000),
        idle(1_010_000),
        at("l", record(5, 1_400_000, 1_450_000, release("e"), Reply::Number(0))),
    ];
    let c = all(3, (1200, 1_500_010), ["k", "l"], &acquire("c", Some(0)), both(&granted(1_500_000)));
    history.extend(c);
    // A release that is refused tells of each.
    let refused = Reply::Refused("NOTHELD".into());
    let released = all(5, (1700, 1800), ["k", "l"], &release("e"), both(&refused));
    are_broken(&history, &[("5", &[(0, held(1))], &[]), ("5", &[], &released)]);
}

#[test]
fn locks_that_hang_together() {
    let mut history = story();
    assert_eq!(groups(&history), [["k", "l"].into()]);
    history.extend(all(5, (1, 2), ["m", "n"], &acquire("e", None), both(&Reply::Null)));
    history.push(at("z", record(5, 1, 2, acquire("e", None), Reply::Null)));
    let mut found = groups(&history);
    found.sort();
    assert_eq!(found, [["k", "l"].into(), ["m", "n"].into(), ["z"].into()]);
    history.extend(all(5, (1, 2), ["n", "l"], &acquire("e", None), both(&Reply::Null)));
    let mut found = groups(&history);
    found.sort();
    assert_eq!(found, [["k", "l", "m", "n"].into(), ["z"].into()]);
}
