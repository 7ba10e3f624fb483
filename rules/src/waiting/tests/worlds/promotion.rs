//! Worlds in which a primary dies and its replica takes over: with a grace, or with replicas that confirm what owners are told.

use std::num::NonZeroU32;

use stateright::Checker;

use super::super::explore::explore;
use super::super::server::Rules;
use super::super::soak;
use super::super::world::{Clients, EXCLUSION, Failover, Happens, Kind, Size};
use super::{NOTHING_ELSE, ONE_SERVER, holds};
use crate::lock::Millis;
use crate::waiting::Confirm;

/// A world in which a replica takes over. The longest lease is 2 ms, as long as the grace.
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

/// Checks that two owners can hold the lock at the same time, and prints the steps to this.
fn two_owners(name: &str, size: Size) {
    let path = explore(name, size).assert_any_discovery(EXCLUSION);
    println!("  {:?}", path.into_actions());
}

#[test]
fn a_failover_with_a_grace_keeps_owners_apart() {
    holds("failover", FAILOVER);
    let waits = &[Kind::Plain, Kind::Wait];
    holds("failover with waiters", Size { kinds: waits, holds: 1, grants: 1, ..FAILOVER });
}

/// Upgrades also wait for the end of the grace, because the failover may have lost a reader's grant.
#[test]
fn a_failover_with_a_grace_keeps_readers_and_writers_apart() {
    let lag = failover(|failover| failover.lag = 1);
    let kinds = &[Kind::Wait, Kind::Read];
    holds("failover with upgrades", Size { kinds, grants: 1, horizon: soak(4, 5), ..lag });
    let kinds = &[Kind::Plain, Kind::Read];
    let size = Size { kinds, ..FAILOVER };
    holds("failover with readers", Size { grants: 2, holds: 1, horizon: soak(4, 5), ..size });
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

/// The old primary freezes, or is busy, and is replaced meanwhile. It comes back at any time, and learns of its successor 1 ms later.
#[test]
fn a_grace_covers_an_old_primary_that_comes_back() {
    let size = failover(|failover| (failover.lives_on, failover.away, failover.lag) = (1, true, 1));
    let rules = Rules { grace: 3, max_lease: Some(2), ..Rules::PLAIN };
    let size = Size { grants: 1, holds: 1, horizon: soak(5, 7), rules, ..size };
    holds("an old primary comes back", size);
    let kinds = &[Kind::Plain, Kind::Wait];
    holds("an old primary comes back to waiters", Size { kinds, horizon: soak(5, 6), ..size });
    two_owners("comes back, a grace that is too short", with_grace(2, size));
    // The old primary may live on for as long as the grace exceeds the longest lease.
    let rules = Rules { max_lease: None, ..rules };
    two_owners("comes back, no longest lease", Size { rules, ..size });
}

/// The effects of a release and of the next grant are lost, so the new primary believes that the first owner still holds the lock.
#[test]
fn names_that_are_used_again_re_enter_in_a_grace() {
    two_owners("names used again", failover(|failover| failover.clients = Clients::ReuseNames));
}

/// Leases can be extended in a grace, so owners must not extend a grant that they have released.
#[test]
fn clients_that_extend_what_they_do_not_hold() {
    for (name, clients) in [("anything", Clients::ExtendAnything), ("own count", Clients::CountThemselves)] {
        two_owners(name, failover(|failover| failover.clients = clients));
    }
}

/// A world in which owners use `SYNC`, so that no grace is needed.
const CONFIRMED: Size = Size {
    conns: 2,
    confirm: Some(Confirm { replicas: NonZeroU32::MIN, within: 0 }),
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

/// An owner with such a session relies on the lease that its server shows. A frozen server shows no lease.
#[test]
fn a_session_that_replicas_confirm_ends_with_the_lease_that_they_have() {
    let happens = Happens { freezes: true, ..NOTHING_ELSE };
    let size = Size { kinds: &[Kind::Session], happens, horizon: 4, ..confirmed(1, Clients::Strict) };
    holds("confirmed, with sessions and freezes", Size { conns: soak(1, 2) as u8, ..size });
    let confirm = size.confirm.map(|confirm| Confirm { within: 5, ..confirm });
    let size = Size { confirm, leases: &[3], horizon: 5, conns: 1, ..size };
    holds("confirmed, with sessions and freezes, in the end", size);
}

/// Another command of the same owner makes the lease longer. Replicas get the longer lease after the first command's lease has been
/// confirmed.
#[test]
fn a_session_that_replicas_confirm_begins_with_the_lease_that_they_have() {
    let kinds = &[Kind::Session];
    let size = Size { kinds, holds: 2, leases: &[1], horizon: 3, ..confirmed(soak(0, 1), Clients::Strict) };
    holds("confirmed, with sessions that are taken over", size);
}
