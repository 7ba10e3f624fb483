//! Histories made by hand of locks that are shared, good ones and bad ones.

use super::check::check;
use super::check_tests::{acquire_for, broken, granted, look_at, record, release};
use super::record::{Call, Record, Reply, Room};

const ANY: i64 = i64::MAX;

/// Asked for 10 ms, and granted in the middle of the call.
fn holds(owner: &str, client: i64, sent: i64, room: Room) -> Record {
    record(client, sent, sent + 100, acquire_for(owner, None, 10, room), grant(sent + 50, 1))
}

fn grant(fence: i64, holds: i64) -> Reply {
    Reply::Granted { fence, holds, lease: 10, slot: None }
}

/// So many of one kind, one after the other.
fn several(count: i64, room: Room) -> Vec<Record> {
    (0..count).map(|number| holds(&format!("o{number}"), number, 1000 + 200 * number, room)).collect()
}

#[test]
fn readers_hold_it_together_and_no_writer_beside_them() {
    let mut history = several(5, Room::Shared);
    assert_eq!(broken(&history), "");
    assert_eq!(check(&history).1.beside, 4);
    history.push(holds("w", 9, 3000, Room::Plain));
    assert_eq!(broken(&history), "1", "a writer beside readers");
    // When all of them have given it back, there is nothing wrong with it.
    for client in 0..5 {
        history.push(record(client, 2500, 2600, release(&format!("o{client}")), Reply::Number(0)));
    }
    assert_eq!(broken(&history), "");
    history.push(holds("r", 8, 3500, Room::Shared));
    assert_eq!(broken(&history), "1", "a reader beside a writer");
}

/// A permit with that number.
fn permit(owner: &str, client: i64, sent: i64, slot: i64) -> Record {
    let reply = Reply::Granted { fence: sent + 50, holds: 1, lease: 10, slot: Some(slot) };
    Record { reply, ..holds(owner, client, sent, Room::Limit(3)) }
}

#[test]
fn no_two_have_one_number() {
    let mut history = vec![permit("a", 1, 1000, 1), permit("b", 2, 1200, 2)];
    assert_eq!(broken(&history), "");
    history.push(permit("c", 3, 1400, 2));
    assert_eq!(broken(&history), "1", "a number twice");
    // When it has been given back, it is free.
    history.insert(2, record(2, 1310, 1390, release("b"), Reply::Number(0)));
    assert_eq!(broken(&history), "");
    let mut again = permit("a", 1, 1600, 3);
    again.reply = Reply::Granted { fence: 1050, holds: 2, lease: 10, slot: Some(3) };
    history.push(again);
    assert_eq!(broken(&history), "1", "another number than before");
}

#[test]
fn no_more_than_the_least_room_of_all() {
    assert_eq!(broken(&several(3, Room::Limit(3))), "");
    assert_eq!(broken(&several(4, Room::Limit(3))), "1", "four of LIMIT 3");
    let mut history = several(3, Room::Limit(3));
    history.push(holds("r", 9, 3000, Room::Shared));
    assert_eq!(broken(&history), "1", "a reader beside three of LIMIT 3");
    let mut history = several(2, Room::Shared);
    history.push(holds("l", 9, 3000, Room::Limit(3)));
    assert_eq!(broken(&history), "");
    history.push(holds("r", 8, 3200, Room::Shared));
    assert_eq!(broken(&history), "1");
    // One of them is over.
    let mut first = acquire_for("o0", None, 1, Room::Shared);
    std::mem::swap(&mut history[0].call, &mut first);
    history[0].reply = granted(1050);
    assert_eq!(broken(&history), "");
    // An operator ends all of them.
    let mut history = several(4, Room::Limit(3));
    history.push(record(9, 1550, 1600, Call::Break, Reply::Number(3)));
    assert_eq!(broken(&history), "");
}

