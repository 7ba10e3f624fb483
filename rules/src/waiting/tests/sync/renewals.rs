//! Examples of sessions' renewals that replicas have to confirm.

use super::*;

/// The first renewal is undone and made again, and the replica gets the second renewal.
#[test]
fn a_session_goes_on_when_the_replica_is_back_in_time() {
    let (mut world, fence, confirmed) = World::unconfirmed_renewal(300);
    let is_renewed = |world: &World| world.held().unwrap().1 != confirmed;
    world.pass_while(is_renewed);
    world.pass_while(|world| !is_renewed(world));
    for _ in 0..10 {
        world.pass(100, true);
        assert_eq!(world.held().map(|(fence, _)| fence), Some(fence), "{} ms", world.now - NOW);
    }
}

/// In the lease's last millisecond, it is too late to ask the replica again.
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

/// Meanwhile the owner has set the lease, without `SYNC`, to a longer or a shorter length.
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

/// Tests a renewal that replicas confirm only after their time is up. Their time ends after `within` ms, or with the lease without the
/// renewal. `undone` says that a command has undone the renewal before they confirm it.
fn confirmed_late(within: u32, undone: bool) {
    let mut world = World::new();
    world.acquire_on(0, 300, true, 1, within);
    assert!(matches!(world.run_due(true)[..], [(0, Reply::Granted { .. })]));
    let (fence, confirmed) = world.held().unwrap();
    world.pass_while(|world| world.held().unwrap().1 == confirmed);
    let (renewed, asked) = (world.held().unwrap().1, world.server.written);
    let Deadline::At(last) = confirmed else { panic!("no end") };
    let ends = last.min(world.now + Millis::from(within) + 1);
    // The replicas' time is not up. A command leaves the renewal as it is, and the holder relies on the lease that replicas have.
    world.now = ends - 1;
    assert_eq!(world.server.acquire(RULES, world.now, 1, &other(10), &WaitOptions::default()), Reply::Null);
    assert_eq!(world.held(), Some((fence, renewed)));
    assert_eq!(world.server.shown(RULES, world.now), [(fence, confirmed)]);
    // The replicas' time is up. A command undoes the renewal even if the timer has not run yet.
    world.now = ends;
    if undone {
        assert_eq!(
            world.server.acquire(RULES, world.now, 1, &other(10), &WaitOptions::default()),
            Reply::Null
        );
        assert_eq!(world.held(), Some((fence, confirmed)));
    }
    world.server.acked = asked;
    assert_eq!(world.run_due(false), []);
    // If the renewal has not been undone, the replica has it, and the holder relies on it.
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

/// Without the renewal, the lease has ended, and nobody has looked at the lock since. The replicas confirm the renewal only now.
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
        let acquire = |world: &mut World| {
            world.server.acquire(RULES, world.now, 1, &other(10), &WaitOptions::default())
        };
        // The command that undoes the renewal finds that the grant has lapsed.
        let reply = acquire(&mut world);
        assert_eq!(matches!(reply, Reply::Granted { .. }), !confirms, "{reply:?}");
    }
}

/// Another connection re-enters, and the replica gets the re-entry, but not a renewal that was made meanwhile.
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
    assert_eq!(
        world.run_due(false),
        [(1, Reply::Granted { fence, holds: 2, slot: None, deadline: confirmed })]
    );
    assert_eq!(world.server.session(fence), Some(1));
    assert_eq!(world.server.shown(RULES, world.now), [(fence, confirmed)]);
    world.pass(300, false);
    assert_eq!(world.held(), None);
}
