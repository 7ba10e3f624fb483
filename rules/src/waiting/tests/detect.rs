//! Compares `DETECT` with the real outcome of waits: in all states that a few clients can reach with a few locks, for each wait that could
//! begin there.
//!
//! - A wait that would end is never reported as a cycle. To find out whether a wait ends, the wait begins, and every owner that does not
//!   wait releases its locks.
//! - A wait that would never end is reported if its own owner's locks are the cause, so that it would end if the owner released them. The
//!   test may first remove other owners, so that a cycle among them does not hide a cycle with this wait.
//! - A reported cycle leads from the new wait back to it, through locks that are held and queues that exist. (A cycle may also be reported
//!   if a release by the owner would not be enough, because somebody waits for this owner and also for another owner that never releases.)

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::server::{Conn, Lock, Queued, Reply, Rules, Server};
use super::soak;
use crate::lock::{AcquireRequest, Millis, Owner, Room, Slot, SlotRequest};
use crate::waiting::{Channel, Cycle, WaitOptions};

const NOW: Millis = 1_700_000_000_000;
const LOCKS: std::ops::Range<Lock> = 0..3;
const NAMES: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
const RULES: Rules = Rules { claim: 1_000_000, ..Rules::PLAIN };

type Name = usize;

/// The request of a client, and its owner name, if this is not the client's usual name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Want {
    locks: &'static [Lock],
    room: Room,
    slot: Option<SlotRequest>,
    name: Option<Name>,
    session: bool,
    notify: bool,
}

fn want(locks: &'static [Lock]) -> Want {
    Want { locks, room: Room::ONE, slot: None, name: None, session: false, notify: false }
}

fn read(locks: &'static [Lock]) -> Want {
    Want { room: Room::ANY, ..want(locks) }
}

fn session(locks: &'static [Lock], name: Name) -> Want {
    Want { session: true, name: Some(name), ..want(locks) }
}

struct World {
    conns: Conn,
    /// The number of names. Clients whose numbers are equal modulo `names` have the same name.
    names: usize,
    wants: Vec<Want>,
}

#[derive(Clone, Debug)]
struct State {
    server: Server,
    /// For each waiting client, its name and its request.
    waits: Vec<Option<(Name, Want)>>,
}

fn owner(name: Name) -> Owner<'static> {
    Owner::new(NAMES[name]).unwrap()
}

impl State {
    fn name(world: &World, conn: Conn, want: Want) -> Name {
        want.name.unwrap_or(usize::from(conn) % world.names)
    }

    /// Sends a request, and does all due work. Returns the reply.
    fn ask(&mut self, world: &World, conn: Conn, want: Want, detect: bool) -> Reply {
        let name = Self::name(world, conn, want);
        let Want { locks, room, slot, session, notify, .. } = want;
        let ask = AcquireRequest {
            room,
            slot,
            session,
            once: notify,
            ..AcquireRequest::new(owner(name), 1_000_000)
        };
        let wait = WaitOptions {
            timeout: Some(0),
            channel: notify.then(|| Channel { address: [conn].into(), wanted: false, start: None }),
            detect,
            confirm: None,
        };
        let reply = match locks {
            [lock] => self.server.acquire_on(RULES, NOW, conn, *lock, &ask, &wait),
            locks => self.server.acquire_all(RULES, NOW, conn, locks, &ask, &wait),
        };
        if matches!(reply, Reply::Waits | Reply::Queued) {
            self.waits[usize::from(conn)] = Some((name, want));
        }
        self.run_due();
        reply
    }

    /// Does all due work. Returns the clients whose waits have ended.
    fn run_due(&mut self) -> Vec<Conn> {
        self.server.run_all_due(RULES, NOW);
        self.server.messages.clear();
        self.server.effects.clear();
        let queued: Vec<Queued> =
            LOCKS.flat_map(|lock| self.server.asks_of(lock)).map(|asked| asked.by).collect();
        let mut over = Vec::new();
        for (conn, waits) in (0..).zip(&mut self.waits) {
            let is_over = |(name, _): &mut (Name, Want)| {
                !queued.contains(&Queued::Blocked(conn)) && !queued.contains(&Queued::Notified(owner(*name)))
            };
            over.extend(waits.take_if(is_over).map(|_| conn));
        }
        over
    }

    fn release(&mut self, lock: Lock, owner: &Owner<'_>) {
        self.server.release_all(RULES, NOW, &[lock], owner, true);
    }

    fn is_waiting(&self, name: Name) -> bool {
        self.waits.iter().flatten().any(|(waits, _)| *waits == name)
    }

    fn is_blocked(&self, conn: Conn) -> bool {
        self.waits[usize::from(conn)].is_some_and(|(_, want)| !want.notify)
    }

