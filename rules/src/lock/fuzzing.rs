//! Fuzzes the functions that decide what a command does to a lock. Whatever numbers the fuzzer makes up, no decision breaks a rule: for
//! example, a new fence is greater than all earlier fences, and no lease is longer than the limits allow.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{
    AcquireRequest, Acquired, Deadline, Extras, Fence, FenceClock, Grant, GrantChange, Held, LONGEST_LEASE,
    Limits, Millis, Now, Others, Owner, ReentryError, Released, Room, Slot, SlotRequest, Value,
    decide_acquire, decide_extend, decide_release, lengthen,
};

/// The part of the input from which no numbers have been read yet.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i64::from_le_bytes(*first))
    }

    /// Reads a length of time in ms, from 0 to the longest that the parsers of commands accept.
    fn age(&mut self) -> Option<i64> {
        Some(self.next()? & ((1 << 53) - 1))
    }

    fn deadline(&mut self) -> Option<Deadline> {
        let at = self.next()?;
        Some(if at < 0 { Deadline::Never } else { Deadline::At(at) })
    }
}

pub fn decide(bytes: &[u8]) {
    let mut numbers = Numbers(bytes);
    let mut clock = FenceClock::new();
    let mut lock: Option<(Value, Deadline)> = None;
    while act(&mut numbers, &mut clock, &mut lock).is_some() {}
}

fn act(
    numbers: &mut Numbers<'_>,
    clock: &mut FenceClock,
    lock: &mut Option<(Value, Deadline)>,
) -> Option<()> {
    let [what, now, lease] = [numbers.next()?, numbers.next()?, numbers.age()?];
    let names: [&[u8]; 4] = [b"alice", b"bob", b"carol", b"dave"];
    let owner = Owner::Name(Cow::Borrowed(names.get((what & 3) as usize)?));
    let max_hold = Some(numbers.age()?).filter(|&age| age > 0);
    let rooms = [Room::ONE, Room::limit(2)?, Room::limit(3)?, Room::ANY];
    let labels: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"x"), Some(&[b'y'; 128])];
    let label = *labels.get((what >> 14 & 3) as usize)?;
    let room = *rooms.get((what >> 8 & 3) as usize)?;
    let slot = match u32::try_from(what >> 16 & 3).ok().and_then(Slot::new) {
        Some(slot) => SlotRequest::This(slot),
        None => SlotRequest::Least,
    };
    // The parsers of commands accept `SLOT` only with `LIMIT`, and only up to the limit.
    let slot = room.most().map(|most| match slot {
        SlotRequest::This(slot) if slot.get() > most => SlotRequest::Least,
        slot => slot,
    });
    let slot = slot.filter(|_| !room.is_exclusive() || what & 1 << 18 != 0);
    let limits = Limits {
        max_lease: LONGEST_LEASE,
        max_hold: max_hold.filter(|_| what & 1024 == 0),
        expiry_slack: 0,
        max_holders: [0, 1, 2, 3].get((what >> 12 & 3) as usize).copied()?,
        may_lengthen: what & 4 == 0,
    };
    if let Some((value, until)) = lock {
        have_room_for_each_other(value, *until);
    }
    match (what >> 4) % 6 {
        0 | 1 => {
            let (once, extras) = (what & 8 == 0, Extras::new(max_hold, label));
            let ask = AcquireRequest { owner, lease, once, session: false, room, slot, extras };
            take(&ask, limits, now, clock, lock)?;
        }
        2 => {
            let grant = lock.as_ref()?.0.grant_of(&owner)?;
            let fence = grant.fence();
            match decide_release(grant, None, what & 8 == 0) {
                Ok(Released::Kept { holds }) => {
                    let (value, until) = lock.as_mut()?;
                    let deadline = value.with_fence(fence, || *until)?.deadline;
                    *until = value.update(fence, GrantChange::holds(holds), deadline, *until);
                }
                Ok(Released::Ended) => end(lock, fence)?,
                Err(why) => panic!("{why:?} for a release without a fence"),
            }
        }
        3 => {
            let (value, until) = lock.as_mut()?;
            let (held, _) = value.seen_by(&owner, || *until);
            let held = held?;
            if let Ok(deadline) = decide_extend(held, None, lease, limits, now) {
                let least = Deadline::At(now).min(held.deadline);
                assert!(deadline >= least && deadline <= Deadline::after(now, lease));
                assert!(deadline <= held.grant.limit(limits.max_hold));
                let fence = held.grant.fence();
                *until = value.update(fence, GrantChange::NONE, deadline, *until);
            }
        }
        4 => {
            let (value, until) = lock.as_mut()?;
            if what & 8 == 0 {
                // A command such as `PEXPIRE` moves the TTL of the key.
                *until = numbers.deadline()?;
            }
            let over: Vec<_> = value.lapsed(*until, now).collect();
            for held in value.all(*until) {
                let deadline = lengthen(held, lease, limits, now);
                assert!(deadline >= held.deadline && held.grant.age(now) >= 0);
                assert!(deadline.left(now) >= -1 && held.deadline <= *until);
                let is_over = held.deadline < Deadline::At(now);
                assert!(value.is_one() || over.contains(&held.grant.fence()) == is_over);
            }
            for fence in over {
                end(lock, fence)?;
            }
        }
        // A grant arrives in a file or from a primary.
        _ => {
            let fence = Fence::new(numbers.next()?.unsigned_abs())?;
            let holds = u32::try_from(numbers.next()?).ok().filter(|&holds| holds > 0)?;
            clock.observe(fence);
            let grant =
                Grant::received(owner.into_owned(), fence, holds, Extras::new(max_hold, None), None, now);
            *lock = Some((Value::One(grant.with_room(room)), numbers.deadline()?));
        }
    }
    Some(())
}

