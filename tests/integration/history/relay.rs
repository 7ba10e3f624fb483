//! Locks that only the clients of a relay use: if the module forgets something there, no other command makes up for it.

use std::thread::{scope, sleep};
use std::time::Duration;

use super::clients::{Caller, Shared};
use super::record::{Call, Reply, Room};
use super::turns::Taste;
use super::wire::Locks;
use crate::support::Rng;

/// How many clients take a lock in turn.
const RUNNERS: usize = 3;

/// How a client ends its grant.
enum End {
    Lapse,
    Release,
    Break,
    /// The client has a session, and closes its connection.
    Close,
    /// The client kills the connection of the next client in the step that hands the lock on.
    Kill,
}

/// Runs relays, each on locks of its own, until the history is over.
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

fn relay(runners: Vec<Caller<'_>>, name: &str, taste: Taste, rng: &mut Rng) {
    let numbers: Vec<i64> = runners.iter().map(Caller::own_number).collect();
    let count = if taste == Taste::Several { 3 } else { 1 };
    let keys: Vec<String> = (0..count).map(|number| format!("{name}-{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    scope(|scope| {
        for (place, caller) in runners.into_iter().enumerate() {
            let (next, rng, keys) = (numbers.get(place + 1).copied(), rng.fork(), &keys);
            scope.spawn(move || run(caller, keys, place, next, taste, rng));
            // With this pause, the clients mostly queue up in order.
            sleep(Duration::from_millis(2));
        }
    });
}

/// Asks for a free lock together with a held one. Mostly it gets neither; otherwise it releases both.
fn ask_in_vain(caller: &mut Caller<'_>, taken: &str, name: &str) -> Option<()> {
    let (free, owner) = (format!("{name}-free"), format!("{name}-in-vain"));
    let locks = Locks::all([&free[..], taken]);
    let (lease, room) = (caller.long_lease(), Room::Plain);
    let ask = Call::Acquire {
        owner: owner.clone(),
        lease,
        block: None,
        once: false,
        session: false,
        max_hold: None,
        room,
        slot: None,
    };
    match caller.ask(locks.clone(), ask)?[0] {
        Reply::Granted { .. } => _ = caller.ask(locks, Call::Release { owner, all: true })?,
        _ => _ = caller.look_at(&locks.keys)?,
    }
    Some(())
}

/// Waits for its locks, holds them for a while, and ends the grant. Returns `None` if it did not get them, or is disconnected.
fn run(
    mut caller: Caller<'_>,
    keys: &[&str],
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
    // All clients want the first lock, so that each hands it to the next one.
    let mut locks = Locks::one(keys[0]);
    locks.add(&taste.some_of(keys, &mut rng));
    let owner = format!("{}-{place}", keys[0]);
    if taste == Taste::Several && place > 0 {
        ask_in_vain(&mut caller, keys[0], &owner)?;
    }
    let session = matches!(end, End::Close);
    let room = taste.room(&mut rng);
    let ask = Call::Acquire {
        owner: owner.clone(),
        lease,
        block,
        once: false,
        session,
        max_hold: None,
        room,
        slot: None,
    };
    if !matches!(caller.ask(locks.clone(), ask)?[0], Reply::Granted { .. }) {
        return None;
    }
    sleep(rng.up_to(40));
    let release = Call::Release { owner, all: true };
    match (end, next) {
        (End::Lapse, _) => {}
        (End::Break, _) => {
            for key in &locks.keys {
                caller.call(key, Call::Break)?;
            }
        }
        (End::Close, _) => caller.close(None),
        (End::Kill, Some(next)) => {
            let looks = keys.iter().map(|key| (Locks::one(key), Call::Info));
            let kill = (Locks::one(""), Call::Kill(next));
            caller.send(looks.chain([(locks, release), kill]).collect())?;
            sleep(Duration::from_millis(20));
            caller.look_at(keys)?;
        }
        (End::Release | End::Kill, _) => _ = caller.ask(locks, release)?,
    }
    Some(())
}