#[test]
fn an_upgrade_bears_no_company_from_then_on() {
    let upgrade = record(0, 3000, 3100, acquire_for("o0", None, 10, Room::Plain), grant(1050, 2));
    let mut history = several(1, Room::Shared);
    history.push(upgrade.clone());
    assert_eq!(broken(&history), "");
    assert_eq!(check(&history).1.upgraded, 1);
    history.push(holds("r", 9, 3500, Room::Shared));
    assert_eq!(broken(&history), "1", "a reader beside it");
    // One hold of two is given back, and it is alone still.
    history.push(record(0, 3200, 3300, release("o0"), Reply::Number(1)));
    assert_eq!(broken(&history), "1");
    history.push(record(0, 3350, 3400, release("o0"), Reply::Number(0)));
    assert_eq!(broken(&history), "");
    // It was made while another one read.
    let mut history = several(2, Room::Shared);
    history.push(upgrade);
    assert_eq!(broken(&history), "1");
    // One that waited till that one was done.
    history[2] = record(0, 3000, 4000, acquire_for("o0", Some(0), 10, Room::Plain), grant(1050, 2));
    history.push(record(1, 3200, 3300, release("o1"), Reply::Number(0)));
    assert_eq!(broken(&history), "");
    history.push(holds("r", 9, 5000, Room::Shared));
    assert_eq!(broken(&history), "1", "a reader beside it");
}

#[test]
fn a_refused_upgrade_changes_nothing() {
    let mut history = several(2, Room::Shared);
    let ask = acquire_for("o0", Some(0), 10, Room::Plain);
    history.push(record(0, 2000, 2100, ask, Reply::Refused("DEADLOCK".into())));
    history.push(holds("r", 9, 3000, Room::Shared));
    assert_eq!(broken(&history), "");
}

#[test]
fn a_reader_that_is_passed_over() {
    let read = |owner| acquire_for(owner, Some(0), 1, Room::Shared);
    let mut history = vec![
        holds("w", 1, 1000, Room::Plain),
        record(3, 1200, 2600, read("c"), granted(2510)),
        record(4, 1250, 2600, read("d"), granted(2520)),
        record(9, 1300, 1310, Call::Info, look_at(&[("w", 1050, 1)], &[3, 4])),
        record(5, 1400, 2600, read("e"), granted(2530)),
        record(1, 2400, 2700, release("w"), Reply::Number(0)),
    ];
    assert_eq!(broken(&history), "");
    history[4].reply = granted(2500);
    assert_eq!(broken(&history), "44", "one who came later, before both");
    history[4].reply = granted(2530);
    history[1].reply = granted(2525);
    assert_eq!(broken(&history), "4", "the second before the first");
    // Not told, since its time was up.
    history[1] = record(3, 1200, 3800, acquire_for("c", Some(2), 1, Room::Shared), Reply::Null);
    assert_eq!(broken(&history), "44");
}

#[test]
fn an_upgrade_may_come_first() {
    let mut history = several(2, Room::Shared);
    history.extend([
        record(3, 1500, 3600, acquire_for("w", Some(0), 1, Room::Plain), granted(3500)),
        record(9, 1600, 1700, Call::Info, look_at(&[("o0", 1050, ANY), ("o1", 1250, ANY)], &[3])),
        // Its first grant has lapsed meanwhile.
        record(0, 1800, 3400, acquire_for("o0", Some(0), 10, Room::Plain), granted(3000)),
        record(1, 1900, 2000, release("o1"), Reply::Number(0)),
        record(8, 2010, 2100, Call::Break, Reply::Number(1)),
        record(0, 3410, 3450, release("o0"), Reply::Number(0)),
    ]);
    assert_eq!(broken(&history), "");
}

