//! Whatever a client, a primary or an append-only file says, what the parsers let through is in range.

use std::collections::BTreeSet;

use super::ask::AcquireArgs;
use super::extend::ExtendRequest;
use super::release::ReleaseRequest;
use super::{Acquire, Apply, Break, Extend, Leave, Macquire, Mextend, Mrelease, Release, Waits};
use crate::keyspace::Effect;
use crate::lock::{Fence, LONGEST_LEASE, Owner};
use crate::server::Arg;
use crate::server::fuzzing::with_args;

pub(crate) fn parse(bytes: &[u8]) {
    let words: Vec<&[u8]> = bytes.split(|&byte| byte == b' ').collect();
    with_args(&words, |args| {
        if let Ok(acquire) = Acquire::parse(args) {
            check_asked(&acquire.asked);
        }
        if let Ok(several) = Macquire::parse(args) {
            check_keys(&several.keys);
            check_asked(&several.asked);
        }
        if let Ok(leave) = Leave::parse(args) {
            check_owner(&leave.owner);
        }
        if let Ok(release) = Release::parse(args) {
            check_given(&release.given);
        }
        if let Ok(several) = Mrelease::parse(args) {
            check_keys(&several.keys);
            check_given(&several.given);
        }
        if let Ok(extend) = Extend::parse(args) {
            check_longer(&extend.longer);
        }
        if let Ok(several) = Mextend::parse(args) {
            check_keys(&several.keys);
            check_longer(&several.longer);
        }
        if let Ok(waits) = Waits::parse(args) {
            assert!((1..=1_000).contains(&waits.count));
        }
        if let Ok(break_) = Break::parse(args) {
            assert_ne!(break_.fence, Some(0));
        }
        if let Ok(Apply { effect: Effect::Alone(grant, _) | Effect::Among(grant, _), .. }) =
            Apply::parse(args)
        {
            check_owner(&grant.owner());
            assert!((1..=Fence::MAX.get()).contains(&grant.fence().get()));
            assert!(grant.holds() > 0);
            assert!(grant.max_hold().is_none_or(|age| (1..=LONGEST_LEASE).contains(&age)));
        }
    });
}

fn check_keys(keys: &[Arg<'_>]) {
    let names: BTreeSet<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
    assert!((1..=1000).contains(&keys.len()));
    assert_eq!(names.len(), keys.len());
}

fn check_asked(asked: &AcquireArgs<'_>) {
    check_owner(&asked.ask.owner);
    assert!((1..=LONGEST_LEASE).contains(&asked.ask.lease));
    assert!(asked.ask.max_hold.is_none_or(|age| (1..=LONGEST_LEASE).contains(&age)));
    assert!(asked.wait.timeout.is_none_or(|time| (0..=LONGEST_LEASE).contains(&time)));
    assert!(asked.wait.channel.as_ref().is_none_or(|channel| (1..=512).contains(&channel.len())));
}

fn check_given(given: &ReleaseRequest<'_>) {
    check_owner(&given.owner);
    assert_ne!(given.fence, Some(0));
}

fn check_longer(longer: &ExtendRequest<'_>) {
    check_owner(&longer.owner);
    assert!(longer.lease.is_none_or(|lease| (1..=LONGEST_LEASE).contains(&lease)));
    assert_ne!(longer.fence, Some(0));
}

/// An owner is the bytes that the client sent, and no others.
fn check_owner(owner: &Owner<'_>) {
    let text = owner.text();
    assert!((1..=128).contains(&text.as_ref().len()));
    assert_eq!(Owner::new(text.as_ref()).as_ref(), Some(owner));
}
