//! Tries all orders of steps with two locks and a few clients.

use stateright::{Model, Property};

use super::{NOW, Step, Want, World};
use crate::lock::{Millis, Room};
use crate::waiting::tests::explore;
use crate::waiting::tests::server::{Conn, Lock};
use crate::waiting::tests::soak;

/// The size of a world, and what its clients may do.
#[derive(Clone)]
struct Size {
    conns: Conn,
    owners: u8,
    wants: &'static [Want],
    /// The requests that clients have sent when the world begins.
    begins: Vec<(Conn, Want)>,
    /// The most requests of clients, and deletions of keys, in all.
    asks: u8,
    horizon: Millis,
    closes: bool,
    deletes: bool,
    /// Whether operators break locks, and the server has to close connections of waiters.
    breaks: bool,
    refuses: bool,
    /// Whether clients release locks that their owner no longer holds, or for which another client of the same owner waits.
    late: bool,
    slow: bool,
}

const SMALL: Size = Size {
    conns: 3,
    owners: 3,
    wants: &[Want::ONE, ON_L, Want::BOTH],
    begins: Vec::new(),
    asks: 4,
    horizon: 3,
    closes: false,
    deletes: false,
    breaks: false,
    refuses: false,
    late: false,
    slow: false,
};

const ON_L: Want = Want { locks: &[1], ..Want::ONE };
const READ: Want = Want { room: Room::ANY, ..Want::ONE };
const READ_BOTH: Want = Want { room: Room::ANY, ..Want::BOTH };
const BRIEFLY: Want = Want { block: Some(1), ..Want::BOTH };
const WITH_SESSION: Want = Want { session: true, ..Want::BOTH };
const OTHER_WAY_ROUND: Want = Want { locks: &[1, 0], ..Want::BOTH };

const EACH: [&[Lock]; 2] = [&[0], &[1]];

impl Model for Size {
    type State = (World, u8);
    type Action = Step;

    fn init_states(&self) -> Vec<Self::State> {
        let mut world = World::new(self.conns, self.owners, self.slow);
        self.begins.iter().for_each(|(conn, want)| world.take(Step::Ask(*conn, *want)));
        world.server.renumber(false);
        vec![(world, self.asks)]
    }

    fn actions(&self, (world, asks): &Self::State, steps: &mut Vec<Step>) {
        for conn in 0..self.conns {
            let waits = world.waits[usize::from(conn)].is_some();
            if world.server.is_doomed(conn) {
                continue;
            }
            if !waits && *asks > 0 {
                steps.extend(self.wants.iter().map(|want| Step::Ask(conn, *want)));
            }
            let owner = world.owner(conn);
            let holds = |lock: Lock| {
                world.server.holders_of(lock, world.now).iter().any(|held| held.grant.owner() == owner)
            };
            if !waits && self.late {
                steps.extend(EACH.iter().map(|lock| Step::Release(conn, lock)));
            } else if !waits && conn < self.owners {
                steps.extend(EACH.iter().filter(|lock| holds(lock[0])).map(|lock| Step::Release(conn, lock)));
                if holds(0) && holds(1) {
                    steps.push(Step::Release(conn, &[0, 1]));
                }
            }
            if self.closes {
                steps.push(Step::Close(conn));
                if waits {
                    steps.push(Step::Unblock(conn, false));
                }
            }
        }
        if self.breaks {
            steps.extend([0, 1].map(Step::Break));
            let waiting = (0..self.conns).filter(|conn| world.waits[usize::from(*conn)].is_some());
            steps.extend(waiting.map(Step::Doom));
        }
        if world.is_due() {
            steps.push(Step::RunDue(true));
            if self.refuses {
                steps.push(Step::RunDue(false));
            }
        } else if world.now < NOW + self.horizon {
            steps.push(Step::Pass);
        }
        if self.deletes && *asks > 0 {
            steps.extend([Step::Delete(0), Step::Overwrite(1)]);
        }
    }

    fn next_state(&self, (world, asks): &Self::State, step: Step) -> Option<Self::State> {
        let mut next = world.clone();
        next.take(step);
        next.server.renumber(false);
        // Each change of a key raises a counter in the table, so the number of changes is limited to keep the number of states finite.
        let counts = matches!(step, Step::Ask(..) | Step::Delete(_) | Step::Overwrite(_));
        Some((next, asks - u8::from(counts)))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("nothing that must not be", |_, (world, _): &Self::State| {
            world.faults.is_empty()
        })]
    }
}

fn holds(name: &str, size: Size) {
    explore::holds(name, size, |(world, _)| format!("{:?}", world.faults));
}

#[test]
fn both_or_one() {
    holds("both or one", Size { asks: soak(4, 5), horizon: soak(2, 4), ..SMALL });
    let wants = &[Want::ONE, Want::BOTH, OTHER_WAY_ROUND, BRIEFLY];
    holds("both in any order, and briefly", Size { wants, asks: soak(3, 4), horizon: soak(2, 3), ..SMALL });
}

