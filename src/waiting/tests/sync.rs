//! `SYNC`, where the worlds have too few replicas, or too little time: replicas that come back in time, and extensions meanwhile.

use std::num::NonZeroU32;

use super::server::{Conn, Reply, Rules, Server, Writes};
use crate::lock::{AcquireRequest, Deadline, Fence, Millis, Owner, Room};
use crate::waiting::table::Offset;
use crate::waiting::{Confirm, ExtendRequest, WaitOptions};

const NOW: Millis = 1_700_000_000_000;
const RULES: Rules = Rules::PLAIN;

/// How long the owner of a session lets replicas take to confirm it.
const WITHIN: u32 = 20;

/// A server, and the time.
struct World {
    server: Server,
    now: Millis,
}

fn owner() -> Owner<'static> {
    Owner::new(b"a").unwrap()
}

/// What another owner asks for.
fn other() -> AcquireRequest<'static> {
    let owner = Owner::new(b"b").unwrap();
    AcquireRequest { owner, lease: 10, max_hold: None, once: false, session: false, room: Room::ONE }
}

fn confirm(replicas: u32, within: u32) -> Option<Confirm> {
    NonZeroU32::new(replicas).map(|replicas| Confirm { replicas, within })
}

impl World {
    fn new() -> Self {
        Self { server: Server::new(2), now: NOW }
    }

    fn acquire(&mut self, lease: Millis, session: bool, replicas: u32) {
        self.acquire_on(0, lease, session, replicas, WITHIN);
    }

    fn acquire_on(&mut self, conn: Conn, lease: Millis, session: bool, replicas: u32, within: u32) {
        let ask =
            AcquireRequest { owner: owner(), lease, max_hold: None, once: false, session, room: Room::ONE };
        let wait = WaitOptions { confirm: confirm(replicas, within), ..WaitOptions::default() };
        assert_eq!(self.server.acquire(RULES, self.now, conn, &ask, &wait), Reply::Waits);
    }

    fn extend_on(&mut self, conn: Conn, lease: Millis) {
        let owner = owner();
        let longer = ExtendRequest { owner: &owner, fence: None, lease, confirm: confirm(1, WITHIN) };
        assert!(self.server.extend_confirmed(RULES, self.now, conn, &longer));
    }

    /// Does all that is due. `hears`: replicas get what they are sent, and say so.
    fn run_due(&mut self, hears: bool) -> Vec<(Conn, Reply)> {
        let (mut told, mut turns) = (Vec::new(), 0);
        loop {
            turns += 1;
            assert!(turns < 100, "kept busy: due at {:?}, now {}", self.server.next_due(), self.now);
            self.server.written += std::mem::take(&mut self.server.effects).len() as Offset;
            if hears {
                self.server.acked = self.server.written;
            }
            if self.server.next_due().is_none_or(|at| at > self.now) {
                return told;
            }
            told.extend(self.server.run_due(RULES, self.now, Writes::Taken));
        }
    }

    /// So much time goes by, and all that falls due is done.
    fn pass(&mut self, ms: Millis, hears: bool) {
        for _ in 0..ms {
            self.run_due(hears);
            self.now += 1;
        }
        self.run_due(hears);
    }

    /// Time goes by as long as that is so, and all that falls due is done. The replica gets nothing.
    fn pass_while(&mut self, is_so: impl Fn(&Self) -> bool) {
        let end = self.now + 1_000;
        while is_so(self) {
            self.pass(1, false);
            assert!(self.now < end, "nothing changes");
        }
    }

    /// The grant that holds the lock, and the end of its lease.
    fn held(&self) -> Option<(Fence, Deadline)> {
        self.server.held(self.now).map(|held| (held.grant.fence(), held.deadline))
    }

    /// A session whose first renewal the replica does not get: the end of the lease that it has.
    fn unconfirmed_renewal(lease: Millis) -> (Self, Fence, Deadline) {
        let mut world = Self::new();
        world.acquire(lease, true, 1);
        assert!(matches!(world.run_due(true)[..], [(0, Reply::Granted { .. })]));
        let (fence, confirmed) = world.held().unwrap();
        world.pass_while(|world| world.held().unwrap().1 == confirmed);
        (world, fence, confirmed)
    }
}

