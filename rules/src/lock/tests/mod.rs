//! Tests the rules of one lock: examples first, then properties.

mod slots;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::counted::allocated_by;

const NOW: Millis = 1_700_000_000_000;

fn owner(name: &str) -> Owner<'_> {
    Owner::new(name.as_bytes()).unwrap()
}

fn ask<'a>(name: &'a str, lease: Millis) -> AcquireRequest<'a> {
    AcquireRequest::new(owner(name), lease)
}

/// Returns limits with this greatest age of a grant, in ms, and no others.
fn age(max_hold: Option<Millis>) -> Limits {
    Limits { max_lease: LONGEST_LEASE, max_hold, expiry_slack: 0, max_holders: 0, may_lengthen: true }
}

fn fence(value: u64) -> Fence {
    Fence::new(value).unwrap()
}

fn grant(name: &str, holds: u32) -> Grant {
    Grant::new(owner(name), fence(NOW.unsigned_abs() * 1000), holds, None, NOW)
}

fn held(grant: &Grant, deadline: Deadline) -> Option<Held<'_>> {
    Some(Held { grant, deadline })
}

/// Decides an acquire of a lock that nobody holds, or that has one grant.
fn acquire(
    held: Option<Held<'_>>,
    ask: &AcquireRequest<'_>,
    limits: Limits,
    now: Millis,
) -> Result<Acquired, ReentryError> {
    let value = held.map(|held| Value::One(held.grant.clone()));
    let (mine, others) = match (&value, held) {
        (Some(value), Some(held)) => value.seen_by(&ask.owner, || held.deadline),
        _ => (None, Others::NONE),
    };
    super::decide_acquire(mine, others, ask, limits, now)
}

#[test]
fn a_free_lock_is_granted_for_the_lease() {
    let granted = acquire(None, &ask("a", 500), age(None), NOW);
    assert_eq!(granted, Ok(Acquired::Granted { slot: None, deadline: Deadline::At(NOW + 500) }));
}

#[test]
fn anothers_lock_is_refused() {
    let grant = grant("a", 1);
    let refused = acquire(held(&grant, Deadline::At(NOW + 1)), &ask("b", 500), age(None), NOW);
    assert_eq!(refused, Ok(Acquired::Refused));
}

#[test]
fn a_reentry_adds_a_hold_and_never_shortens_the_lease() {
    let grant = grant("a", 2);
    for (old, lease, new) in [
        (Deadline::At(NOW + 900), 500, Deadline::At(NOW + 900)),
        (Deadline::At(NOW + 100), 500, Deadline::At(NOW + 500)),
        (Deadline::Never, 500, Deadline::Never),
    ] {
        let reentered = acquire(held(&grant, old), &ask("a", lease), age(None), NOW);
        assert_eq!(reentered, Ok(Acquired::Reentered { holds: 3, slot: None, deadline: new }));
    }
}

#[test]
fn once_gives_the_grant_back_without_another_hold() {
    let grant = grant("a", u32::MAX);
    let again = AcquireRequest { once: true, ..ask("a", 500) };
    let reentered = acquire(held(&grant, Deadline::At(NOW)), &again, age(None), NOW);
    assert_eq!(
        reentered,
        Ok(Acquired::Reentered { holds: u32::MAX, slot: None, deadline: Deadline::At(NOW + 500) })
    );
}

#[test]
fn holds_end_at_their_limit() {
    let grant = grant("a", u32::MAX);
    let refused = acquire(held(&grant, Deadline::At(NOW)), &ask("a", 1), age(None), NOW);
    assert_eq!(refused, Err(ReentryError::TooManyHolds));
}

