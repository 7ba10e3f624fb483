//! Worlds that each take more than 20 s on two cores. Only `scripts/test all` runs them, not `scripts/test`.

use super::super::server::Rules;
use super::super::soak;
use super::super::world::{Happens, Kind, Size};
use super::{NOTHING_ELSE, ONE_SERVER, holds};

#[test]
fn holds_leases_timeouts_and_breaks() {
    let kinds = &[Kind::Plain, Kind::WaitBriefly, Kind::Once];
    let size = Size { kinds, leases: &[1, 3], horizon: soak(2, 4), holds: 2, breaks: true, ..ONE_SERVER };
    holds("holds and breaks", size);
}

/// Owners ignore answers about a grant that they have already released.
#[test]
fn owners_that_wait_and_ask_on_another_connection() {
    let kinds = &[Kind::Once, Kind::Wait, Kind::Session, Kind::WaitWithSession, Kind::WaitOnce];
    let size = Size { kinds, ..ONE_SERVER };
    holds("waits and asks", Size { horizon: soak(2, 3), ..size });
    holds("waits and asks on three connections", Size { conns: 3, horizon: soak(1, 2), ..size });
    holds("waits and asks, with breaks", Size { breaks: true, horizon: soak(1, 2), ..size });
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
fn readers_beside_other_events() {
    let kinds = &[Kind::Read, Kind::WaitToRead, Kind::Wait];
    let size = Size { kinds, leases: &[1, 2], horizon: soak(2, 3), ..ONE_SERVER };
    let happens = Happens { cuts: true, unblocks: true, ..NOTHING_ELSE };
    holds("readers, and operators", Size { happens, leases: &[2], horizon: soak(1, 2), ..size });
    let happens = Happens { refusals: true, ..NOTHING_ELSE };
    holds("readers, refused", Size { happens, ..size });
    let rules = Rules { slow: true, ..Rules::PLAIN };
    holds("readers, several turns", Size { rules, ..size });
    let happens = Happens { freezes: true, ..NOTHING_ELSE };
    let kinds = &[Kind::ReadWithSession, Kind::Read, Kind::Wait];
    holds("readers, freezes", Size { kinds, happens, horizon: soak(2, 3), leases: &[1], ..size });
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

/// Returns a world in which the server serves other clients between a grant and its answer, and between the answer and the freeing of the
/// client.
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

/// A lease may end before the server can renew it. Then its owner has lost the lock, although its connection is still open.
#[test]
fn a_server_that_stands_still() {
    let kinds = &[Kind::Plain, Kind::Session, Kind::WaitWithSession];
    let happens = Happens { freezes: true, ..NOTHING_ELSE };
    holds("freezes", Size { kinds, happens, horizon: soak(4, 5), ..ONE_SERVER });
}

/// More work is due than one turn does, and other clients are served between turns.
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
