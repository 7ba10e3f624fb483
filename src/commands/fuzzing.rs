//! Whatever a client, a primary or an append-only file says, what the parsers let through is in range.

use super::{Acquire, Apply, Break, Extend, Leave, Release, Waits};
use crate::keyspace::Effect;
use crate::lock::{Fence, LONGEST_LEASE, Owner};
use crate::server::fuzzing::with_args;

pub(crate) fn parse(bytes: &[u8]) {
    let words: Vec<&[u8]> = bytes.split(|&byte| byte == b' ').collect();
    with_args(&words, |args| {
        if let Ok(acquire) = Acquire::parse(args) {
            check_owner(&acquire.asked.ask.owner);
            assert!((1..=LONGEST_LEASE).contains(&acquire.asked.ask.lease));
            assert!(acquire.asked.ask.max_hold.is_none_or(|age| (1..=LONGEST_LEASE).contains(&age)));
            assert!(acquire.asked.wait.timeout.is_none_or(|time| (0..=LONGEST_LEASE).contains(&time)));
            assert!(acquire.asked.wait.channel.is_none_or(|channel| (1..=512).contains(&channel.len())));
        }
        if let Ok(leave) = Leave::parse(args) {
            check_owner(&leave.owner);
        }
        if let Ok(release) = Release::parse(args) {
            check_owner(&release.given.owner);
            assert_ne!(release.given.fence, Some(0));
        }
        if let Ok(extend) = Extend::parse(args) {
            check_owner(&extend.longer.owner);
            assert!(extend.longer.lease.is_none_or(|lease| (1..=LONGEST_LEASE).contains(&lease)));
            assert_ne!(extend.longer.fence, Some(0));
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

/// An owner is the bytes that the client sent, and no others.
fn check_owner(owner: &Owner<'_>) {
    let text = owner.text();
    assert!((1..=128).contains(&text.as_ref().len()));
    assert_eq!(Owner::new(text.as_ref()).as_ref(), Some(owner));
}