/// It is undone once, and made again: the replica has that one.
#[test]
fn a_session_goes_on_when_the_replica_is_back_in_time() {
    let (mut world, fence, confirmed) = World::unconfirmed_renewal(300);
    world.pass_while(|world| world.held().unwrap().1 != confirmed);
    for _ in 0..10 {
        world.pass(100, true);
        assert_eq!(world.held().map(|(fence, _)| fence), Some(fence), "{} ms", world.now - NOW);
    }
}

/// In its last millisecond it is too late to ask the replica once more.
#[test]
fn a_session_ends_with_the_lease_that_the_replica_has() {
    let (mut world, fence, Deadline::At(last)) = World::unconfirmed_renewal(300) else {
        panic!("no end")
    };
    world.pass_while(|world| world.now < last);
    assert_eq!(world.held(), Some((fence, Deadline::At(last))));
    world.pass(1, false);
    assert_eq!(world.held(), None);
}

/// The lease that the owner has set meanwhile, without `SYNC`, be it longer or shorter.
#[test]
fn a_renewal_that_is_undone_leaves_an_extension_as_it_is() {
    for lease in [50, 1_000] {
        let (mut world, fence, _) = World::unconfirmed_renewal(300);
        let extended = world.server.extend(RULES, world.now, &owner(), None, lease);
        assert_eq!(extended, Some(Deadline::after(world.now, lease)));
        world.pass(Millis::from(WITHIN) + 2, false);
        assert_eq!(world.held(), extended.map(|extended| (fence, extended)));
    }
}

/// What a renewal comes to that replicas confirm only after their time is up, by `undone`: whether it has been undone by then. Time is
/// up with `WITHIN`, or with the lease that there is without it.
fn confirmed_late(within: u32, undone: bool) {
    let mut world = World::new();
    world.acquire_on(0, 300, true, 1, within);
    assert!(matches!(world.run_due(true)[..], [(0, Reply::Granted { .. })]));
    let (fence, confirmed) = world.held().unwrap();
    world.pass_while(|world| world.held().unwrap().1 == confirmed);
    let (renewed, asked) = (world.held().unwrap().1, world.server.written);
    let Deadline::At(last) = confirmed else { panic!("no end") };
    let ends = last.min(world.now + Millis::from(within) + 1);
    // Its time is not up: a command finds it as it is, and its holder counts on what replicas have.
    world.now = ends - 1;
    assert_eq!(world.server.acquire(RULES, world.now, 1, &other(), &WaitOptions::default()), Reply::Null);
    assert_eq!(world.held(), Some((fence, renewed)));
    assert_eq!(world.server.shown(RULES, world.now), [(fence, confirmed)]);
    // Its time is up: a command undoes it, be it that the timer has not run yet.
    world.now = ends;
    if undone {
        assert_eq!(world.server.acquire(RULES, world.now, 1, &other(), &WaitOptions::default()), Reply::Null);
        assert_eq!(world.held(), Some((fence, confirmed)));
    }
    world.server.acked = asked;
    assert_eq!(world.run_due(false), []);
    // Where it has not been undone, the replica has it, and so does its holder.
    let until = if undone { confirmed } else { renewed };
    assert_eq!(world.held(), Some((fence, until)));
    assert_eq!(world.server.shown(RULES, world.now), [(fence, until)]);
}

#[test]
fn a_renewal_that_replicas_confirm_too_late_counts_unless_it_has_been_undone() {
    for within in [WITHIN, 1_000] {
        confirmed_late(within, false);
        confirmed_late(within, true);
    }
}