    /// Returns all held locks, each with its owner's name, and the connection of its session if there is one.
    fn held(&self) -> Vec<(Lock, Name, Option<Conn>)> {
        let held = LOCKS.flat_map(|lock| {
            self.server.holders_of(lock, NOW).into_iter().map(move |held| (lock, held.grant))
        });
        held.map(|(lock, grant)| {
            let name = (0..NAMES.len()).find(|name| owner(*name) == grant.owner()).unwrap();
            (lock, name, self.server.session_of(lock, grant.fence()))
        })
        .collect()
    }

    /// Whether the wait of a client ends, if every owner that does not wait releases its locks.
    fn ends(mut self, asker: Conn) -> bool {
        let mut active: BTreeSet<Name> = (0..NAMES.len()).filter(|name| !self.is_waiting(*name)).collect();
        for _ in 0..100 {
            for conn in 0..self.waits.len() as Conn {
                // A client whose wait has ended will release its locks.
                let before = self.waits[usize::from(conn)];
                if before.is_some_and(|(_, want)| !self.is_queued(conn, want)) {
                    self.waits[usize::from(conn)] = None;
                    active.extend(before.map(|(name, _)| name));
                }
            }
            if self.waits[usize::from(asker)].is_none() {
                return true;
            }
            let free = self.held().into_iter().find(|(_, name, session)| {
                active.contains(name) && !session.is_some_and(|conn| self.is_blocked(conn))
            });
            let Some((lock, name, _)) = free else { return false };
            self.release(lock, &owner(name));
            self.server.run_all_due(RULES, NOW);
        }
        panic!("what is given back is held still: {}", self.key());
    }

    fn is_queued(&self, conn: Conn, want: Want) -> bool {
        let is_its = |queued: &Queued| match queued {
            Queued::Blocked(other) => *other == conn,
            Queued::Notified(owner) => self.waits[usize::from(conn)]
                .is_some_and(|(name, want)| want.notify && *owner == self::owner(name)),
        };
        want.locks.iter().any(|lock| self.server.asks_of(*lock).iter().any(|asked| is_its(&asked.by)))
    }

    /// Removes the clients with this name, and everything that they hold and wait for.
    fn remove_owner(&mut self, name: Name) {
        for conn in 0..self.waits.len() as Conn {
            let Some((_, want)) = self.waits[usize::from(conn)].take_if(|(waits, _)| *waits == name) else {
                continue;
            };
            // Grants of other names on the same connection must stay.
            if !want.notify {
                self.server.unblock(RULES, NOW, conn, true);
            } else if want.locks == [0] {
                self.server.leave_on(RULES, NOW, 0, &owner(name));
            } else {
                assert!(self.held().iter().all(|(_, _, session)| *session != Some(conn)));
                self.server.close(RULES, NOW, conn);
            }
        }
        for (lock, holds, _) in self.held() {
            if holds == name {
                self.release(lock, &owner(name));
            }
        }
        self.run_due();
    }

    /// Whether a wait that has just begun would never end because of what its owner holds.
    fn is_deadlock(&self, asker: Conn) -> bool {
        if self.clone().ends(asker) {
            return false;
        }
        let (name, want) = self.waits[usize::from(asker)].unwrap();
        let mut without = self.clone();
        for (lock, holds, session) in self.held() {
            if holds == name || session == Some(asker) && !want.notify {
                without.release(lock, &owner(holds));
            }
        }
        without.run_due();
        without.waits[usize::from(asker)].is_none() || without.ends(asker)
    }

    /// Whether the wait would never end, if any of the other owners may be removed first.
    fn is_deadlock_among_some(&self, asker: Conn) -> bool {
        let (own, _) = self.waits[usize::from(asker)].unwrap();
        (0..1_u32 << NAMES.len()).filter(|set| set & 1 << own == 0).any(|set| {
            let mut some = self.clone();
            for name in (0..NAMES.len()).filter(|name| set & 1 << name != 0) {
                some.remove_owner(name);
            }
            some.waits[usize::from(asker)].is_some() && some.is_deadlock(asker)
        })
    }

    /// Returns a text that differs for different states.
    fn key(&self) -> String {
        let locks = LOCKS.map(|lock| {
            let held = self.server.holders_of(lock, NOW).into_iter();
            let held: Vec<_> = held
                .map(|held| {
                    let grant = held.grant;
                    let session = self.server.session_of(lock, grant.fence());
                    (grant.owner().into_owned(), grant.room(), grant.slot(), session)
                })
                .collect();
            let queue = self.server.asks_of(lock).into_iter();
            (held, queue.map(|asked| (asked.by, asked.owner, asked.room)).collect::<Vec<_>>())
        });
        format!("{:?} {:?}", locks.collect::<Vec<_>>(), self.waits)
    }

    /// Checks that each link of a reported cycle is true.
    fn check_cycle(&self, cycle: &Cycle, asker: Name) {
        assert_eq!(cycle[0].waiter, owner(asker));
        for (link, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
            let lock = LOCKS.into_iter().find(|lock| super::server::KEYS[*lock] == &*link.id.key).unwrap();
            let named = |name: &Owner<'_>| *name == link.other;
            if link.behind {
                assert!(self.server.asks_of(lock).iter().any(|asked| named(&asked.owner)), "{cycle:?}");
            } else {
                let held = self.server.holders_of(lock, NOW);
                assert!(held.iter().any(|held| named(&held.grant.owner())), "{cycle:?}");
            }
            let waits = self.waits.iter().flatten().any(|(name, _)| owner(*name) == next.waiter);
            assert!(waits || next.waiter == owner(asker), "{cycle:?}");
        }
    }
}

