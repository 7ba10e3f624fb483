//! Handmade histories that each violate a guarantee, which the checker must find. That it accepts good histories shows on those of real
//! servers; here it must accept the good one from which each bad one is made. The checker in `tests/evidence` gets these histories, too.

use std::slice::from_ref;

use super::check::check;
use super::keep;
use super::record::{Call, Micros, Record, Reply, Room, Shown, read, write};

const ANY: i64 = i64::MAX;

fn record(client: i64, sent: Micros, received: Micros, call: Call, reply: Reply) -> Record {
    // A record that concerns all locks has no key.
    let key = if matches!(call, Call::Close | Call::Kill(_)) { "" } else { "k" };
    Record { client, sent, received: Some(received), key: key.into(), with: Vec::new(), call, reply }
}

/// Returns a request on a connection that ends before a reply comes.
fn unanswered(client: i64, sent: Micros, call: Call, reply: Reply) -> Record {
    Record { received: None, ..record(client, sent, 0, call, reply) }
}

/// Returns an acquire with a lease of 1 ms.
fn acquire(owner: &str, block: Option<i64>) -> Call {
    acquire_for(owner, block, 1, Room::Plain)
}

fn acquire_for(owner: &str, block: Option<i64>, lease: i64, room: Room) -> Call {
    let (owner, once, session, max_hold, slot) = (owner.into(), false, false, None, None);
    Call::Acquire { owner, lease, block, once, session, max_hold, room, slot }
}

/// Returns a reply with a lease of 1 ms.
fn granted(fence: i64) -> Reply {
    granted_for(fence, 1)
}

fn granted_for(fence: i64, lease: i64) -> Reply {
    Reply::Granted { fence, holds: 1, lease, slot: None }
}

fn release(owner: &str) -> Call {
    Call::Release { owner: owner.into(), all: false }
}

fn extend(owner: &str, lease: i64) -> Call {
    Call::Extend { owner: owner.into(), lease }
}

/// Returns a `LOCK.INFO`, which shows each holder with its fence and the most holders that it allows, and the queue.
fn look(sent: Micros, received: Micros, grants: &[(&str, i64, i64)], queue: &[i64]) -> Record {
    let shown =
        |&(owner, fence, most): &(&str, i64, i64)| Shown { owner: owner.into(), fence, most, slot: 0 };
    let reply = Reply::Held { grants: grants.iter().map(shown).collect(), queue: queue.into() };
    record(9, sent, received, Call::Info, reply)
}

/// Returns a `LOCK.INFO` that shows a free lock.
fn free(sent: Micros, received: Micros) -> Record {
    record(9, sent, received, Call::Info, Reply::Null)
}

/// Returns the guarantees that a history violates.
#[track_caller]
fn broken(history: &[Record]) -> String {
    let (faults, _) = check(history);
    let guarantees: String = faults.iter().filter_map(|fault| fault.chars().next()).collect();
    keep(&format!("made-{guarantees}"), history);
    guarantees
}

/// The guarantees that are violated, the records to be replaced (by index), and the records to be added at the end.
type Row<'a> = (&'a str, &'a [(usize, Record)], &'a [Record]);

#[track_caller]
fn are_broken(good: &[Record], rows: &[Row<'_>]) {
    assert_eq!(broken(good), "");
    for (expected, changed, added) in rows {
        let mut history = good.to_vec();
        changed.iter().for_each(|(place, record)| history[*place] = record.clone());
        history.extend_from_slice(added);
        assert_eq!(broken(&history), *expected, "{changed:?} {added:?}");
    }
}

/// Owner a holds the lock; c is in the queue when d comes; then a releases the lock.
fn story() -> Vec<Record> {
    vec![
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        record(3, 1200, 1510, acquire("c", Some(0)), granted(1500)),
        look(1300, 1310, &[("a", 1050, 1)], &[3]),
        record(4, 1320, 1710, acquire("d", Some(0)), granted(1700)),
        record(1, 1450, 1550, release("a"), Reply::Number(0)),
        record(3, 1650, 1750, release("c"), Reply::Number(0)),
    ]
}

#[test]
fn a_history_comes_back_from_its_file_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    write(&path, &story()).unwrap();
    assert_eq!(read(&path).unwrap(), story());
    let (_, figures) = check(&story());
    assert_eq!((figures.records, figures.grants, figures.holds, figures.queued), (6, 3, 3, 1));
}

