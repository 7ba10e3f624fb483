//! Many workers on few numbers, some of which die.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, Grant, SOON, Server, Stopwatch, grant};

const WORKERS: usize = 200;
const SLOTS: i64 = 16;

/// So many times each worker is to have a number.
const ROUNDS: usize = 5;

/// A time in which a worker had a number, by its own clock: from when it was told until it gave it back or died.
struct Held {
    slot: i64,
    fence: i64,
    from: Instant,
    until: Instant,
    died: bool,
}

/// Waits for a number, and has it for a moment.
fn work(client: &mut Client, owner: usize) -> (Grant, Instant) {
    let line = format!("LOCK.ACQUIRE pool OWNER w{owner} LIMIT {SLOTS} BLOCK 0 SESSION PX 30000");
    let granted = grant(client.ask(&line)).unwrap();
    let from = Instant::now();
    thread::sleep(Duration::from_millis(2));
    (granted, from)
}

/// 200 workers have one of 16 numbers each, again and again, and every tenth dies with its own. No two have one number at a time,
/// and that of a dead one is soon another's.
#[test]
fn the_number_of_a_worker_that_dies_is_soon_another_ones() {
    let server = Server::start();
    let all = Mutex::new(Vec::new());
    let watch = Stopwatch::start();
    thread::scope(|scope| {
        for owner in 0..WORKERS {
            let (server, all) = (&server, &all);
            scope.spawn(move || {
                let mut client = server.client();
                for round in 0..ROUNDS {
                    let (Grant { slot, fence, .. }, from) = work(&mut client, owner);
                    let slot = slot.expect("a number");
                    // Others wait then.
                    let died = owner % 10 == 0 && round == 1;
                    let until = Instant::now();
                    all.lock().unwrap().push(Held { slot, fence, from, until, died });
                    if died {
                        return;
                    }
                    client.ask::<i64>(&format!("LOCK.RELEASE pool w{owner} FENCE {fence}"));
                }
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_by_key(|held| held.fence);
    let deaths = all.iter().filter(|held| held.died).count();
    assert_eq!((all.len(), deaths), (WORKERS * ROUNDS - deaths * (ROUNDS - 2), WORKERS / 10));
    let mut free_after = Vec::new();
    for slot in 1..=SLOTS {
        let its: Vec<_> = all.iter().filter(|held| held.slot == slot).collect();
        for pair in its.windows(2) {
            let [one, next] = pair else { continue };
            assert!(one.until <= next.from, "number {slot} is held twice: {} and {}", one.fence, next.fence);
            free_after.extend(one.died.then(|| next.from - one.until));
        }
    }
    assert!(all.iter().all(|held| (1..=SLOTS).contains(&held.slot)));
    free_after.sort();
    let (median, last) = (free_after[free_after.len() / 2], free_after[free_after.len() - 1]);
    println!(
        "another has the number of a dead worker after {median:?}, at most {last:?}: {} of them",
        free_after.len()
    );
    assert!(free_after.len() > deaths / 2, "too few waited: {}", free_after.len());
    assert!(last < SOON + watch.lost(), "only after {last:?}");
    assert_eq!(server.client().holders("pool"), []);
}
