//! Everything that can happen in small worlds, step by step, against guarantees 1 to 6 of `docs/design.md`.
//!
//! A world in which a guarantee has to fail is here for each that holds: a model that never fails would prove nothing.

mod promotion;

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::server::Rules;
use super::soak;
use super::world::{Happens, Kind, Size};
use crate::lock::Room;

const ONE_SERVER: Size = Size {
    owners: 2,
    conns: 2,
    leases: &[1],
    horizon: 6,
    kinds: &[Kind::Plain],
    grants: 2,
    holds: 1,
    breaks: false,
    happens: NOTHING_ELSE,
    failover: None,
    confirm: None,
    rules: Rules::PLAIN,
};

const NOTHING_ELSE: Happens = Happens {
    unblocks: false,
    vanishes: false,
    refusals: false,
    stalls: false,
    arrives: false,
    cuts: false,
    unheard: false,
};

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

#[test]
fn three_owners_wait_and_go_away() {
    let kinds = &[Kind::Plain, Kind::Wait, Kind::Once];
    holds("three owners", Size { owners: 3, kinds, horizon: soak(2, 3), ..ONE_SERVER });
}

#[test]
fn holds_leases_timeouts_and_breaks() {
    let kinds = &[Kind::Plain, Kind::WaitBriefly, Kind::Once];
    let size = Size { kinds, leases: &[1, 3], horizon: soak(2, 4), holds: 2, breaks: true, ..ONE_SERVER };
    holds("holds and breaks", size);
}

#[test]
fn sessions() {
    let kinds = &[Kind::Plain, Kind::Session, Kind::WaitWithSession];
    holds("sessions", Size { kinds, horizon: soak(4, 6), ..ONE_SERVER });
}

/// They ignore what they are told of a grant that they have given back.
#[test]
fn owners_that_wait_and_ask_on_another_connection() {
    let kinds = &[Kind::Once, Kind::Wait, Kind::Session, Kind::WaitWithSession, Kind::WaitOnce];
    let size = Size { kinds, ..ONE_SERVER };
    holds("waits and asks", Size { horizon: soak(2, 3), ..size });
    holds("waits and asks on three connections", Size { conns: 3, horizon: soak(1, 2), ..size });
    holds("waits and asks, with breaks", Size { breaks: true, horizon: soak(1, 2), ..size });
}

/// Messages are lost, claims come late or from another connection, and processes die in between.
#[test]
fn places_and_claims() {
    let size = Size { kinds: &[Kind::Once, Kind::Place], conns: 1, grants: 1, ..ONE_SERVER };
    holds("places", Size { leases: &[2], horizon: soak(4, 5), ..size });
    holds("places on two connections", Size { conns: 2, horizon: soak(3, 4), ..size });
    let happens = Happens { unheard: true, ..NOTHING_ELSE };
    holds("places, unheard", Size { happens, horizon: soak(4, 5), ..size });
}

#[test]
fn places_and_blocked_waiters() {
    let size = Size { grants: 1, horizon: soak(2, 3), ..ONE_SERVER };
    let kinds = &[Kind::Once, Kind::PlaceBriefly, Kind::Wait];
    holds("places and waiters", Size { kinds, holds: 2, ..size });
    let kinds = &[Kind::Place, Kind::WaitOnce];
    holds("places, waits with ONCE, breaks", Size { kinds, breaks: true, ..size });
    let kinds = &[Kind::Place, Kind::Session];
    holds("places and sessions", Size { kinds, horizon: soak(3, 4), ..size });
}

#[test]
fn readers_and_writers() {
    let size = Size { kinds: &[Kind::Plain, Kind::Read, Kind::Wait, Kind::WaitToRead], ..ONE_SERVER };
    holds("readers and writers", Size { horizon: soak(2, 3), ..size });
    let three = Size { owners: 3, conns: soak(2, 3) as u8, grants: soak(2, 3), horizon: soak(1, 2), ..size };
    holds("three readers and writers", Size { kinds: &[Kind::Wait, Kind::WaitToRead], ..three });
    holds("readers, holds and breaks", Size { holds: 2, breaks: true, horizon: soak(1, 2), ..size });
}

#[test]
fn three_rooms() {
    let kinds = &[Kind::Wait, Kind::WaitForPair, Kind::WaitToRead, Kind::ReadOnce];
    let size = Size { owners: 3, conns: 2, kinds, grants: soak(2, 3), horizon: soak(1, 2), ..ONE_SERVER };
    holds("three rooms", size);
    let rules = Rules { max_holders: Room::limit(2).unwrap(), ..Rules::PLAIN };
    holds("three rooms, two holders at most", Size { rules, ..size });
}

#[test]
fn slots_of_permits() {
    let kinds = &[Kind::WaitForPair, Kind::WaitForSecond];
    let size = Size { owners: 3, conns: 2, kinds, leases: &[1], horizon: soak(1, 2), ..ONE_SERVER };
    holds("slots", Size { grants: soak(2, 3), ..size });
    let size = Size { owners: 2, ..size };
    holds("slots, holds and breaks", Size { holds: 2, breaks: true, ..size });
    let kinds = &[Kind::WaitForPair, Kind::Wait, Kind::ReadOnce];
    holds("slots beside readers and writers", Size { kinds, ..size });
}