#[test]
fn the_judge_finds_faults_of_locks_for_one_at_a_time() {
    let refused = || Reply::Refused("NOTHELD".into());
    let dead = unanswered(5, 1350, acquire("e", Some(0)), Reply::Gone);
    let kill = record(9, 1360, 1370, Call::Kill(5), Reply::Number(1));
    // c gets the lock before a releases it. Both are inside their leases, unless an operator broke a's grant.
    let early = (1, record(3, 1200, 1400, acquire("c", Some(0)), granted(1390)));
    let too_late = (4, record(1, 1450, 1550, release("a"), refused()));
    let broke = record(8, 1380, 1395, Call::Break, Reply::Number(1));
    are_broken(
        &story(),
        &[
            ("1", &[early.clone(), too_late.clone()], &[]),
            ("", &[early, too_late], &[broke]),
            // Fences do not rise.
            ("222", &[(3, record(4, 1800, 1900, acquire("d", None), granted(1500)))], &[]),
            ("24", &[(3, record(4, 1800, 1900, acquire("d", None), granted(1400)))], &[]),
            // Another owner releases the lock.
            ("3", &[], &[record(7, 1200, 1300, release("z"), Reply::Number(0))]),
            // d gets the lock before c. The second history lacks the record that c was in the queue first.
            (
                "4",
                &[
                    (1, record(3, 1200, 1760, acquire("c", Some(0)), granted(1755))),
                    (5, record(4, 1720, 1730, release("d"), Reply::Number(0))),
                ],
                &[],
            ),
            // A client waits for ever.
            ("5", &[], &[unanswered(5, 1800, acquire("e", Some(0)), Reply::Waits)]),
            // A client is killed, and gets the lock later.
            ("", &[], &[dead.clone(), kill.clone()]),
            ("6", &[], &[dead, kill, look(2900, 2910, &[("e", 2800, 1)], &[])]),
        ],
    );
}

#[test]
fn the_judge_counts_an_extension() {
    let later = [
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        record(2, 2500, 2600, acquire("b", None), granted(2550)),
    ];
    are_broken(&later, &[("1", &[], &[record(1, 1900, 1950, extend("a", 6), Reply::Number(6))])]);
}

#[test]
fn the_judge_finds_a_free_lock_that_nobody_gets() {
    // c waits until a releases the lock, while the server is at work.
    let long = |lease| {
        vec![
            record(1, 1000, 1100, acquire_for("a", None, lease, Room::Plain), granted_for(1050, lease)),
            record(3, 1200, 1_500_010, acquire("c", Some(0)), granted(1_500_000)),
            look(2250, 2300, &[("a", 1050, 1)], &[3]),
            look(1_010_000, 1_010_100, &[("a", 1050, 1)], &[3]),
        ]
    };
    let (ends, free) = (record(1, 1700, 1800, release("a"), Reply::Number(0)), free(2250, 2300));
    let mut session = long(3000);
    let Call::Acquire { session: by_session, lease, .. } = &mut session[0].call else { panic!() };
    (*by_session, *lease) = (true, 1);
    session[0].reply = granted(1050);
    let close = record(1, 1900, 2000, Call::Close, Reply::Gone);
    are_broken(
        &long(1490),
        &[
            ("5", &[], &[ends]),
            // The lock is shown as free.
            ("L", &[(2, free)], &[]),
            // The lease had ended long before.
            ("5", &[(0, long(1).remove(0))], &[]),
            // c waits for a limited time, and is granted the lock after it.
            ("5", &[(1, record(3, 1200, 1_500_010, acquire("c", Some(1)), granted(1_500_000)))], &[]),
        ],
    );
    are_broken(&session, &[("5", &[], &[close])]);
}