#[test]
fn no_lease_goes_beyond_the_greatest_age() {
    let short = AcquireRequest { extras: Extras::new(Some(300), None), ..ask("a", 500) };
    assert_eq!(
        acquire(None, &short, age(None), NOW),
        Ok(Acquired::Granted { slot: None, deadline: Deadline::At(NOW + 300) })
    );
    assert_eq!(
        acquire(None, &short, age(Some(200)), NOW),
        Ok(Acquired::Granted { slot: None, deadline: Deadline::At(NOW + 200) })
    );
    let grant =
        Grant::new(owner("a"), fence(NOW.unsigned_abs() * 1000), 1, Extras::new(Some(300), None), NOW);
    let later = NOW + 250;
    let now_held = held(&grant, Deadline::At(NOW + 260));
    let end = Deadline::At(NOW + 300);
    assert_eq!(
        acquire(now_held, &ask("a", 500), age(None), later),
        Ok(Acquired::Reentered { holds: 2, slot: None, deadline: end })
    );
    assert_eq!(decide_extend(held(&grant, Deadline::Never).unwrap(), None, 500, age(None), later), Ok(end));
    assert_eq!(
        decide_extend(held(&grant, Deadline::Never).unwrap(), None, 500, age(Some(280)), later),
        Ok(Deadline::At(NOW + 280))
    );
    assert_eq!(lengthen(now_held.unwrap(), 500, age(None), later), end);
}

/// Fences run ahead of the clock if the clock was set back, or a data set came from a server whose clock was ahead.
#[test]
fn a_grant_has_its_age_though_fences_run_ahead() {
    let ahead = fence((NOW + 3_600_000).unsigned_abs() * 1000);
    let grant = Grant::new(owner("a"), ahead, 1, None, NOW);
    assert_eq!(grant.age(NOW + 200), 200);
    let now_held = held(&grant, Deadline::At(NOW + 1000));
    let end = Deadline::At(NOW + 1500);
    assert_eq!(lengthen(now_held.unwrap(), 60_000, age(Some(1500)), NOW + 200), end);
    assert_eq!(
        decide_extend(held(&grant, Deadline::Never).unwrap(), None, 60_000, age(Some(1500)), NOW + 200),
        Ok(end)
    );
    let received = Grant::received(owner("a"), ahead, 2, None, None, NOW + 300);
    assert_eq!(received.age(NOW + 300), 0);
    assert_eq!(received.with_age_of(&grant).age(NOW + 300), 300);
    let received = Grant::received(owner("a"), ahead, 2, None, grant.explicit_made(), NOW + 300);
    assert_eq!(received.age(NOW + 300), 300);
    // A fence may be ahead of the clock by at most `SKEW`.
    let skewed =
        |ms: Millis| Grant::received(owner("a"), fence((NOW + ms).unsigned_abs() * 1000), 1, None, None, NOW);
    assert_eq!([900, 1000, 1001].map(|ms| skewed(ms).age(NOW + 1500)), [600, 500, 1500]);
}

#[test]
fn the_last_millisecond_of_the_greatest_age_can_be_extended_to() {
    let grant =
        Grant::new(owner("a"), fence(NOW.unsigned_abs() * 1000), 1, Extras::new(Some(300), None), NOW);
    let extended = |now| decide_extend(held(&grant, Deadline::Never).unwrap(), None, 500, age(None), now);
    assert_eq!(extended(NOW + 300), Ok(Deadline::At(NOW + 300)));
    assert_eq!(extended(NOW + 301), Err(NotHeld::TooOld));
    // The server still has the key by its own clock, so an acquire by the owner would be a re-entry.
    let end = Deadline::At(NOW + 300);
    assert_eq!(decide_extend(held(&grant, end).unwrap(), None, 500, age(None), NOW + 301), Ok(end));
}

#[test]
fn no_lease_is_longer_than_the_longest_that_is_allowed_now() {
    let limits = Limits { max_lease: 100, ..age(None) };
    let grant = grant("a", 1);
    assert_eq!(ask("a", 500).new_deadline(limits, NOW), Deadline::At(NOW + 100));
    assert_eq!(lengthen(held(&grant, Deadline::At(NOW)).unwrap(), 500, limits, NOW), Deadline::At(NOW + 100));
}

