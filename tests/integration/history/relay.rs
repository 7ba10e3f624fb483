//! Locks that nobody touches but those who take them in turn: what the module forgets there, nothing else makes up for.

use std::thread::{scope, sleep};
use std::time::Duration;

use super::clients::{Caller, Shared};
use super::record::{Call, Reply};
use super::turns::Taste;
use crate::support::Rng;

/// How many take a lock in turn.
const RUNNERS: usize = 3;

/// How a runner ends its grant.
enum End {
    Lapse,
    Release,
    Break,
    /// It has a session, and closes its connection.
    Close,
    /// It kills the connection of the next one in the step that hands the lock on.
    Kill,
}

/// One lock after the other, until all is over.
pub(super) fn relays(shared: &Shared, number: usize, taste: Taste, mut rng: Rng) {
    let mut turn = 0;
    while !shared.is_over() {
        turn += 1;
        let runners: Option<Vec<_>> = (0..RUNNERS).map(|_| Caller::open(shared)).collect();
        match runners {
            Some(runners) => relay(runners, &format!("relay-{number}-{turn}"), taste, &mut rng),
            None => sleep(rng.up_to(20)),
        }
    }
    shared.done();
}

fn relay(runners: Vec<Caller<'_>>, key: &str, taste: Taste, rng: &mut Rng) {
    let numbers: Vec<i64> = runners.iter().map(Caller::own_number).collect();
    scope(|scope| {
        for (place, caller) in runners.into_iter().enumerate() {
            let (next, rng) = (numbers.get(place + 1).copied(), rng.fork());
            scope.spawn(move || run(caller, key, place, next, taste, rng));
            // So that they come one after the other, mostly.
            sleep(Duration::from_millis(2));
        }
    });
}

/// Waits for the lock, has it for a while, and ends that. None: the connection is gone, or the lock was not to be had.
fn run(
    mut caller: Caller<'_>,
    key: &str,
    place: usize,
    next: Option<i64>,
    taste: Taste,
    mut rng: Rng,
) -> Option<()> {
    let end = match rng.below(5) {
        0 => End::Release,
        1 => End::Break,
        2 => End::Close,
        3 => End::Kill,
        _ => End::Lapse,
    };
    let lease = if matches!(end, End::Lapse) { 10 + rng.below(50) as i64 } else { caller.long_lease() };
    let block = Some(if rng.percent(20) { 1 + rng.below(30) as i64 } else { 0 });
    let owner = format!("{key}-{place}");
    let session = matches!(end, End::Close);
    let room = taste.room(&mut rng);
    let ask =
        Call::Acquire { owner: owner.clone(), lease, block, once: false, session, max_hold: None, room };
    if !matches!(caller.call(key, ask)?, Reply::Granted { .. }) {
        return None;
    }
    sleep(rng.up_to(40));
    let release = Call::Release { owner, all: true };
    match (end, next) {
        (End::Lapse, _) => {}
        (End::Break, _) => _ = caller.call(key, Call::Break)?,
        (End::Close, _) => caller.close(None),
        (End::Kill, Some(next)) => {
            caller.send(key, vec![Call::Info, release, Call::Kill(next)])?;
            sleep(Duration::from_millis(20));
            caller.call(key, Call::Info)?;
        }
        (End::Release | End::Kill, _) => _ = caller.call(key, release)?,
    }
    Some(())
}
