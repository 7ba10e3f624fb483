//! Clients that do what they like, and one that looks on.

use std::thread::sleep;

use super::clients::{Caller, LEASE, Shared};
use super::record::{Call, Reply, Room};
use crate::support::Rng;

/// What clients ask for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Taste {
    /// Locks for themselves alone.
    Plain,
    /// Locks that they share with others, and with less room later; and for themselves alone.
    Mixed,
}

impl Taste {
    /// Each taste has locks of its own, so that those of the other are as often asked for as without it.
    pub(super) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["a", "b", "c"],
            Self::Mixed => &["x", "y"],
        }
    }

    /// What to ask for first.
    pub(super) fn room(self, rng: &mut Rng) -> Room {
        match self {
            Self::Plain => Room::Plain,
            Self::Mixed => {
                *rng.one_of(&[Room::Plain, Room::Limit(3), Room::Limit(3), Room::Shared, Room::Shared])
            }
        }
    }

    /// What to ask for again.
    fn room_again(self, first: Room, rng: &mut Rng) -> Room {
        if rng.percent(60) { first } else { self.room(rng) }
    }
}

/// A client that takes locks, until all is over.
pub(super) fn work(shared: &Shared, number: usize, taste: Taste, mut rng: Rng) {
    let mut caller = None;
    let mut turn = 0;
    while !shared.is_over() {
        turn += 1;
        caller = match caller.take().or_else(|| Caller::open(shared)) {
            Some(caller) => take_turn(caller, &format!("{number}-{turn}"), taste, &mut rng),
            None => {
                sleep(rng.up_to(20));
                None
            }
        };
    }
    shared.done();
}

/// One lock, from the question to its end. The connection, where it is still open.
fn take_turn<'a>(mut caller: Caller<'a>, owner: &str, taste: Taste, rng: &mut Rng) -> Option<Caller<'a>> {
    let key = *rng.one_of(taste.keys());
    let lease = |rng: &mut Rng| LEASE / 4 + rng.below(LEASE as usize * 3 / 4) as i64;
    let owner = owner.to_owned();
    let block = *rng.one_of(&[None, Some(0), Some(0), Some(100), Some(1)]);
    let session = rng.percent(15);
    // Short: extensions and sessions would go beyond it.
    let max_hold = rng.percent(20).then(|| 2 + rng.below(40) as i64);
    let room = taste.room(rng);
    let ask = |rng: &mut Rng, once, block, room| Call::Acquire {
        owner: owner.clone(),
        lease: lease(rng),
        block,
        once,
        session,
        max_hold,
        room,
    };
    let first = ask(rng, false, block, room);
    // Goes away while it waits.
    if block == Some(0) && rng.percent(10) {
        let sent = caller.begin(key, &first);
        sleep(rng.up_to(60));
        caller.close(Some((key, first, sent)));
        return None;
    }
    let stranger = Call::Release { owner: format!("{owner}-stranger"), all: true };
    if !matches!(caller.call(key, first)?, Reply::Granted { .. }) {
        if rng.percent(30) {
            caller.call(key, stranger)?;
        }
        sleep(rng.up_to(10));
        return Some(caller);
    }
    for _ in 0..rng.below(3) {
        sleep(rng.up_to(8));
        let again = match rng.below(8) {
            0..3 => Call::Extend { owner: owner.clone(), lease: lease(rng) },
            3 | 4 => {
                let room = taste.room_again(room, rng);
                ask(rng, true, None, room)
            }
            5 => {
                let room = taste.room_again(room, rng);
                ask(rng, false, block, room)
            }
            6 => Call::Info,
            _ => stranger.clone(),
        };
        caller.call(key, again)?;
    }
    // Now it wants the lock for itself alone.
    if room != Room::Plain && rng.percent(30) {
        let block = *rng.one_of(&[None, Some(0), Some(100)]);
        let once = rng.percent(30);
        let upgrade = ask(rng, once, block, Room::Plain);
        caller.call(key, upgrade)?;
    }
    let release = Call::Release { owner: owner.clone(), all: true };
    match rng.below(20) {
        // Forgets it: it lapses, or goes with the session.
        0 if !session => sleep(rng.up_to(20)),
        0..3 => {
            caller.close(None);
            return None;
        }
        5 => _ = caller.call(key, Call::Break)?,
        6..9 => {
            let extend = Call::Extend { owner: owner.clone(), lease: lease(rng) };
            let next = Call::Acquire {
                owner: format!("{owner}-next"),
                lease: 50,
                block: Some(0),
                once: false,
                session: false,
                max_hold: None,
                room,
            };
            caller.send(key, vec![extend, release, next])?;
        }
        9..11 => {
            while let Reply::Number(1..) =
                caller.call(key, Call::Release { owner: owner.clone(), all: false })?
            {}
        }
        _ => _ = caller.call(key, release)?,
    }
    Some(caller)
}

/// One that looks at the queues all the time, and kills who waits now and then.
pub(super) fn watch(shared: &Shared, mut rng: Rng) {
    let mut caller = None;
    while !shared.is_over() || *shared.working.lock().unwrap() > 0 {
        caller = caller.take().or_else(|| Caller::open(shared)).and_then(|caller| look(caller, &mut rng));
        sleep(rng.up_to(3));
    }
}

fn look<'a>(mut caller: Caller<'a>, rng: &mut Rng) -> Option<Caller<'a>> {
    for key in [Taste::Plain, Taste::Mixed].map(Taste::keys).concat() {
        if let Reply::Held { queue, .. } = caller.call(key, Call::Info)?
            && !queue.is_empty()
            && rng.percent(2)
        {
            let victim = *rng.one_of(&queue);
            caller.call(key, Call::Kill(victim))?;
        }
    }
    Some(caller)
}