#[test]
fn a_server_that_may_have_been_replaced_lengthens_no_lease() {
    let grant = grant("a", 1);
    let now_held = held(&grant, Deadline::At(NOW + 100));
    let suspicious = Limits { may_lengthen: false, ..age(None) };
    let unchanged = Acquired::Reentered { holds: 2, slot: None, deadline: Deadline::At(NOW + 100) };
    assert_eq!(acquire(now_held, &ask("a", 500), suspicious, NOW), Ok(unchanged));
    assert_eq!(lengthen(now_held.unwrap(), 500, suspicious, NOW), Deadline::At(NOW + 100));
}

#[test]
fn a_release_takes_one_hold_or_all() {
    let three = grant("a", 3);
    assert_eq!(decide_release(&three, None, false), Ok(Released::Kept { holds: 2 }));
    assert_eq!(decide_release(&three, None, true), Ok(Released::Ended));
    let one = grant("a", 1);
    assert_eq!(decide_release(&one, None, false), Ok(Released::Ended));
}

#[test]
fn a_refused_release_or_extension_says_why() {
    let grant = grant("a", 1);
    let (right, wrong) = (Some(grant.fence().get()), Some(7));
    for (fence, why) in [(None, None), (right, None), (wrong, Some(NotHeld::OtherFence))] {
        assert_eq!(decide_release(&grant, fence, false).err(), why);
        let held = held(&grant, Deadline::Never).unwrap();
        assert_eq!(decide_extend(held, fence, 5, age(None), NOW).err(), why);
    }
    assert_eq!(NotHeld::without_grant(false), NotHeld::Free);
    assert_eq!(NotHeld::without_grant(true), NotHeld::OtherOwner);
}

#[test]
fn a_lease_without_end_shows_as_pttl_does() {
    assert_eq!(Deadline::Never.left(NOW), -1);
    assert_eq!(Deadline::At(NOW + 5).left(NOW), 5);
    assert_eq!(Deadline::At(NOW - 5).left(NOW), 0);
    assert!(Deadline::At(i64::MAX) < Deadline::Never);
}

#[test]
fn a_fence_is_the_time_or_one_more_than_the_last() {
    let mut clock = FenceClock::new();
    assert_eq!(clock.next(1_000).map(Fence::get), Some(1_000));
    assert_eq!(clock.next(1_000).map(Fence::get), Some(1_001));
    assert_eq!(clock.next(5).map(Fence::get), Some(1_002));
    clock.observe(fence(2_000));
    clock.observe(fence(1_500));
    assert_eq!(clock.next(1_600).map(Fence::get), Some(2_001));
    assert_eq!(clock.next(-1).map(Fence::get), Some(2_002));
    clock.observe(Fence::MAX);
    assert_eq!(clock.next(1_600), None);
}

#[test]
fn an_owner_is_1_to_128_bytes() {
    assert_eq!(Owner::new(b""), None);
    assert!(Owner::new(&[b'x'; 128]).is_some());
    assert_eq!(Owner::new(&[b'x'; 129]), None);
}

#[test]
fn a_held_lock_with_a_uuid_owner_needs_no_heap() {
    assert_eq!(Grant::new(Owner::random(), fence(1), 1, None, 0).heap_size(), 0);
    assert!(grant("a name", 1).heap_size() > 0);
}

fn shared_by(holders: u64) -> Value {
    let end = Deadline::At(NOW);
    let grants = (1..=holders)
        .map(|number| Grant::new(Owner::random(), fence(number), 1, None, 0).with_room(Room::ANY));
    let value = grants.fold(None, |value: Option<Value>, grant| match value {
        None => Some(Value::One(grant)),
        Some(mut value) => {
            value.put(grant, end, end);
            Some(value)
        }
    });
    value.unwrap()
}

