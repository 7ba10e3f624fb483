//! A model of waiters with `START`, by the rules of `docs/protocol.md`, in small worlds: commands, replies and messages are late, out of
//! order or lost, connections close, clients freeze and give up, an operator breaks the lock, and a replica takes over.
//!
//! `client` has the rules of a client. For each rule, a test breaks the rule and must find a fault.

mod client;
mod model;

use stateright::{Checker, HasDiscoveries, Model};

use super::server::{Conn, Rules};
use super::soak;
use client::{Breach, Command, Wish};
use model::Action::{self, FailOver, Pass, Read, Replicate, RunDue, Serve};
use model::{ALONE, NOTHING_STAYS, Size, World};

const SMALL: Size = Size {
    clients: 2,
    acquires: 2,
    room: 1,
    horizon: 5,
    breaks: false,
    closes: false,
    failover: false,
    breach: None,
    rules: Rules { claim: 2, ..Rules::PLAIN },
};

/// A world in which a replica takes over, with a grace as long as the longest lease.
const FAILOVER: Size = Size { failover: true, rules: Rules { grace: 3, ..SMALL.rules }, ..SMALL };

fn explore(name: &str, size: Size) -> impl Checker<Size> {
    let checker = size.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("figure: start, {name}: {states} states, up to {depth} steps in a row");
    checker
}

fn holds(name: &str, size: Size) {
    explore(name, size).assert_properties();
}

/// Checks that the guarantee fails if clients break this rule, and prints the steps to the fault.
fn fails(guarantee: &'static str, breach: Breach, size: Size) {
    let path = explore(&format!("{breach:?}"), Size { breach: Some(breach), ..size })
        .assert_any_discovery(guarantee);
    println!("  {:?}", path.into_actions());
}

fn acquire(who: Conn) -> Action {
    Action::Begin(who, Wish::Send(Command::Acquire))
}

fn give_up(who: Conn) -> Action {
    Action::Begin(who, Wish::GiveUp)
}

#[test]
fn nobody_works_on_what_another_has() {
    holds("alone", Size { horizon: soak(3, 6), ..SMALL });
    holds("connections close", Size { closes: true, horizon: soak(2, 5), ..SMALL });
    holds("breaks", Size { breaks: true, horizon: soak(2, 5), ..SMALL });
}

#[test]
fn two_permits_have_two_slots() {
    holds("permits", Size { clients: 3, room: 2, acquires: 1, horizon: soak(2, 4), ..SMALL });
}

/// The message says how long the grant lasts, even if this is less than the time to claim a grant.
#[test]
fn the_longest_lease_may_be_below_the_time_to_claim() {
    let rules = Rules { max_lease: Some(1), ..SMALL.rules };
    holds("short leases", Size { rules, horizon: soak(3, 5), ..SMALL });
}

#[test]
fn a_failover_with_a_grace_keeps_them_apart() {
    holds("failover", Size { horizon: soak(5, 7), acquires: 1, ..FAILOVER });
    let rules = Rules { grace: 0, ..FAILOVER.rules };
    let size = Size { rules, acquires: 1, ..FAILOVER };
    explore("failover without a grace", size).assert_any_discovery(ALONE);
}

#[test]
fn what_each_rule_is_there_for() {
    fails(ALONE, Breach::AnyMessage, SMALL);
    fails(ALONE, Breach::FromMessage, SMALL);
    fails(ALONE, Breach::FromReply, SMALL);
    fails(ALONE, Breach::AtGranted, Size { closes: true, ..SMALL });
    fails(NOTHING_STAYS, Breach::NoRelease, SMALL);
}

/// This is why the message has a number. A client gets the old server's message after it has asked the new server. Comparing fences is not
/// enough: the new server may not know the old grant's fence.
#[test]
fn a_late_message_of_another_server_starts_nothing() {
    for (breach, alone) in [(None, true), (Some(Breach::Floor), false)] {
        let size = Size { breach, ..FAILOVER };
        let mut world = World::new(size);
        world.all(size, &[acquire(0), Serve(0), Read(0), Replicate, acquire(1), Serve(1), Read(1)]);
        world.all(size, &[give_up(0), Serve(0), RunDue, FailOver]);
        world.all(size, &[acquire(0), Serve(0), Read(0), Pass, Pass, acquire(1), Serve(1), Read(1)]);
        let late = world.mail().next().expect("the message");
        world.all(size, &[late, Pass, Pass, RunDue]);
        assert_eq!(world.keeps_clients_apart(size.room), alone, "{breach:?}");
    }
}