#[test]
fn the_judge_finds_a_grant_to_one_who_dies_in_the_same_step() {
    let history = [
        record(1, 1000, 1100, acquire("a", None), granted(1050)),
        unanswered(5, 1150, acquire("e", Some(0)), Reply::Gone),
        Record { client: 1, ..look(1200, 1300, &[("a", 1050, 1)], &[5]) },
        record(1, 1200, 1300, release("a"), Reply::Number(0)),
        record(1, 1200, 1300, Call::Kill(5), Reply::Number(1)),
        // The grant is seen only for a moment.
        look(1310, 1320, &[("e", 1250, 1)], &[]),
        free(6400, 6500),
    ];
    are_broken(&history, &[("6", &[], &[look(6600, 6700, &[("e", 1250, 1)], &[])])]);
}

#[test]
fn the_judge_finds_a_grant_beyond_its_greatest_age() {
    let limited = Call::Acquire {
        owner: "a".into(),
        lease: 50,
        block: None,
        once: false,
        session: true,
        max_hold: Some(20),
        room: Room::Plain,
        slot: None,
    };
    let good = [
        record(1, 1000, 1100, limited.clone(), granted_for(1050, 20)),
        record(1, 8000, 8100, extend("a", 50), Reply::Number(13)),
        look(20_000, 20_100, &[("a", 1050, 1)], &[]),
    ];
    are_broken(
        &good,
        &[
            ("M", &[(0, record(1, 1000, 1100, limited, granted_for(1050, 50)))], &[]),
            ("M", &[(1, record(1, 8000, 8100, extend("a", 50), Reply::Number(50)))], &[]),
            ("M", &[(2, look(24_000, 24_100, &[("a", 1050, 1)], &[]))], &[]),
        ],
    );
}

/// Returns an acquire for 10 ms, granted in the middle of the call.
fn holds(owner: &str, client: i64, sent: i64, room: Room) -> Record {
    record(client, sent, sent + 100, acquire_for(owner, None, 10, room), granted_for(sent + 50, 10))
}

/// Returns this many holds with the same room, one after the other.
fn several(count: i64, room: Room) -> Vec<Record> {
    (0..count).map(|number| holds(&format!("o{number}"), number, 1000 + 200 * number, room)).collect()
}

/// Returns a grant with this slot, of at most three holders.
fn permit(owner: &str, client: i64, sent: i64, (fence, holds, slot): (i64, i64, i64)) -> Record {
    let reply = Reply::Granted { fence, holds, lease: 10, slot: Some(slot) };
    record(client, sent, sent + 100, acquire_for(owner, None, 10, Room::Limit(3)), reply)
}

#[test]
fn several_at_a_time_with_no_more_room_than_each_has() {
    let (plain, third) = (holds("w", 9, 3000, Room::Plain), holds("l", 9, 3000, Room::Limit(3)));
    // A holder upgrades while another owner reads. A client that waited until the reader had finished holds the lock alone.
    let upgrade = |until, holds| {
        let reply = Reply::Granted { fence: 1050, holds, lease: 10, slot: None };
        record(0, 3000, until, acquire_for("o0", Some(0), 10, Room::Plain), reply)
    };
    let done = record(1, 3200, 3300, release("o1"), Reply::Number(0));
    are_broken(
        &several(2, Room::Shared),
        &[
            ("1", &[], &[plain]),
            ("", &[], from_ref(&third)),
            ("1", &[], &[third.clone(), holds("r", 8, 3200, Room::Shared)]),
            ("1", &[], &[upgrade(3100, 2)]),
            ("1", &[], &[upgrade(4000, 2), done, holds("r", 9, 5000, Room::Shared)]),
            // The grants that `LOCK.INFO` shows must fit together, have rising fences, and be complete.
            ("1", &[], &[look(1400, 1500, &[("o0", 1050, ANY), ("o1", 1250, 1)], &[])]),
            ("2", &[], &[look(1400, 1500, &[("o1", 1250, ANY), ("o0", 1050, ANY)], &[])]),
            ("L", &[], &[look(1400, 1500, &[("o1", 1250, ANY)], &[])]),
            ("L", &[], &[free(1400, 1500)]),
        ],
    );
    are_broken(&several(3, Room::Limit(3)), &[("1", &[], &[holds("r", 9, 3000, Room::Shared)])]);
    are_broken(
        &[permit("a", 1, 1000, (1050, 1, 1)), permit("b", 2, 1200, (1250, 1, 2))],
        &[
            ("1", &[], &[permit("c", 3, 1400, (1450, 1, 2))]),
            ("1", &[], &[permit("a", 1, 1600, (1050, 2, 3))]),
        ],
    );
}

