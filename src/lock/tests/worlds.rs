//! Everything that can happen in small worlds, step by step, against guarantees 1 to 6 of `docs/design.md`.
//!
//! A world in which a guarantee has to fail is here for each that holds: a model that never fails would prove nothing.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::server::Rules;
use super::world::{Clients, EXCLUSION, Failover, Kind, Size};

const RULES: Rules = Rules { max_hold: None, reenter_in_grace: false, extend_in_grace: true };

const ONE_SERVER: Size = Size {
    owners: 2,
    conns: 2,
    leases: &[1],
    horizon: 6,
    kinds: &[Kind::Plain],
    grants: 2,
    holds: 1,
    breaks: false,
    failover: None,
    rules: RULES,
};

/// A replica takes over. The longest lease is 2, as long as the grace.
const FAILOVER: Size = Size {
    conns: 1,
    leases: &[2],
    holds: 2,
    failover: Some(Failover { grace: 2, lives_on: 0, lag: 3, clients: Clients::Strict }),
    ..ONE_SERVER
};

fn failover(change: impl FnMut(&mut Failover)) -> Size {
    let mut size = FAILOVER;
    size.failover.iter_mut().for_each(change);
    size
}

/// Tries all that can happen, until something is found that must not.
fn explore(name: &str, size: Size) -> impl Checker<Size> {
    let began = Instant::now();
    let checker = size.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "figure: {name}: {} states, {} steps between them, up to {} in a row, {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed()
    );
    checker
}

fn holds(name: &str, size: Size) {
    explore(name, size).assert_properties();
}

/// Two owners are found inside their leases; how it comes to that is printed.
fn two_owners(name: &str, size: Size) {
    let path = explore(name, size).assert_any_discovery(EXCLUSION);
    println!("  {:?}", path.into_actions());
}

#[test]
fn three_owners_wait_and_go_away() {
    holds("three owners", Size { owners: 3, kinds: &[Kind::Plain, Kind::Wait, Kind::Once], ..ONE_SERVER });
}

#[test]
fn holds_leases_timeouts_and_breaks() {
    let kinds = &[Kind::Plain, Kind::WaitBriefly, Kind::Once];
    let size = Size { kinds, leases: &[1, 3], horizon: 4, holds: 2, breaks: true, ..ONE_SERVER };
    holds("holds and breaks", size);
}

#[test]
fn sessions() {
    holds("sessions", Size { kinds: &[Kind::Plain, Kind::Session, Kind::WaitWithSession], ..ONE_SERVER });
}

#[test]
fn a_failover_with_a_grace_keeps_owners_apart() {
    holds("failover", FAILOVER);
    let waits = &[Kind::Plain, Kind::Wait];
    holds("failover with waiters", Size { kinds: waits, holds: 1, grants: 1, ..FAILOVER });
}

#[test]
fn without_a_grace_two_owners() {
    two_owners("no grace", failover(|failover| failover.grace = 0));
    two_owners("a grace that is too short", failover(|failover| failover.grace = 1));
}

#[test]
fn a_grace_covers_the_time_that_an_old_primary_lives_on() {
    let lease = &[1];
    let size = failover(|failover| (failover.lives_on, failover.lag) = (1, 1));
    let size = Size { leases: lease, horizon: 5, holds: 1, grants: 1, ..size };
    holds("an old primary lives on", size);
    let size = failover(|failover| (failover.lives_on, failover.lag, failover.grace) = (1, 1, 1));
    two_owners("an old primary lives on for too long", Size { leases: lease, ..size });
}

/// The effect of a release is lost, and that of the next grant: to the new primary, the first owner has it still.
#[test]
fn reentries_in_a_grace_would_make_two_owners() {
    two_owners("re-entry", Size { rules: Rules { reenter_in_grace: true, ..RULES }, ..FAILOVER });
}

/// With extensions in a grace, it is for owners to extend nothing that they have given back.
#[test]
fn clients_that_extend_what_they_do_not_hold() {
    let none = Rules { extend_in_grace: false, ..RULES };
    for (name, clients) in [("anything", Clients::ExtendAnything), ("own count", Clients::CountThemselves)] {
        let size = failover(|failover| failover.clients = clients);
        two_owners(name, size);
        holds("no extensions in the grace", Size { rules: none, ..size });
    }
}