/// One connection waits twice, the second time in front: who looks meanwhile may have seen either.
#[test]
fn one_who_waits_again_at_once_is_not_mistaken_for_the_first_time() {
    let mut history = several(1, Room::Shared);
    history.extend([
        record(3, 1500, 3600, acquire_for("w", Some(0), 1, Room::Shared), granted(3500)),
        record(4, 1600, 5600, acquire_for("v", Some(0), 1, Room::Plain), granted(5500)),
        record(9, 3550, 3800, Call::Info, look_at(&[("w", 3500, ANY)], &[4, 3])),
        record(3, 3700, 3900, acquire_for("w", Some(0), 1, Room::Plain), Reply::Null),
        record(0, 1200, 1300, release("o0"), Reply::Number(0)),
    ]);
    assert_eq!(broken(&history), "");
    // Where there was no second time, it was passed over.
    history.remove(4);
    assert_eq!(broken(&history), "4");
}

#[test]
fn what_is_shown_fits_and_rises_and_is_all() {
    let shown = |grants: &[(&str, i64, i64)]| {
        let mut history = several(2, Room::Shared);
        history.push(record(9, 1400, 1500, Call::Info, look_at(grants, &[])));
        broken(&history)
    };
    assert_eq!(shown(&[("o0", 1050, ANY), ("o1", 1250, ANY)]), "");
    assert_eq!(shown(&[("o0", 1050, ANY), ("o1", 1250, 1)]), "1");
    assert_eq!(shown(&[("o1", 1250, ANY), ("o0", 1050, ANY)]), "2");
    assert_eq!(shown(&[("o1", 1250, ANY)]), "L");
    // It may have come while somebody looked, or be over.
    for (sent, received, broken_rules) in [(1310, 1400, "L"), (1290, 1400, ""), (10_950, 11_300, "")] {
        let mut history = several(2, Room::Shared);
        history.push(record(9, sent, received, Call::Info, look_at(&[("o0", 1050, ANY)], &[])));
        assert_eq!(broken(&history), broken_rules, "{sent} to {received}");
    }
    let mut history = several(1, Room::Shared);
    history.push(record(9, 1400, 1500, Call::Info, Reply::Null));
    assert_eq!(broken(&history), "L", "shown as free");
}

#[test]
fn a_reader_left_behind_by_the_others() {
    let read = |owner| acquire_for(owner, Some(0), 3000, Room::Shared);
    let long = |fence| Reply::Granted { fence, holds: 1, lease: 3000, slot: None };
    let mut history = vec![
        holds("w", 1, 1000, Room::Plain),
        record(3, 1200, 2600, read("c"), long(2510)),
        record(4, 1250, 1_500_010, read("d"), long(1_500_000)),
        record(1, 2400, 2700, release("w"), Reply::Number(0)),
        record(9, 2800, 2900, Call::Info, look_at(&[("c", 2510, ANY)], &[4])),
        record(9, 1_010_000, 1_010_100, Call::Info, look_at(&[("c", 2510, ANY)], &[4])),
    ];
    assert_eq!(broken(&history), "5");
    // A writer may wait in front of it.
    history.push(record(5, 1210, 1_400_000, acquire_for("x", Some(1000), 1, Room::Plain), Reply::Null));
    assert_eq!(broken(&history), "");
    history.pop();
    // Or one that bears three.
    history[1].call = acquire_for("c", Some(0), 3000, Room::Limit(3));
    assert_eq!(broken(&history), "");
}

#[test]
fn a_grant_to_one_of_several_who_is_dead() {
    let mut history = several(2, Room::Shared);
    history.push(Record {
        received: None,
        ..record(5, 1500, 0, acquire_for("e", Some(0), 10, Room::Plain), Reply::Gone)
    });
    history.push(record(9, 1600, 1700, Call::Kill(5), Reply::Number(1)));
    let shown = [("o0", 1050, ANY), ("o1", 1250, ANY), ("e", 1800, ANY)];
    history.push(record(9, 1900, 2000, Call::Info, look_at(&shown, &[])));
    assert_eq!(broken(&history), "6");
}