#[test]
fn the_judge_finds_a_reader_that_is_passed_over() {
    let read = |owner, lease| acquire_for(owner, Some(0), lease, Room::Shared);
    let reader = |client, sent, owner, fence| record(client, sent, 2600, read(owner, 1), granted(fence));
    let history = [
        holds("w", 1, 1000, Room::Plain),
        reader(3, 1200, "c", 2510),
        reader(4, 1250, "d", 2520),
        look(1300, 1310, &[("w", 1050, 1)], &[3, 4]),
        reader(5, 1400, "e", 2530),
        record(1, 2400, 2700, release("w"), Reply::Number(0)),
    ];
    let too_late = record(3, 1200, 3800, acquire_for("c", Some(2), 1, Room::Shared), Reply::Null);
    are_broken(
        &history,
        &[
            // A later client gets the lock before both; the second gets it before the first; one is not told before its timeout.
            ("44", &[(4, reader(5, 1400, "e", 2500))], &[]),
            ("4", &[(1, reader(3, 1200, "c", 2525))], &[]),
            ("44", &[(1, too_late)], &[]),
        ],
    );
    // A reader is left waiting while others read. This is right only if a writer waits in front of it.
    let alone = |sent, received| look(sent, received, &[("c", 2510, ANY)], &[4]);
    let writer = acquire_for("x", Some(1000), 1, Room::Plain);
    let history = [
        holds("w", 1, 1000, Room::Plain),
        record(5, 1210, 1_400_000, writer, Reply::Null),
        record(3, 1220, 2600, read("c", 3000), granted_for(2510, 3000)),
        record(4, 1250, 1_500_010, read("d", 3000), granted_for(1_500_000, 3000)),
        record(1, 2400, 2700, release("w"), Reply::Number(0)),
        alone(2800, 2900),
        alone(1_010_000, 1_010_100),
    ];
    let nobody_waits = [(1, record(5, 1210, 1300, acquire("x", None), Reply::Null))];
    let refused = record(5, 500_000, 500_010, acquire("x", None), Reply::Refused("MISCONF".into()));
    // A server that can't write to its disk hands nothing over.
    are_broken(&history, &[("5", &nobody_waits, &[]), ("", &nobody_waits, &[refused])]);
}

#[test]
fn several_locks_of_one_command_are_granted_with_one_fence_or_not() {
    let both = |replies: [Reply; 2]| {
        let with = || vec!["k".to_owned(), "l".to_owned()];
        let of =
            |(key, reply)| Record { key, with: with(), ..record(1, 1000, 1100, acquire("a", None), reply) };
        with().into_iter().zip(replies).map(of).collect::<Vec<_>>()
    };
    assert_eq!(broken(&both([granted(1050), granted(1050)])), "");
    assert_eq!(broken(&both([granted(1050), granted(1060)])), "2");
    assert_eq!(broken(&both([granted(1050), Reply::Null])), "A");
}