#[test]
fn readers_with_sessions_and_places() {
    let size = Size { horizon: soak(2, 3), ..ONE_SERVER };
    let kinds = &[Kind::Wait, Kind::ReadWithSession, Kind::WaitToReadWithSession];
    holds("readers with sessions", Size { kinds, ..size });
    let kinds = &[Kind::Once, Kind::Place, Kind::PlaceToRead];
    let size = Size { kinds, conns: 1, grants: soak(1, 2), horizon: 2, ..size };
    holds("readers with places", size);
}

#[test]
fn what_befalls_readers() {
    let kinds = &[Kind::Read, Kind::WaitToRead, Kind::Wait];
    let size = Size { kinds, leases: &[1, 2], horizon: soak(2, 3), ..ONE_SERVER };
    let happens = Happens { cuts: true, unblocks: true, ..NOTHING_ELSE };
    holds("readers, and operators", Size { happens, leases: &[2], horizon: soak(1, 2), ..size });
    let happens = Happens { refusals: true, ..NOTHING_ELSE };
    holds("readers, refused", Size { happens, ..size });
    let rules = Rules { slow: true, ..Rules::PLAIN };
    holds("readers, several turns", Size { rules, ..size });
    let happens = Happens { stalls: true, ..NOTHING_ELSE };
    let kinds = &[Kind::ReadWithSession, Kind::Read, Kind::Wait];
    holds("readers, stalls", Size { kinds, happens, horizon: soak(2, 3), leases: &[1], ..size });
    let rules = Rules { late: true, ..Rules::PLAIN };
    let happens = Happens { vanishes: true, ..NOTHING_ELSE };
    let kinds = &[Kind::WaitToRead, Kind::Wait];
    let size = Size { kinds, rules, happens, leases: &[1], ..size };
    holds("readers, late", Size { horizon: soak(1, 2), ..size });
}

#[test]
fn operators_send_waiters_away_and_cut_leases() {
    let kinds = &[Kind::Once, Kind::Wait, Kind::WaitWithSession];
    let happens = Happens { unblocks: true, cuts: true, ..NOTHING_ELSE };
    holds("operators", Size { kinds, happens, horizon: soak(2, 3), leases: &[2], ..ONE_SERVER });
}

/// Between the grant and the answer, and between the answer and the server's last word, others are served.
fn late(kinds: &'static [Kind], keeps_answers: bool) -> Size {
    let happens = Happens { unblocks: true, vanishes: true, ..NOTHING_ELSE };
    let rules = Rules { late: true, keeps_answers, ..Rules::PLAIN };
    Size { kinds, happens, rules, horizon: soak(1, 2), ..ONE_SERVER }
}

#[test]
fn clients_are_told_and_freed_late() {
    holds("late", late(&[Kind::Once, Kind::Wait], false));
    holds("late, answers kept", late(&[Kind::Once, Kind::Wait], true));
}

#[test]
fn clients_with_sessions_are_told_and_freed_late() {
    let kinds = &[Kind::Once, Kind::WaitWithSession];
    let small = |size: Size| Size { grants: soak(1, 2), ..size };
    holds("late, with sessions", small(late(kinds, false)));
    holds("late, with sessions, answers kept", small(late(kinds, true)));
    let happens = Happens { unblocks: true, ..NOTHING_ELSE };
    holds("late, with sessions, sent away", Size { happens, ..late(kinds, true) });
}

#[test]
fn what_is_due_is_refused() {
    let kinds = &[Kind::Plain, Kind::Wait, Kind::WaitBriefly];
    let happens = Happens { refusals: true, ..NOTHING_ELSE };
    holds("refused", Size { kinds, happens, horizon: soak(3, 4), ..ONE_SERVER });
}

/// Nobody else gets what a connection keeps alive, though the lease was over before the server could renew it.
#[test]
fn a_server_that_stands_still_ends_no_session() {
    let kinds = &[Kind::Plain, Kind::Session, Kind::WaitWithSession];
    let happens = Happens { stalls: true, ..NOTHING_ELSE };
    holds("stalls", Size { kinds, happens, horizon: soak(4, 5), ..ONE_SERVER });
}

/// More is due than one turn of the server does: others are served in between.
#[test]
fn what_is_due_takes_several_turns() {
    let rules = Rules { slow: true, ..Rules::PLAIN };
    let size = Size { rules, horizon: soak(2, 3), ..ONE_SERVER };
    let kinds = &[Kind::Once, Kind::Wait, Kind::WaitBriefly];
    holds("several turns", Size { kinds, holds: 2, grants: soak(1, 2), ..size });
    let kinds = &[Kind::Session, Kind::WaitWithSession];
    holds("several turns, sessions", Size { kinds, horizon: soak(3, 4), ..size });
    let happens = Happens { unheard: true, ..NOTHING_ELSE };
    let size = Size { happens, conns: 2, grants: 1, horizon: soak(3, 4), ..size };
    holds("several turns, places", Size { kinds: &[Kind::Once, Kind::Place], ..size });
}

#[test]
fn a_session_on_a_slot_that_arrives() {
    let kinds = &[Kind::Plain, Kind::Session];
    let happens = Happens { arrives: true, ..NOTHING_ELSE };
    let size = Size { kinds, happens, leases: &[3], horizon: soak(5, 7), ..ONE_SERVER };
    holds("arrives", size);
    let happens = Happens { stalls: true, ..happens };
    holds("arrives, and the server locks still", Size { happens, leases: &[1], horizon: 4, ..size });
}
