//! Tries all orders of actions in small worlds, and checks guarantees 1 to 6 of `docs/design.md` after each step.
//!
//! For each guarantee there is also a world in which it must fail, because a model that never fails would prove nothing.

mod promotion;
mod wide;

use super::explore;
use super::server::Rules;
use super::soak;
use super::world::{Happens, Kind, Size, World};
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
    dooms: false,
    refusals: false,
    freezes: false,
    arrives: false,
    cuts: false,
    unheard: false,
    flips: false,
};

fn holds(name: &str, size: Size) {
    explore::holds(name, size, World::faults);
}

#[test]
fn three_owners_wait_and_go_away() {
    let kinds = &[Kind::Plain, Kind::Wait, Kind::Once];
    holds("three owners", Size { owners: 3, kinds, horizon: soak(2, 3), ..ONE_SERVER });
}

/// Any number of breaks and lost connections in one turn, with three owners.
#[test]
fn breaks_and_connections_that_are_about_to_be_closed() {
    let happens = Happens { dooms: true, ..NOTHING_ELSE };
    let size = Size { owners: 3, happens, breaks: true, horizon: soak(1, 2), ..ONE_SERVER };
    holds("three owners, breaks, about to be closed", Size { kinds: &[Kind::Wait], ..size });
}

#[test]
fn sessions() {
    let kinds = &[Kind::Plain, Kind::Session, Kind::WaitWithSession];
    holds("sessions", Size { kinds, horizon: soak(4, 6), ..ONE_SERVER });
    let happens = Happens { dooms: true, ..NOTHING_ELSE };
    holds("sessions, about to be closed", Size { kinds, happens, horizon: soak(2, 4), ..ONE_SERVER });
}

/// Messages are lost, claims come late or from another connection, and processes die in between.
#[test]
fn places_and_claims() {
    let size = Size { kinds: &[Kind::Once, Kind::Place], conns: 1, grants: 1, ..ONE_SERVER };
    holds("places", Size { leases: &[2], horizon: soak(4, 5), ..size });
    holds("places on two connections", Size { conns: 2, horizon: soak(3, 4), ..size });
    let kinds = &[Kind::Place, Kind::PlaceToStart];
    holds("places that start", Size { kinds, horizon: soak(3, 5), ..size });
    let happens = Happens { unheard: true, ..NOTHING_ELSE };
    holds("places, unheard", Size { happens, horizon: soak(4, 5), ..size });
    let happens = Happens { dooms: true, ..NOTHING_ELSE };
    let kinds = &[Kind::Once, Kind::Place, Kind::PlaceToStart];
    holds("places, about to be closed", Size { kinds, happens, horizon: soak(3, 4), ..size });
    let size = Size { happens, conns: 2, grants: 2, horizon: soak(1, 2), ..size };
    let kinds = &[Kind::Wait, Kind::PlaceToStart];
    holds("places and waiters, about to be closed", Size { kinds, breaks: soak(false, true), ..size });
    let size = Size { kinds: &[Kind::Read, Kind::ReadWithSession, Kind::PlaceToStart], holds: 2, ..size };
    if soak(false, true) {
        holds("places for upgrades of sessions, about to be closed", size);
    }
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
fn what_is_due_is_refused() {
    let kinds = &[Kind::Plain, Kind::Wait, Kind::WaitBriefly];
    let happens = Happens { refusals: true, ..NOTHING_ELSE };
    holds("refused", Size { kinds, happens, horizon: soak(3, 4), ..ONE_SERVER });
}

#[test]
fn a_session_on_a_slot_that_arrives() {
    let kinds = &[Kind::Plain, Kind::Session];
    let happens = Happens { arrives: true, ..NOTHING_ELSE };
    let size = Size { kinds, happens, leases: &[3], horizon: soak(5, 7), ..ONE_SERVER };
    holds("arrives", size);
    let happens = Happens { freezes: true, ..happens };
    holds("arrives, and the server locks still", Size { happens, leases: &[1], horizon: 4, ..size });
}

/// The state of the server's earlier time as a primary does not disturb its new state.
#[test]
fn a_primary_is_demoted_and_promoted() {
    let happens = Happens { flips: true, ..NOTHING_ELSE };
    let rules = Rules { slow: true, ..Rules::PLAIN };
    let size = Size { happens, rules, grants: 1, ..ONE_SERVER };
    let kinds = &[Kind::Session, Kind::WaitWithSession];
    holds("demoted, with sessions", Size { kinds, horizon: soak(2, 3), ..size });
    let kinds = &[Kind::Once, Kind::Place];
    holds("demoted, with places", Size { kinds, conns: 1, horizon: soak(2, 3), ..size });
    let rules = Rules { late: true, ..rules };
    let kinds = &[Kind::Once, Kind::Wait];
    holds("demoted, late", Size { kinds, rules, grants: 2, horizon: soak(1, 2), ..size });
}