/// Nobody has looked since the lease was over that replicas had. They have the renewal.
#[test]
fn a_renewal_that_replicas_confirm_after_the_lease_keeps_the_lock_from_others() {
    for confirms in [true, false] {
        let (mut world, fence, Deadline::At(last)) = World::unconfirmed_renewal(300) else {
            panic!("no end")
        };
        let (renewed, asked) = (world.held().unwrap().1, world.server.written);
        world.now = last + 1;
        assert_eq!(world.server.shown(RULES, world.now), []);
        if confirms {
            world.server.acked = asked;
            world.run_due(false);
            assert_eq!(world.server.shown(RULES, world.now), [(fence, renewed)]);
        }
        let acquire =
            |world: &mut World| world.server.acquire(RULES, world.now, 1, &other(), &WaitOptions::default());
        // The command that undoes the renewal finds the lock held still.
        assert_eq!(acquire(&mut world), Reply::Null);
        let reply = acquire(&mut world);
        assert_eq!(matches!(reply, Reply::Granted { .. }), !confirms, "{reply:?}");
    }
}

/// Another connection re-enters, and the replica has that. It does not have the renewal that was made meanwhile.
#[test]
fn a_session_that_another_connection_takes_over_begins_with_the_lease_that_replicas_have() {
    let mut world = World::new();
    world.acquire(300, true, 1);
    world.run_due(true);
    let (fence, confirmed) = world.held().unwrap();
    world.pass(90, true);
    world.acquire_on(1, 300, true, 1, 100);
    world.run_due(false);
    let asked = world.server.written;
    world.pass_while(|world| world.held().unwrap().1 == confirmed);
    world.server.acked = asked;
    assert_eq!(world.run_due(false), [(1, Reply::Granted { fence, holds: 2, deadline: confirmed })]);
    assert_eq!(world.server.session(fence), Some(1));
    assert_eq!(world.server.shown(RULES, world.now), [(fence, confirmed)]);
    world.pass(300, false);
    assert_eq!(world.held(), None);
}

/// What is asked later is not confirmed with that.
#[test]
fn the_answer_tells_no_more_than_replicas_have() {
    let mut world = World::new();
    world.acquire(300, false, 1);
    let (fence, confirmed) = world.held().unwrap();
    world.pass(10, false);
    let asked = world.server.written;
    world.acquire_on(1, 1_000, false, 1, WITHIN);
    let longer = world.held().unwrap().1;
    world.run_due(false);
    world.server.acked = asked;
    assert_eq!(world.run_due(false), [(0, Reply::Granted { fence, holds: 1, deadline: confirmed })]);
    assert_eq!(world.run_due(true), [(1, Reply::Granted { fence, holds: 2, deadline: longer })]);
    world.extend_on(0, 2_000);
    let (_, confirmed) = world.held().unwrap();
    world.run_due(false);
    let asked = world.server.written;
    world.extend_on(1, 3_000);
    let longer = world.held().unwrap().1;
    world.run_due(false);
    world.server.acked = asked;
    assert_eq!(world.run_due(false), [(0, Reply::Extended(confirmed))]);
    assert_eq!(world.run_due(true), [(1, Reply::Extended(longer))]);
}

/// Whichever of them are the first to say that they have it.
#[test]
fn as_many_replicas_as_were_asked_for() {
    for (replicas, acks, is_told) in [
        (1, &[true][..], true),
        (2, &[true], false),
        (2, &[true, false], false),
        (2, &[false, true, false], false),
        (2, &[true, true], true),
        (2, &[false, true, true], true),
        (3, &[true, true], false),
    ] {
        let mut world = World::new();
        world.acquire(1_000, false, replicas);
        world.run_due(false);
        // Those who have nothing of it have said so.
        let before = world.server.acked;
        let acks = acks.iter().map(|has| if *has { world.server.written } else { before });
        let mut acks: Vec<Offset> = acks.collect();
        world.server.acked = acks.remove(0);
        world.server.more_acked = acks;
        let told = world.run_due(false);
        assert_eq!(matches!(told[..], [(0, Reply::Granted { .. })]), is_told, "{replicas}: {told:?}");
        world.now += Millis::from(WITHIN) + 1;
        let told = world.run_due(false);
        assert_eq!(told, if is_told { Vec::new() } else { vec![(0, Reply::NoReplicas)] });
        assert_eq!(world.held().is_some(), is_told);
    }
}
