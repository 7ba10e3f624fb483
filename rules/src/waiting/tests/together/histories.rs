//! Tries long random orders of steps with three locks.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{Step, Want, World};
use crate::lock::Room;
use crate::waiting::tests::server::{Conn, Lock};

const CONNS: Conn = 5;

const SETS: [&[Lock]; 8] = [&[0], &[1], &[2], &[0, 1], &[1, 0], &[1, 2], &[0, 2], &[2, 0, 1]];

fn want() -> impl Strategy<Value = Want> {
    let room = prop_oneof![3 => Just(Room::ONE), 1 => Just(Room::limit(2).unwrap()), 2 => Just(Room::ANY)];
    let block = prop_oneof![2 => Just(None), 3 => Just(Some(0)), 3 => (1..6i64).prop_map(Some)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (select(&SETS[..]), room, block, flags, 1..12i64).prop_map(|(locks, room, block, flags, lease)| {
        let (alone, notify, once, session) = flags;
        Want { locks, alone: alone && locks.len() == 1, room, block, notify, once, session, lease }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let conn = 0..CONNS;
    prop_oneof![
        10 => (conn.clone(), want()).prop_map(|(conn, want)| Step::Ask(conn, want)),
        8 => (conn.clone(), select(&SETS[..])).prop_map(|(conn, locks)| Step::Release(conn, locks)),
        2 => (conn.clone(), select(&SETS[..]), 1..12i64)
            .prop_map(|(conn, locks, lease)| Step::Extend(conn, locks, lease)),
        1 => conn.clone().prop_map(Step::Leave),
        1 => conn.clone().prop_map(Step::Close),
        1 => conn.clone().prop_map(Step::Doom),
        1 => (0..3usize).prop_map(Step::Break),
        1 => (conn, any::<bool>()).prop_map(|(conn, error)| Step::Unblock(conn, error)),
        8 => Just(Step::RunDue(true)),
        1 => Just(Step::RunDue(false)),
        2 => Just(Step::Answer),
        8 => Just(Step::Pass),
        1 => (0..3usize).prop_map(Step::Delete),
        1 => (0..3usize).prop_map(Step::Overwrite),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_waits_in_vain_for_several_locks(
        steps in vec(step(), 1..150),
        owners in 2..6u8,
        slow in any::<bool>(),
        refuses in proptest::bool::weighted(0.2),
        places in any::<bool>(),
    ) {
        let mut world = World { may_be_unclaimed: places, ..World::new(CONNS, owners, slow) };
        for mut step in steps {
            if let (Step::Ask(_, want), false) = (&mut step, places) {
                want.notify = false;
            }
            let Some(step) = world.fits(step).filter(|step| refuses || *step != Step::RunDue(false)) else {
                continue;
            };
            // Time passes only when all due work has been done.
            let mut turns = 0;
            while step == Step::Pass && world.is_due() {
                world.take(Step::RunDue(true));
                turns += 1;
                prop_assert!(turns < 1_000, "the server is kept busy");
            }
            world.take(step);
            prop_assert!(world.faults.is_empty(), "{:?} by {:?}", world.faults, step);
        }
    }
}

impl World {
    /// Changes a step so that this world can take it. Returns `None` if the world can't take it.
    fn fits(&self, step: Step) -> Option<Step> {
        match step {
            Step::Ask(conn, _) | Step::Release(conn, _) | Step::Extend(conn, ..) | Step::Unblock(conn, _)
                if self.server.is_doomed(conn) =>
            {
                None
            }
            Step::Ask(conn, mut want) => {
                let waits = self.waits[usize::from(conn)];
                // A blocked client can't ask. A client with a place can ask only for the same locks.
                if waits.is_some_and(|waits| !waits.notify) {
                    return None;
                }
                // The client would keep its place if it asked for the same locks before the server has given the place up.
                if waits.is_none() && self.queued().contains(&conn) {
                    return None;
                }
                if let Some(waits) = waits {
                    let (locks, alone) = (waits.locks, waits.alone);
                    want = Want { locks, alone, once: true, notify: want.block.is_some(), ..want };
                }
                // Only a client with its own name may have a place.
                want.notify &= self.owners == CONNS && want.block.is_some();
                Some(Step::Ask(conn, want))
            }
            // A blocked client releases nothing: its next answer would be about a grant that it has released.
            Step::Release(conn, _) | Step::Extend(conn, ..) => {
                let blocked = self.waits[usize::from(conn)].is_some_and(|waits| !waits.notify);
                (!blocked || self.owners < CONNS).then_some(step)
            }
            Step::Unblock(conn, _) => {
                self.waits[usize::from(conn)].filter(|waits| !waits.notify).map(|_| step)
            }
            // The model's clients send `LOCK.LEAVE` only for the first lock.
            Step::Leave(conn) => self.waits[usize::from(conn)]
                .filter(|waits| waits.notify && waits.locks.contains(&0))
                .map(|_| step),
            step => Some(step),
        }
    }
}
