//! Everything that can happen in small worlds, step by step, against guarantees 1 to 6 of `docs/design.md`.
//!
//! A world in which a guarantee has to fail is here for each that holds: a model that never fails would prove nothing.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::server::Rules;
use super::soak;
use super::world::{Clients, EXCLUSION, Failover, Happens, Kind, Size};
use crate::lock::{Millis, Room};
use crate::waiting::Confirm;

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

/// A replica takes over. The longest lease is 2, as long as the grace.
const FAILOVER: Size = Size {
    conns: 1,
    horizon: 5,
    leases: &[2],
    holds: 2,
    failover: Some(Failover { lives_on: 0, away: false, lag: 3, clients: Clients::Strict }),
    rules: Rules { grace: 2, ..Rules::PLAIN },
    ..ONE_SERVER
};

fn failover(change: impl FnMut(&mut Failover)) -> Size {
    let mut size = FAILOVER;
    size.failover.iter_mut().for_each(change);
    size
}

fn with_grace(grace: Millis, size: Size) -> Size {
    Size { rules: Rules { grace, ..size.rules }, ..size }
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
    holds("arrives, and the server stands still", Size { happens, leases: &[1], horizon: 4, ..size });
}

#[test]
fn a_failover_with_a_grace_keeps_owners_apart() {
    holds("failover", FAILOVER);
    let waits = &[Kind::Plain, Kind::Wait];
    holds("failover with waiters", Size { kinds: waits, holds: 1, grants: 1, ..FAILOVER });
}

/// Upgrades too wait for the end of the grace: a reader of the old primary may be lost.
#[test]
fn a_failover_with_a_grace_keeps_readers_and_writers_apart() {
    let kinds = &[Kind::Plain, Kind::Read];
    let size = Size { kinds, ..FAILOVER };
    holds("failover with readers", Size { grants: 2, holds: 1, horizon: soak(4, 5), ..size });
    let lag = failover(|failover| failover.lag = 1);
    holds("failover with upgrades", Size { kinds, grants: 1, horizon: soak(4, 5), ..lag });
    let kinds = &[Kind::WaitToRead, Kind::Wait, Kind::Read];
    let size = Size { kinds, grants: soak(1, 2), holds: 1, horizon: soak(4, 5), ..lag };
    holds("failover with readers that wait", size);
    let kinds = &[Kind::Plain, Kind::Read];
    two_owners("readers without a grace", with_grace(0, Size { kinds, ..FAILOVER }));
}

#[test]
fn without_a_grace_two_owners() {
    two_owners("no grace", with_grace(0, FAILOVER));
    two_owners("a grace that is too short", with_grace(1, FAILOVER));
}

#[test]
fn a_grace_covers_the_time_that_an_old_primary_lives_on() {
    let size = failover(|failover| (failover.lives_on, failover.lag) = (1, 1));
    let size = Size { leases: &[1], horizon: 5, ..size };
    holds("an old primary lives on", Size { holds: 1, grants: 1, ..size });
    two_owners("an old primary lives on for too long", with_grace(1, Size { horizon: 6, ..size }));
}

/// The old primary freezes, or is busy, and is replaced meanwhile. It comes back at any time, and learns of that 1 ms later.
#[test]
fn a_grace_covers_an_old_primary_that_comes_back() {
    let size = failover(|failover| (failover.lives_on, failover.away, failover.lag) = (1, true, 1));
    let rules = Rules { grace: 3, max_lease: Some(2), ..Rules::PLAIN };
    let size = Size { grants: 1, holds: 1, horizon: soak(5, 7), rules, ..size };
    holds("an old primary comes back", size);
    let kinds = &[Kind::Plain, Kind::Wait];
    holds("an old primary comes back to waiters", Size { kinds, horizon: soak(5, 6), ..size });
    two_owners("comes back, a grace that is too short", with_grace(2, size));
    // How long it may live on is what the grace has beyond the longest lease.
    let rules = Rules { max_lease: None, ..rules };
    two_owners("comes back, no longest lease", Size { rules, ..size });
}

/// The effect of a release is lost, and that of the next grant: to the new primary, the first owner has it still.
#[test]
fn names_that_are_used_again_re_enter_in_a_grace() {
    two_owners("names used again", failover(|failover| failover.clients = Clients::ReuseNames));
}

/// Within a grace leases can be extended: it is for owners to extend nothing that they have given back.
#[test]
fn clients_that_extend_what_they_do_not_hold() {
    for (name, clients) in [("anything", Clients::ExtendAnything), ("own count", Clients::CountThemselves)] {
        two_owners(name, failover(|failover| failover.clients = clients));
    }
}

/// Replicas confirm what owners are told: no grace is needed.
const CONFIRMED: Size = Size {
    conns: 2,
    confirm: Some(Confirm { replicas: std::num::NonZeroU32::MIN, within: 0 }),
    rules: Rules { grace: 0, ..FAILOVER.rules },
    ..FAILOVER
};

fn confirmed(lives_on: Millis, clients: Clients) -> Size {
    let failover = Some(Failover { lives_on, away: false, lag: 1, clients });
    Size { grants: 1, holds: 1, horizon: soak(2, 3), failover, ..CONFIRMED }
}

#[test]
fn a_failover_keeps_what_replicas_have_confirmed() {
    let size = confirmed(1, Clients::ReuseNames);
    holds("confirmed", Size { horizon: soak(3, 4), ..size });
    holds("confirmed, with waiters", Size { kinds: &[Kind::Plain, Kind::Wait], ..size });
    two_owners("the same without", Size { confirm: None, ..size });
    holds("confirmed, with holds", Size { holds: 2, ..confirmed(soak(0, 1), Clients::ReuseNames) });
}

#[test]
fn a_failover_keeps_places_readers_and_sessions_that_replicas_have_confirmed() {
    let size = confirmed(1, Clients::Strict);
    holds(
        "confirmed, with sessions",
        Size { kinds: &[Kind::Session], conns: 1, horizon: soak(3, 4), ..size },
    );
    let size = confirmed(soak(0, 1), Clients::Strict);
    holds("confirmed, with readers", Size { kinds: &[Kind::Plain, Kind::Read], ..size });
    holds("confirmed, with places", Size { kinds: &[Kind::Once, Kind::Place], ..size });
}