fn check_all(title: &str, conns: Conn, names: usize, wants: &[Want]) {
    let began = std::time::Instant::now();
    let world = &World { conns, names, wants: wants.to_vec() };
    let first = State { server: Server::new(world.conns), waits: vec![None; usize::from(world.conns)] };
    let (mut seen, mut next) = (HashSet::from([first.key()]), VecDeque::from([first]));
    let (mut asked, mut cycles) = (0, 0);
    while let Some(table) = next.pop_front() {
        let mut reached = Vec::new();
        for conn in 0..world.conns {
            if table.is_blocked(conn) {
                continue;
            }
            for want in &world.wants {
                let waits = table.waits[usize::from(conn)];
                if waits.is_some_and(|(_, waits)| !want.notify || waits != *want) {
                    continue;
                }
                let mut joined = table.clone();
                let reply = joined.ask(world, conn, *want, false);
                let told = table.clone().ask(world, conn, *want, true);
                let name = State::name(world, conn, *want);
                if matches!(reply, Reply::Waits | Reply::Queued) {
                    asked += 1;
                    let is_deadlock = joined.is_deadlock_among_some(conn);
                    let case = || format!("{title}: {conn} asks {want:?} in {}", table.key());
                    if let Reply::Cycle(cycle) = &told {
                        assert!(is_deadlock || !joined.clone().ends(conn), "{}", case());
                        table.check_cycle(cycle, name);
                        cycles += 1;
                    } else {
                        assert_eq!(told, reply);
                        assert!(!is_deadlock, "{}", case());
                    }
                } else {
                    assert!(!matches!(told, Reply::Cycle(_)), "{told:?}, not {reply:?}");
                }
                reached.push(joined);
            }
        }
        for (lock, name, session) in table.held() {
            if !table.is_waiting(name) && !session.is_some_and(|conn| table.is_blocked(conn)) {
                let mut released = table.clone();
                released.release(lock, &owner(name));
                released.run_due();
                reached.push(released);
            }
        }
        next.extend(reached.into_iter().filter(|table| seen.insert(table.key())));
    }
    println!(
        "figure: {title}: {} states, {asked} waits, {cycles} cycles, {:.1?}",
        seen.len(),
        began.elapsed()
    );
    assert!(cycles > 0, "{title}: no cycle at all");
}

#[test]
fn one_lock_after_the_other() {
    check_all("plain locks", soak(3, 4), soak(3, 4), &[want(&[0]), want(&[1]), want(&[2])]);
}

#[test]
fn readers_and_upgrades() {
    check_all("readers", soak(3, 4), soak(3, 4), &[read(&[0]), want(&[0]), want(&[1])]);
}

/// An upgrade goes ahead of waiters for several locks.
#[test]
fn upgrades_and_several() {
    check_all("upgrades and several", 3, 3, &[read(&[0]), want(&[0]), want(&[0, 2]), want(&[2])]);
}

#[test]
fn limits() {
    let two = Want { room: Room::limit(2).unwrap(), ..want(&[0]) };
    check_all("limits", 3, 3, &[two, want(&[1]), want(&[2])]);
}

/// Another holder may have the requested slot although there is room.
#[test]
fn slots() {
    let permit = |slot| Want { room: Room::limit(2).unwrap(), slot: Some(slot), ..want(&[0]) };
    let first = permit(SlotRequest::This(Slot::FIRST));
    check_all("slots", 3, 3, &[first, permit(SlotRequest::Least), want(&[1])]);
}

#[test]
fn several_at_once() {
    check_all("several", soak(3, 4), soak(3, 4), &[want(&[0, 1]), want(&[0]), want(&[2])]);
    check_all("several, and readers", 3, 3, &[read(&[0, 1]), want(&[1]), want(&[2])]);
}

/// Owners with places may ask again, and keep their places.
#[test]
fn places() {
    let place = |want: Want| Want { notify: true, ..want };
    check_all("places", 3, 3, &[place(want(&[0])), place(read(&[0])), want(&[1]), place(want(&[2]))]);
}

#[test]
fn a_name_that_is_shared() {
    check_all("a shared name", 3, 2, &[want(&[0]), want(&[1]), read(&[1])]);
}

#[test]
fn connections_with_several_names() {
    check_all("sessions", 2, 2, &[session(&[0], 0), session(&[1], 1), session(&[0], 2)]);
    let place = Want { notify: true, ..session(&[0], 3) };
    check_all("sessions and places", 2, 2, &[session(&[0], 0), session(&[1], 1), session(&[0], 2), place]);
}