#[test]
fn both_with_readers() {
    let wants = &[READ, Want::BOTH, READ_BOTH, ON_L];
    holds("both, with readers", Size { wants, asks: soak(3, 4), horizon: soak(2, 3), ..SMALL });
}

#[test]
fn both_by_one_owner_from_two_connections() {
    let wants = &[Want::ONE, Want::BOTH, READ_BOTH];
    holds("one owner", Size { owners: 2, wants, asks: soak(3, 4), horizon: soak(2, 3), ..SMALL });
}

/// Four clients have the same name. One of them is the next waiter, and two of them wait for both locks, ahead of the fourth.
#[test]
fn one_and_both_by_four_of_one_name() {
    let begins = vec![(0, Want::BOTH), (1, Want::ONE), (2, Want::BOTH), (3, Want::BOTH), (4, Want::ONE)];
    let size = Size { conns: 5, owners: 2, wants: &[], asks: 0, begins, closes: true, horizon: 0, ..SMALL };
    for slow in soak(&[false][..], &[false, true]) {
        holds("four of one name", Size { slow: *slow, ..size.clone() });
    }
}

/// One of two holders has lapsed, and nobody has looked at the lock since. Then another client of the waiter's owner releases the lock.
/// This gives the waiter the lock, or an upgrade, and must not release the grant of which the waiter is told.
#[test]
fn a_release_when_another_holder_has_just_lapsed() {
    let pair = Want { room: Room::limit(2).unwrap(), ..Want::ONE };
    let briefly = Want { lease: 1, ..pair };
    let size = Size { conns: 4, wants: &[], asks: 0, late: true, ..SMALL };
    for slow in [false, true] {
        let begins = vec![(0, briefly), (1, pair), (2, pair)];
        holds("a new grant beside a release", Size { slow, begins, ..size.clone() });
        let begins = vec![(0, briefly), (2, pair), (3, Want { once: true, ..Want::ONE })];
        holds("an upgrade beside a release", Size { slow, begins, ..size.clone() });
    }
}

/// The owner already has one of the locks. If its client goes away before it is told of both locks, its new holds are taken back.
#[test]
fn both_by_one_who_has_one_of_them() {
    let begins = vec![(1, Want::ONE), (0, ON_L), (2, Want::BOTH)];
    let size = Size { owners: 2, wants: &[], asks: 0, begins, closes: true, slow: true, ..SMALL };
    holds("both, where one is held", Size { horizon: soak(1, 3), ..size });
}

/// A client waits for both locks, and another client of the same owner waits for one of them, behind others. When the first gets both, the
/// other re-enters, although a third owner holds the lock, too.
#[test]
fn both_by_one_of_two_clients_of_a_name() {
    let pair = Want { room: Room::limit(2).unwrap(), lease: 9, ..Want::ONE };
    let both = Want { locks: &[0, 1], alone: false, ..pair };
    let begins = vec![(0, pair), (1, ON_L), (2, both), (1, Want::ONE), (3, pair)];
    let size = Size { conns: 4, wants: &[], asks: 0, begins, ..SMALL };
    holds("both by one of two of a name", size);
}

#[test]
fn both_beside_other_events() {
    let size = Size { asks: soak(3, 4), horizon: soak(1, 2), ..SMALL };
    let wants = &[Want::ONE, Want::BOTH, WITH_SESSION];
    holds(
        "both, and connections that close",
        Size { closes: true, wants, conns: soak(2, 3), ..size.clone() },
    );
    holds("both, and keys that are deleted", Size { deletes: true, conns: soak(2, 3), ..size.clone() });
    holds("both, and writes that are refused", Size { refuses: true, ..size.clone() });
    holds("both, in several turns", Size { slow: true, ..size.clone() });
    let size = Size { slow: true, closes: true, wants: &[Want::ONE, Want::BOTH], conns: soak(2, 3), ..size };
    holds("both, in several turns, and connections that close", size);
}

/// Any number of breaks and lost connections in one turn, at two locks with a session each, and with two permits.
#[test]
fn sessions_and_breaks_in_one_turn() {
    let pair = Want { room: Room::limit(2).unwrap(), lease: 9, ..Want::ONE };
    let (session, both) = (Want { session: true, ..pair }, Want { locks: &[0, 1], alone: false, ..pair });
    let on_l = Want { locks: &[1], ..session };
    let begins = vec![(0, session), (1, on_l), (2, pair), (3, both)];
    let size = Size { conns: 4, owners: 4, wants: &[], asks: 0, begins, horizon: 0, ..SMALL };
    for slow in soak(&[false][..], &[false, true]) {
        let size = Size { slow: *slow, breaks: true, closes: true, ..size.clone() };
        holds("sessions and breaks in one turn", size);
    }
}
