//! Examples of `SYNC` for which the worlds have too few replicas or too little time.

mod renewals;

use std::num::NonZeroU32;

use super::server::{Conn, Reply, Rules, Server, Writes};
use crate::lock::{AcquireRequest, Deadline, Fence, Millis, Owner};
use crate::waiting::table::Offset;
use crate::waiting::{Confirm, ExtendRequest, WaitOptions};

const NOW: Millis = 1_700_000_000_000;
const RULES: Rules = Rules::PLAIN;

/// The time in ms in which replicas have to confirm the owner's requests.
const WITHIN: u32 = 20;

/// A server, and the present time.
struct World {
    server: Server,
    now: Millis,
}

fn owner() -> Owner<'static> {
    Owner::new(b"a").unwrap()
}

/// Returns the request of another owner.
fn other(lease: Millis) -> AcquireRequest<'static> {
    let owner = Owner::new(b"b").unwrap();
    AcquireRequest::new(owner, lease)
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
        let ask = AcquireRequest { session, ..AcquireRequest::new(owner(), lease) };
        let confirm = confirm(replicas, within);
        let wait = WaitOptions { timeout: Some(0), confirm, ..WaitOptions::default() };
        assert_eq!(self.server.acquire(RULES, self.now, conn, &ask, &wait), Reply::Waits);
    }

    fn extend_on(&mut self, conn: Conn, lease: Millis) {
        let owner = owner();
        let longer = ExtendRequest { owner: &owner, fence: None, lease, confirm: confirm(1, WITHIN) };
        assert!(self.server.extend_confirmed(RULES, self.now, conn, &longer));
    }

    /// Does all due work. With `hears`, the replica gets all effects, and acknowledges them. Returns the answers to clients.
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
            self.server.check();
        }
    }

    /// Lets `ms` milliseconds pass, and does all due work.
    fn pass(&mut self, ms: Millis, hears: bool) {
        for _ in 0..ms {
            self.run_due(hears);
            self.now += 1;
        }
        self.run_due(hears);
    }

    /// Lets time pass while `is_so` is true, and does all due work. The replica gets nothing.
    fn pass_while(&mut self, is_so: impl Fn(&Self) -> bool) {
        let end = self.now + 1_000;
        while is_so(self) {
            self.pass(1, false);
            assert!(self.now < end, "nothing changes");
        }
    }

    /// Returns the fence of the lock's grant, and the end of its lease.
    fn held(&self) -> Option<(Fence, Deadline)> {
        self.server.held(self.now).map(|held| (held.grant.fence(), held.deadline))
    }

    /// Returns a world with a session whose first renewal the replica does not get, the session's fence, and the end of the lease that the
    /// replica has.
    fn unconfirmed_renewal(lease: Millis) -> (Self, Fence, Deadline) {
        let mut world = Self::new();
        world.acquire(lease, true, 1);
        assert!(matches!(world.run_due(true)[..], [(0, Reply::Granted { .. })]));
        let (fence, confirmed) = world.held().unwrap();
        world.pass_while(|world| world.held().unwrap().1 == confirmed);
        (world, fence, confirmed)
    }
}

/// An acknowledgement of one request does not confirm later requests.
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
    assert_eq!(
        world.run_due(false),
        [(0, Reply::Granted { fence, holds: 1, slot: None, deadline: confirmed })]
    );
    assert_eq!(world.run_due(true), [(1, Reply::Granted { fence, holds: 2, slot: None, deadline: longer })]);
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

/// The number of replicas that confirm the grant counts, not which replicas.
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
        // The other replicas have acknowledged only earlier effects.
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

/// A waiter that gets the lock is told when replicas have confirmed the grant. Replicas have only as much time for this as the waiter's
/// `SYNC` says.
#[test]
fn a_waiter_that_replicas_do_not_confirm_in_time_is_told_so_and_has_nothing() {
    for hears in [true, false] {
        let mut world = World::new();
        let reply = world.server.acquire(RULES, world.now, 1, &other(1_000), &WaitOptions::default());
        assert!(matches!(reply, Reply::Granted { .. }), "{reply:?}");
        world.acquire(300, false, 1);
        world.pass(5, hears);
        assert_eq!(world.server.release(RULES, world.now, &other(0).owner, None, false), Some(0));
        let (fence, deadline) = world.held().unwrap();
        world.now += Millis::from(WITHIN);
        let granted = (0, Reply::Granted { fence, holds: 1, slot: None, deadline });
        assert_eq!(world.run_due(hears), if hears { vec![granted] } else { Vec::new() });
        world.now += 1;
        assert_eq!(world.run_due(hears), if hears { Vec::new() } else { vec![(0, Reply::NoReplicas)] });
        assert_eq!(world.held().is_some(), hears);
    }
}

/// A client with a session re-enters with `SYNC`, and replicas do not confirm this in time. Its earlier hold and session go on.
#[test]
fn a_reentry_that_replicas_do_not_confirm_leaves_the_session_as_it_was() {
    let mut world = World::new();
    let ask = AcquireRequest { session: true, ..AcquireRequest::new(owner(), 1_000) };
    world.server.acquire(RULES, world.now, 0, &ask, &WaitOptions::default());
    let fence = world.held().unwrap().0;
    world.acquire(1_000, true, 1);
    world.run_due(false);
    world.now += Millis::from(WITHIN) + 1;
    assert_eq!(world.run_due(false), [(0, Reply::NoReplicas)]);
    assert_eq!(world.server.held(world.now).map(|held| held.grant.holds()), Some(1));
    assert_eq!(world.server.session(fence), Some(0));
}

/// Replicas may confirm a grant that has ended meanwhile.
#[test]
fn a_client_is_not_told_that_it_has_what_it_has_no_more() {
    let mut world = World::new();
    world.acquire(300, false, 1);
    world.run_due(true);
    world.extend_on(0, 1_000);
    world.server.break_(RULES, world.now, None);
    assert_eq!(world.run_due(true), [(0, Reply::NotHeld)]);
    world.acquire(300, false, 1);
    world.server.break_(RULES, world.now, None);
    assert_eq!(world.run_due(true), [(0, Reply::Null)]);
}

/// A client whose time is up, or that is gone, no longer waits for replicas, even if the server is not done with it yet.
#[test]
fn replicas_are_to_confirm_nothing_to_those_who_are_not_to_be_told() {
    for is_gone in [true, false] {
        let late = Rules { late: true, ..RULES };
        let mut world = World::new();
        world.acquire(1_000, false, 1);
        world.run_due(false);
        if is_gone {
            world.server.close(late, world.now, 0);
        } else {
            world.now += Millis::from(WITHIN) + 1;
            world.server.run_due(late, world.now, Writes::Taken);
        }
        assert_eq!(world.server.unfreed(), 1);
        world.server.check();
    }
}
