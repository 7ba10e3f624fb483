//! Fuzzes the parsers: whatever the input is, the values that the parsers accept are in range, and are words of the input.

use std::collections::BTreeSet;
use std::str;

use super::acquire::AcquireArgs;
use super::extend::ExtendRequest;
use super::release::ReleaseArgs;
use super::waits::COUNT;
use super::{Acquire, Apply, Break, Extend, Leave, Macquire, Mextend, Mrelease, Release, Waits};
use crate::config;
use crate::server::Arg;
use crate::server::fuzzing::with_args;
use rules::encoding::Effect;
use rules::lock::{AcquireRequest, Deadline, Fence, Grant, LONGEST_LEASE, Owner, Room, SlotRequest};
use rules::waiting::Confirm;

pub(crate) fn parse(bytes: &[u8]) {
    let words: Vec<&[u8]> = bytes.split(|&byte| byte == b' ').collect();
    let input = Input(&words);
    with_args(&words, |args| {
        if let Ok(acquire) = Acquire::parse(args) {
            input.check_asked(&acquire.asked);
        }
        if let Ok(several) = Macquire::parse(args) {
            input.check_keys(&several.keys);
            input.check_asked(&several.asked);
        }
        if let Ok(leave) = Leave::parse(args) {
            input.check_owner(&leave.owner);
        }
        if let Ok(release) = Release::parse(args) {
            input.check_given(&release.given);
        }
        if let Ok(several) = Mrelease::parse(args) {
            input.check_keys(&several.keys);
            input.check_given(&several.given);
        }
        if let Ok(extend) = Extend::parse(args) {
            input.check_longer(&extend.longer);
        }
        if let Ok(several) = Mextend::parse(args) {
            input.check_keys(&several.keys);
            input.check_longer(&several.longer);
        }
        if let Ok(waits) = Waits::parse(args) {
            assert!((1..=1_000).contains(&waits.count));
            assert!(waits.count == COUNT || input.number(waits.count as i64));
        }
        if let Ok(break_) = Break::parse(args) {
            input.check_fence(break_.fence);
        }
        if let Ok(apply) = Apply::parse(args) {
            input.check_effect(&apply.effect);
        }
    });
}