#[test]
fn an_owner_has_one_grant_and_another_fence_changes_none() {
    let (end, later) = (Deadline::At(NOW), Deadline::At(NOW + 1));
    for holders in [1, 2] {
        let value = shared_by(holders);
        let mut changed = value.clone();
        assert_eq!(changed.update(fence(9), GrantChange::holds(3), later, end), end);
        assert_eq!(changed, value);
        let first = value.all(end).next().unwrap().grant;
        assert_eq!(changed.put(Grant::new(first.owner(), fence(9), 1, None, 0), later, end), later);
        assert_eq!((changed.count(), changed.is_one()), (value.count(), value.is_one()));
        assert!(changed.with_fence(first.fence(), || end).is_none());
    }
}

/// A client sets a new TTL after another one removed it and a lease ended again: no lease becomes longer than it was.
#[test]
fn a_new_ttl_makes_no_lease_longer_that_had_an_end() {
    let [sooner, later] = [NOW + 100, NOW + 500].map(Deadline::At);
    let mut value = shared_by(2);
    assert_eq!(value.update(fence(1), GrantChange::NONE, sooner, Deadline::Never), Deadline::Never);
    let ends = |until| value.all(until).map(|held| held.deadline).collect::<Vec<_>>();
    assert_eq!([ends(later), ends(sooner)], [[sooner, later], [sooner; 2]]);
}

/// An update that changes nothing is not stored, and so not replicated.
#[test]
fn a_new_label_changes_a_grant() {
    let [one, other] = [b"1", b"2"].map(|label| GrantChange { label: Some(label), ..GrantChange::NONE });
    let mut grant = grant("a", 1);
    grant.change(one);
    assert!(grant.is_already(one) && !grant.is_already(other));
    grant.change(other);
    assert_eq!(grant.label(), b"2");
}

/// `MEMORY USAGE` adds the memory of the holders to the server's own figure, without the allocator's rounding: to within an eighth, and for
/// many holders to within a third.
#[test]
fn a_value_tells_how_much_memory_its_holders_take() {
    // The first UUID allocates memory that later UUIDs use, too.
    Owner::random();
    let bounds =
        [(1, 64), (2, 240), (3, 224), (8, 186), (9, 230), (10, 213), (32, 173), (33, 240), (100, 300)];
    for (holders, most) in bounds {
        let (mut value, used) = allocated_by(|| shared_by(holders));
        println!("figure: {holders} holders: {} bytes each", used / holders as usize);
        assert!(used <= most * holders as usize, "{holders}: {used}");
        let estimate = value.heap_size();
        let off = if holders <= 32 { used / 8 } else { used / 3 };
        assert!(estimate.abs_diff(used) <= off, "{holders}: {estimate}, not {used}");
        // All holders but two end, which gives back most of their memory.
        let end = Deadline::At(NOW);
        let ((), given_back) = allocated_by(|| {
            for number in 3..=holders {
                value.end(fence(number), end);
            }
        });
        let (left, estimate) = (used.wrapping_add(given_back), value.heap_size());
        assert!(left <= 2 * 420, "{holders}: {left}");
        assert!(estimate.abs_diff(left) <= left / 8, "{holders}: {estimate}, not {left}");
    }
}

