//! Clients that act at random, and one that watches.

use std::thread::sleep;

use super::clients::{Caller, LEASE, Shared};
use super::record::{Call, Reply, Room};
use super::wire::Locks;
use crate::support::Rng;

/// What clients ask for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Taste {
    /// Exclusive locks.
    Plain,
    /// Shared locks, upgrades to less room, and exclusive locks.
    Mixed,
    /// Several locks at once, shared or exclusive, and sometimes only one of them.
    Several,
}

pub(super) const TASTES: [Taste; 3] = [Taste::Plain, Taste::Mixed, Taste::Several];

impl Taste {
    /// Each kind has its own locks, so that more kinds do not change how often a lock is used.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["a", "b", "c"],
            Self::Mixed => &["x", "y"],
            Self::Several => &["m", "n", "o", "p"],
        }
    }

    /// Chooses some of these locks, in any order.
    pub(super) fn some_of<'k>(self, keys: &[&'k str], rng: &mut Rng) -> Locks<'k> {
        if self != Self::Several || rng.percent(25) {
            return Locks::one(rng.one_of::<&str>(keys));
        }
        let (mut left, count) = (keys.to_vec(), 1 + rng.below(3));
        Locks::all((0..count).map(|_| left.swap_remove(rng.below(left.len()))))
    }

    /// Returns the room of the first request.
    pub(super) fn room(self, rng: &mut Rng) -> Room {
        match self {
            Self::Plain => Room::Plain,
            Self::Mixed => {
                *rng.one_of(&[Room::Plain, Room::Limit(3), Room::Limit(3), Room::Shared, Room::Shared])
            }
            Self::Several => *rng.one_of(&[Room::Plain, Room::Plain, Room::Limit(2), Room::Shared]),
        }
    }

    /// Returns the room of a re-entry.
    fn room_again(self, first: Room, rng: &mut Rng) -> Room {
        if rng.percent(60) { first } else { self.room(rng) }
    }

    /// Returns how long a holder waits for more. Two holders of several locks could wait for each other for ever, so they get a limit.
    fn block_again(self, block: Option<i64>) -> Option<i64> {
        if self == Self::Several { block.map(|ms| if ms == 0 { LEASE / 2 } else { ms }) } else { block }
    }
}

/// Returns a slot to ask for, now and then.
fn some_slot(room: Room, rng: &mut Rng) -> Option<i64> {
    match room {
        Room::Limit(most) if rng.percent(25) => Some(1 + rng.below(most as usize) as i64),
        _ => None,
    }
}

/// A client that acquires locks, until the history is over.
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

/// A turn of a client, from its request to the end of its grant. Returns the connection if it is still open.
fn take_turn<'a>(mut caller: Caller<'a>, owner: &str, taste: Taste, rng: &mut Rng) -> Option<Caller<'a>> {
    let locks = taste.some_of(taste.keys(), rng);
    let lease = |rng: &mut Rng| LEASE / 4 + rng.below(LEASE as usize * 3 / 4) as i64;
    let owner = owner.to_owned();
    let block = *rng.one_of(&[None, Some(0), Some(0), Some(100), Some(1)]);
    let session = rng.percent(15);
    // The maximum age is short enough for extensions and sessions to reach it.
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
        slot: some_slot(room, rng),
    };
    let first = ask(rng, false, block, room);
    // The client closes its connection while it waits.
    if block == Some(0) && rng.percent(10) {
        let sent = caller.begin(&locks, &first);
        sleep(rng.up_to(60));
        caller.close(Some((locks, first, sent)));
        return None;
    }
    let stranger = Call::Release { owner: format!("{owner}-stranger"), all: true };
    if !matches!(caller.ask(locks.clone(), first)?[0], Reply::Granted { .. }) {
        if rng.percent(30) {
            caller.ask(locks, stranger)?;
        }
        sleep(rng.up_to(10));
        return Some(caller);
    }
    // A client that asks for several locks again already has some of them.
    let mut mine = locks;
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
                ask(rng, false, taste.block_again(block), room)
            }
            6 => {
                caller.look_at(&mine.keys)?;
                continue;
            }
            _ => stranger.clone(),
        };
        let others = taste == Taste::Several && rng.percent(40);
        let locks = if others { taste.some_of(taste.keys(), rng) } else { mine.clone() };
        if matches!(again, Call::Acquire { .. }) {
            mine.add(&locks);
        }
        caller.ask(locks, again)?;
    }
    // The client asks for an upgrade to an exclusive grant.
    if room != Room::Plain && rng.percent(30) {
        let block = *rng.one_of(&[None, Some(0), Some(100)]);
        let once = rng.percent(30);
        let upgrade = ask(rng, once, taste.block_again(block), Room::Plain);
        caller.ask(mine.clone(), upgrade)?;
    }
    let release = |all| Call::Release { owner: owner.clone(), all };
    match rng.below(20) {
        // The client does not release the locks: they lapse, or end with the session.
        0 if !session => sleep(rng.up_to(20)),
        0..3 => {
            caller.close(None);
            return None;
        }
        5 => {
            for key in &mine.keys {
                caller.call(key, Call::Break)?;
            }
        }
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
                slot: None,
            };
            caller.send([extend, release(true), next].map(|call| (mine.clone(), call)).into())?;
        }
        9..11 => {
            let left = |replies: &Vec<Reply>| replies.iter().any(|reply| matches!(reply, Reply::Number(1..)));
            while left(&caller.ask(mine.clone(), release(false))?) {}
        }
        // The client releases several locks one by one.
        11..13 => {
            for key in &mine.keys {
                caller.call(key, release(true))?;
                sleep(rng.up_to(3));
            }
        }
        _ => _ = caller.ask(mine, release(true))?,
    }
    Some(caller)
}

/// A client that always watches the queues, and kills a waiter now and then.
pub(super) fn watch(shared: &Shared, mut rng: Rng) {
    let mut caller = None;
    while !shared.is_over() || *shared.working.lock().unwrap() > 0 {
        caller = caller.take().or_else(|| Caller::open(shared)).and_then(|caller| look(caller, &mut rng));
        sleep(rng.up_to(3));
    }
}

fn look<'a>(mut caller: Caller<'a>, rng: &mut Rng) -> Option<Caller<'a>> {
    for taste in TASTES {
        for look in caller.look_at(taste.keys())? {
            if let Reply::Held { queue, .. } = look
                && !queue.is_empty()
                && rng.percent(2)
            {
                let victim = *rng.one_of(&queue);
                caller.kill(victim)?;
            }
        }
    }
    Some(caller)
}