/// The words of a command.
struct Input<'a>(&'a [&'a [u8]]);

impl Input<'_> {
    fn numbers(&self) -> impl Iterator<Item = i64> {
        let is_apart = |byte: &u8| !byte.is_ascii_digit() && *byte != b'-';
        let parts = self.0.iter().flat_map(move |word| word.split(is_apart));
        parts.filter_map(|part| str::from_utf8(part).ok()?.parse().ok())
    }

    fn word(&self, option: &str) -> bool {
        self.0.iter().any(|word| word.eq_ignore_ascii_case(option.as_bytes()))
    }

    fn number(&self, number: i64) -> bool {
        self.numbers().any(|input| input == number)
    }

    fn check_keys(&self, keys: &[Arg<'_>]) {
        let names: BTreeSet<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
        assert!((1..=config::max_keys()).contains(&keys.len()));
        assert_eq!(names.len(), keys.len());
        assert!(self.number(keys.len() as i64));
    }

    fn check_asked(&self, asked: &AcquireArgs<'_>) {
        let AcquireArgs { owner, ask, wait } = asked;
        if let Some(owner) = owner {
            assert_eq!(ask.owner.text().as_ref(), owner.bytes());
            self.check_owner(&ask.owner);
        }
        self.check_lease(Some(ask.lease).filter(|lease| *lease != config::default_lease()));
        assert!(ask.max_hold().is_none_or(|age| (1..=LONGEST_LEASE).contains(&age) && self.number(age)));
        assert!(wait.timeout.is_none_or(|time| (0..=LONGEST_LEASE).contains(&time) && self.number(time)));
        let channel = wait.channel.as_ref().map(|channel| &*channel.address);
        assert!(channel.is_none_or(|name| (1..=512).contains(&name.len()) && self.0.contains(&name)));
        assert!(wait.channel.as_ref().is_none_or(|channel| !channel.wanted || self.word("WANTED")));
        let start = wait.channel.as_ref().and_then(|channel| channel.start);
        assert!(start.is_none_or(|number| self.word("START") && self.number(number.get().cast_signed())));
        assert!(start.is_none() || !ask.session && wait.confirm.is_none());
        self.check_room(ask.room, config::max_holders());
        self.check_slot(ask);
        self.check_confirm(wait.confirm);
        let label = ask.label();
        assert!(
            label.is_none_or(|label| label.len() <= 128 && self.0.contains(&label) && self.word("LABEL"))
        );
    }

    fn check_given(&self, given: &ReleaseArgs<'_>) {
        self.check_owner(&given.owner);
        self.check_fence(given.fence);
    }

    fn check_longer(&self, longer: &ExtendRequest<'_>) {
        self.check_owner(&longer.owner);
        self.check_lease(longer.lease);
        self.check_fence(longer.fence);
        self.check_confirm(longer.confirm);
    }

    /// Checks that the owner's name is one of the words.
    fn check_owner(&self, owner: &Owner<'_>) {
        let text = owner.text();
        assert!((1..=128).contains(&text.as_ref().len()));
        assert!(self.0.contains(&text.as_ref()));
    }

    fn check_lease(&self, lease: Option<i64>) {
        let Some(lease) = lease else { return };
        assert!((1..=LONGEST_LEASE).contains(&lease));
        assert!(self.number(lease) || lease % 1000 == 0 && self.number(lease / 1000));
    }

    fn check_fence(&self, fence: Option<u64>) {
        assert!(fence.is_none_or(|fence| fence > 0 && self.number(fence.cast_signed())));
    }

    fn check_room(&self, room: Room, greatest: u32) {
        let most = room.most().filter(|_| !room.is_exclusive());
        assert!(most.is_none_or(|most| most <= greatest && self.number(most.into())));
    }

    /// Checks that only a request with `LIMIT` asks for a slot, and that the request asks for the least free slot unless `SLOT` names a
    /// slot.
    fn check_slot(&self, ask: &AcquireRequest<'_>) {
        assert!(ask.slot.is_none() || self.word("LIMIT"));
        let Some(SlotRequest::This(slot)) = ask.slot else { return };
        assert!(self.word("SLOT") && self.number(slot.get().into()));
        assert!(ask.room.most().is_some_and(|most| slot.get() <= most));
    }

    fn check_confirm(&self, confirm: Option<Confirm>) {
        let Some(Confirm { replicas, within }) = confirm else { return };
        assert!(within > 0 && self.number(replicas.get().into()) && self.number(within.into()));
    }

    fn check_effect(&self, effect: &Effect) {
        match effect {
            Effect::Free => (),
            Effect::Lease(deadline) => self.check_deadline(*deadline),
            Effect::Alone(grant, deadline) | Effect::Among(grant, deadline) => {
                self.check_grant(grant);
                self.check_deadline(*deadline);
            }
            Effect::Ended(fence) => self.check_fence(Some(fence.get())),
            Effect::Lapsed(time) => assert!(self.number(*time)),
        }
    }

    fn check_grant(&self, grant: &Grant) {
        let (owner, age) = (grant.owner(), grant.max_hold());
        let owner = owner.text();
        assert!((1..=128).contains(&owner.as_ref().len()));
        let label_and_owner = [grant.label(), owner.as_ref()].concat();
        assert!(self.0.iter().any(|word| word.ends_with(&label_and_owner)));
        assert!((1..=Fence::MAX.get()).contains(&grant.fence().get()));
        self.check_fence(Some(grant.fence().get()));
        // The `@` and `&` forms of an effect leave `holds` out if there is only one hold.
        assert!(grant.holds() == 1 || self.number(grant.holds().into()));
        assert!(age.is_none_or(|age| (1..=LONGEST_LEASE).contains(&age) && self.number(age)));
        self.check_room(grant.room(), Room::MOST);
        assert!(grant.explicit_slot().is_none_or(|slot| self.number(slot.get().into())));
    }

    fn check_deadline(&self, deadline: Deadline) {
        match deadline {
            Deadline::At(at) => assert!(at >= 0 && self.number(at)),
            Deadline::Never => assert!(self.numbers().any(|number| number < 0)),
        }
    }
}
