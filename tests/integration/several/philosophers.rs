//! Philosophers at a round table: each wants the two forks beside its plate, which it shares with its neighbours.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};

use redis::Value;

use super::{count, grants};
use crate::support::{Client, Rng, Server, convert, figure, transaction, wait_for};

const SEATS: usize = 5;
const MEALS: usize = 60;

/// What one asks for, with its forks in whichever order.
fn line(seat: usize, owner: &str) -> String {
    let [left, right] = forks(seat);
    let keys = if seat < 2 { [left, right] } else { [right, left] }.join(" ");
    format!("LOCK.MACQUIRE 2 {keys} OWNER {owner} PX 600000 BLOCK 0")
}

/// The left one and the right one.
fn forks(seat: usize) -> [String; 2] {
    [seat, (seat + 1) % SEATS].map(|number| format!("fork{number}"))
}

fn put_back(client: &mut Client, seat: usize, owner: &str) -> Vec<Option<i64>> {
    client.ask(&format!("LOCK.MRELEASE 2 {} {owner}", forks(seat).join(" ")))
}

/// One who waited: since when it was seen in its queues for certain, who was in front there, and when it got both forks.
struct Wait {
    seat: usize,
    seen: i64,
    in_front: BTreeSet<String>,
    until: i64,
}

#[test]
fn both_forks_at_once_nobody_stands_still_and_nobody_is_passed_over() {
    let server = Server::start();
    let in_hand: [AtomicBool; SEATS] = [const { AtomicBool::new(false) }; SEATS];
    // Each meal, by its philosopher and the fence; and each wait.
    let (meals, waits) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let mut rng = Rng::new();
    scope(|scope| {
        for seat in 0..SEATS {
            let (server, in_hand, meals, waits, mut rng) = (&server, &in_hand, &meals, &waits, rng.fork());
            scope.spawn(move || {
                let (mut client, mut eyes) = (server.client(), server.client());
                for meal in 0..MEALS {
                    let owner = format!("p{seat}-{meal}");
                    client.begin(&line(seat, &owner));
                    let queued = watch(&mut eyes, seat, &owner);
                    let until = grants(client.finish().unwrap()).expect("both forks").fences[0];
                    meals.lock().unwrap().push((seat, until));
                    if let Some((seen, in_front)) = queued {
                        waits.lock().unwrap().push(Wait { seat, seen, in_front, until });
                    }
                    let mine = [seat, (seat + 1) % SEATS].map(|fork| &in_hand[fork]);
                    assert!(
                        mine.iter().all(|fork| !fork.swap(true, Ordering::SeqCst)),
                        "a fork in two hands"
                    );
                    sleep(rng.up_to(3));
                    mine.iter().for_each(|fork| fork.store(false, Ordering::SeqCst));
                    assert_eq!(put_back(&mut client, seat, &owner), [Some(0); 2]);
                }
            });
        }
    });
    let (meals, waits) = (meals.into_inner().unwrap(), waits.into_inner().unwrap());
    let mut client = server.client();
    assert_eq!((client.ask::<i64>("DBSIZE"), count(&mut client, "lock_waiters")), (0, 0));
    assert_eq!(count(&mut client, "lock_grants"), 2 * (SEATS * MEALS) as i64);
    assert_eq!(meals.len(), SEATS * MEALS);
    let mut most = 0;
    for Wait { seat, seen, in_front, until } in &waits {
        let neighbours = [(seat + 1) % SEATS, (seat + SEATS - 1) % SEATS];
        let passed = meals.iter().filter(|(other, at)| neighbours.contains(other) && seen < at && at < until);
        let passed = passed.count();
        assert!(passed <= in_front.len(), "p{seat} was passed {passed} times, by more than {in_front:?}");
        most = most.max(passed);
    }
    figure(
        "philosophers",
        format_args!(
            "{} meals, {} waited, at most {most} meals of others meanwhile",
            meals.len(),
            waits.len()
        ),
    );
    assert!(waits.len() > MEALS && most > 0, "{} waited, {most}: nothing to judge", waits.len());
}

/// Looks until one stands in its queues: since when, by the server's clock in microseconds, and behind whom. None: it has its forks.
fn watch(eyes: &mut Client, seat: usize, owner: &str) -> Option<(i64, BTreeSet<String>)> {
    let looks = forks(seat).map(|fork| format!("LOCK.INFO {fork} FULL"));
    let mut queued = None;
    wait_for("a place in the queues, or forks", || {
        let mut replies = transaction(eyes, &["TIME", &looks[0], &looks[1]]).into_iter().map(Result::unwrap);
        let (seconds, micros): (i64, i64) = convert(replies.next().unwrap());
        let locks: Vec<Option<HashMap<String, Value>>> = replies.map(convert).collect();
        let named = |lock: &HashMap<String, Value>, list: &str| -> Vec<String> {
            let all: Vec<HashMap<String, String>> = convert(lock[list].clone());
            all.into_iter().map(|mut one| one.remove("owner").unwrap()).collect()
        };
        let locks: Vec<_> = locks.iter().flatten().collect();
        let queues = locks.iter().map(|lock| named(lock, "queue"));
        let mine: Vec<_> = queues.filter(|queue| queue.iter().any(|other| other == owner)).collect();
        if !mine.is_empty() {
            let in_front =
                mine.into_iter().flat_map(|queue| queue.into_iter().take_while(|other| other != owner));
            queued = Some((seconds * 1_000_000 + micros, in_front.collect()));
        }
        queued.is_some() || locks.iter().any(|lock| named(lock, "grants").iter().any(|other| other == owner))
    });
    queued
}