fn take(
    ask: &AcquireRequest<'_>,
    limits: Limits,
    now: Millis,
    clock: &mut FenceClock,
    lock: &mut Option<(Value, Deadline)>,
) -> Option<()> {
    let (held, others) = match lock {
        Some((value, until)) => value.seen_by(&ask.owner, || *until),
        None => (None, Others::NONE),
    };
    let fence = held.map(|held| held.grant.fence());
    match (decide_acquire(held, others, ask, limits, now), held) {
        (Ok(Acquired::Granted { slot, deadline }), None) => {
            assert!(deadline <= Deadline::after(now, ask.lease));
            let last = clock.last();
            let fence = clock.next(now)?;
            assert!(Some(fence) > last);
            let grant = ask.grant(fence, slot, Now { micros: now, start: now });
            assert_eq!(slot, ask.slot.and(grant.slot()));
            if let Some(SlotRequest::This(asked)) = ask.slot {
                assert_eq!(slot, Some(asked));
            }
            assert_eq!(grant.label(), ask.label().unwrap_or_default());
            match lock {
                Some((value, until)) => *until = value.put(grant, deadline, *until),
                None => *lock = Some((Value::One(grant), deadline)),
            }
        }
        (
            Ok(Acquired::Reentered { holds, slot, deadline } | Acquired::Upgraded { holds, slot, deadline }),
            Some(held),
        ) => {
            assert!(held.grant.owner() == ask.owner && deadline >= held.deadline);
            assert!(holds == held.grant.holds() + u32::from(!ask.once));
            let room = held.grant.room().min(ask.room);
            let label = ask.label().unwrap_or(held.grant.label()).to_vec();
            assert_eq!(slot.is_some(), ask.slot.is_some());
            assert!(held.grant.slot().is_none() || slot.is_none() || slot == held.grant.slot());
            let (value, until) = lock.as_mut()?;
            let change = GrantChange { holds: Some(holds), room: Some(room), slot, label: ask.label() };
            *until = value.update(fence?, change, deadline, *until);
            assert_eq!(value.grant_of(&ask.owner)?.label(), label);
        }
        (Ok(Acquired::Refused), None) => assert!(others.count > 0),
        (Ok(Acquired::UpgradeRefused), Some(held)) => {
            assert!(ask.room < held.grant.room() || held.grant.slot().is_none());
            assert!(others.count > 0);
        }
        (Err(ReentryError::TooManyHolds), Some(held)) => assert_eq!(held.grant.holds(), u32::MAX),
        (Err(ReentryError::OtherSlot), Some(held)) => {
            let does_not_fit = |slot: Slot| !slot.fits(held.grant.room());
            assert!(match ask.slot {
                Some(SlotRequest::This(slot)) => held.grant.slot().is_some() || does_not_fit(slot),
                Some(SlotRequest::Least) | None => false,
            });
        }
        (Err(ReentryError::SlotAboveLimit { slot, limit }), Some(held)) => {
            assert_eq!((held.grant.slot(), ask.slot), (Some(slot), Some(SlotRequest::Least)));
            assert!(slot.get() > limit && ask.room.most() == Some(limit));
        }
        (decision, held) => panic!("{decision:?} for {held:?}"),
    }
    Some(())
}

fn end(lock: &mut Option<(Value, Deadline)>, fence: Fence) -> Option<()> {
    let (value, until) = lock.as_mut()?;
    match value.end(fence, *until) {
        Some(new_until) => *until = new_until,
        None => *lock = None,
    }
    Some(())
}

/// Checks that no grant allows fewer holders than there are, and that no two grants have the same owner or the same slot.
fn have_room_for_each_other(value: &Value, until: Deadline) {
    let count = value.all(until).count();
    assert_eq!(count, value.count());
    if let Value::Several(several) = value {
        assert!(several.maps_agree());
    }
    let mut slots = BTreeSet::new();
    for held in value.all(until) {
        let slot = held.grant.slot();
        assert!(slot.is_none_or(|slot| slots.insert(slot)), "twice: {slot:?}");
        assert!(slot.is_none_or(|slot| slot.fits(held.grant.room())), "above the room: {slot:?}");
        assert!(held.grant.room().most().is_none_or(|most| count <= most as usize));
        assert_eq!(value.grant_of(&held.grant.owner()), Some(held.grant));
        assert!(value.with_fence(held.grant.fence(), || until).is_some());
    }
    let both = |held: Held<'_>| (held.grant.room(), held.deadline);
    let (rooms, deadlines): (Vec<_>, Vec<_>) = value.all(until).map(both).unzip();
    assert_eq!(Some(value.room()), rooms.into_iter().min());
    assert_eq!(Some(value.first_deadline(until)), deadlines.iter().copied().min());
    assert!(deadlines.into_iter().all(|deadline| deadline <= until));
}