#[test]
fn each_random_owner_is_a_new_uuid_of_version_4() {
    let (first, second) = (Owner::random(), Owner::random());
    assert_ne!(first, second);
    let text = String::from_utf8(first.text().as_ref().to_vec()).unwrap();
    assert_eq!(uuid::Uuid::parse_str(&text).unwrap().get_version_num(), 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// An owner's name keeps its spelling, and different names are different owners.
    #[test]
    fn owners_are_binary_safe(one in vec(any::<u8>(), 1..=128), other in vec(any::<u8>(), 1..=128)) {
        let (first, second) = (Owner::new(&one).unwrap(), Owner::new(&other).unwrap());
        prop_assert_eq!(first.text().as_ref().to_vec(), one.clone());
        prop_assert_eq!(first == second, one == other);
        prop_assert_eq!(first.clone().into_owned().text().as_ref().to_vec(), one.clone());
    }

    /// A UUID in its canonical spelling is kept in 16 bytes. One capital letter makes it another owner.
    #[test]
    fn uuids_come_back_as_they_were_written(bytes in any::<[u8; 16]>(), place in 0..36_usize, byte: u8) {
        let text = uuid::Uuid::from_bytes(bytes).to_string();
        let lower = Owner::new(text.as_bytes()).unwrap();
        prop_assert_eq!(&lower, &Owner::Uuid(bytes));
        prop_assert_eq!(lower.text().as_ref().to_vec(), text.as_bytes());
        let mut capital = text.clone().into_bytes();
        capital[place].make_ascii_uppercase();
        let upper = Owner::new(&capital).unwrap();
        prop_assert_eq!(upper.text().as_ref().to_vec(), capital.clone());
        prop_assert_eq!(upper == lower, capital == text.as_bytes());
        let mut other = text.clone().into_bytes();
        other[place] = byte;
        let parsed = uuid::Uuid::try_parse_ascii(&other).ok().filter(|uuid| uuid.to_string().as_bytes() == other);
        prop_assert_eq!(matches!(Owner::new(&other), Some(Owner::Uuid(_))), parsed.is_some());
    }

    /// A grant returns the data it was made of, however it is stored, and however its number of holds came about.
    #[test]
    fn a_grant_tells_what_it_was_made_of(
        uuid in any::<bool>(),
        number in prop_oneof![1..=Fence::MAX.get(), Just(1), Just(Fence::MAX.get())],
        counts in vec(prop_oneof![1..u32::MAX, 1..20u32, Just(1), Just(u32::MAX)], 1..6),
        max_hold in proptest::option::of(prop_oneof![1..Millis::MAX, 1..=LONGEST_LEASE]),
        late in prop_oneof![Just(0), 1..1000i64],
    ) {
        let owner = if uuid { Owner::Uuid([7; 16]) } else { owner("a") };
        let made = fence(number).granted_at() / 1000 - late;
        let extras = Extras::new(max_hold, None);
        let mut grant = Grant::new(owner.borrowed(), fence(number), 1, extras.clone(), made);
        for holds in counts {
            grant.change(GrantChange::holds(holds));
            prop_assert_eq!((grant.owner(), grant.fence(), grant.max_hold()), (owner.borrowed(), fence(number), max_hold));
            prop_assert_eq!(grant.holds(), holds);
            prop_assert_eq!(grant.age(made + 7), 7);
            prop_assert_eq!(&grant, &Grant::new(owner.borrowed(), fence(number), holds, extras.clone(), made));
            // The grant gets a slot, a label and room for another holder, and loses them again.
            let mut permit = grant.clone();
            let pair = Room::limit(2).unwrap();
            let more = GrantChange { room: Some(pair), slot: Slot::new(2), label: Some(b"x"), ..GrantChange::NONE };
            permit.change(more);
            prop_assert_eq!((permit.room(), permit.slot(), permit.holds()), (pair, Slot::new(2), holds));
            prop_assert_eq!((permit.owner(), permit.age(made + 7), permit.label()), (owner.borrowed(), 7, &b"x"[..]));
            prop_assert_eq!(permit.max_hold(), max_hold);
            let less = GrantChange { room: Some(Room::ONE), label: Some(b""), ..GrantChange::NONE };
            permit.change(less);
            prop_assert_eq!((permit.room(), permit.slot(), permit.label()), (Room::ONE, Slot::new(2), &b""[..]));
            // A file or an effect makes an equal grant of the fields, unless the grant is older than 1970 or no command can make it.
            let mut full = Full::new(owner.clone(), fence(number));
            let set = permit.unusual().try_for_each(|(_, field, datum)| (field.set)(&mut full, datum));
            let kept = set.and_then(|()| full.received(Millis::MAX));
            let is_possible = made > 0 && max_hold.is_none_or(|age| age <= LONGEST_LEASE);
            prop_assert!(!is_possible || kept.as_ref() == Some(&permit), "{kept:?}, not {permit:?}");
            prop_assert_eq!(&permit.without_slot(), &grant);
        }
    }
}
