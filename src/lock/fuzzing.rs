//! No number is too great for a decision, and none breaks a promise.

use std::borrow::Cow;

use super::{
    Acquired, Ask, Deadline, Fence, FenceClock, Grant, Held, LONGEST_LEASE, Limits, Owner, Released, acquire,
    extend, lengthen, release,
};

/// Numbers out of bytes; where those are used up, none.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i64::from_le_bytes(*first))
    }

    /// Not negative, as the parser lets it through.
    fn age(&mut self) -> Option<i64> {
        Some(self.next()? & ((1 << 53) - 1))
    }

    fn deadline(&mut self) -> Option<Deadline> {
        let at = self.next()?;
        Some(if at < 0 { Deadline::Never } else { Deadline::At(at) })
    }
}

pub(crate) fn decide(bytes: &[u8]) {
    let mut numbers = Numbers(bytes);
    let mut clock = FenceClock::new();
    let mut lock: Option<(Grant, Deadline)> = None;
    while step(&mut numbers, &mut clock, &mut lock).is_some() {}
}

fn step(
    numbers: &mut Numbers<'_>,
    clock: &mut FenceClock,
    lock: &mut Option<(Grant, Deadline)>,
) -> Option<()> {
    let [what, now, lease] = [numbers.next()?, numbers.next()?, numbers.age()?];
    let owner = Owner::Name(Cow::Borrowed(if what & 1 == 0 { b"alice" } else { b"bob" }));
    let max_hold = Some(numbers.age()?).filter(|&age| age > 0);
    let limits = Limits {
        max_lease: LONGEST_LEASE,
        max_hold: max_hold.filter(|_| what & 2 == 0),
        grain: 0,
        lengthen: what & 4 == 0,
    };
    let held = lock.as_ref().map(|(grant, deadline)| Held { grant, deadline: *deadline });
    match (what >> 4) % 6 {
        0 | 1 => {
            let ask = Ask { owner, lease, max_hold, once: what & 8 == 0, session: false };
            match (acquire(held, &ask, limits, now), held) {
                (Ok(Acquired::Granted { deadline }), None) => {
                    assert!(deadline <= Deadline::after(now, lease));
                    let last = clock.last();
                    let fence = clock.next(now)?;
                    assert!(Some(fence) > last);
                    *lock =
                        Some((Grant::new(ask.owner.into_owned(), fence, 1, max_hold, now / 1000), deadline));
                }
                (Ok(Acquired::Reentered { holds, deadline }), Some(held)) => {
                    assert!(held.grant.owner() == ask.owner && deadline >= held.deadline);
                    assert!(holds == held.grant.holds() + u32::from(!ask.once));
                    let (grant, old) = lock.as_mut()?;
                    grant.set_holds(holds);
                    *old = deadline;
                }
                (Ok(Acquired::Refused), Some(held)) => assert!(held.grant.owner() != ask.owner),
                (Err(_), Some(held)) => assert_eq!(held.grant.holds(), u32::MAX),
                (answer, held) => panic!("{answer:?} for {held:?}"),
            }
        }
        2 => match release(held.map(|held| held.grant), &owner, None, what & 8 == 0) {
            Some(Released::Kept { holds }) => lock.as_mut()?.0.set_holds(holds),
            Some(Released::Ended) => *lock = None,
            None => assert!(held.is_none_or(|held| held.grant.owner() != owner)),
        },
        3 => {
            let held = held?;
            if let Some(deadline) = extend(Some(held), &owner, None, lease, limits, now) {
                let least = Deadline::At(now).min(held.deadline);
                assert!(deadline >= least && deadline <= Deadline::after(now, lease));
                assert!(deadline <= held.grant.limit(limits.max_hold));
                lock.as_mut()?.1 = deadline;
            }
        }
        4 => {
            let held = held?;
            let deadline = lengthen(held, lease, limits, now);
            assert!(deadline >= held.deadline && held.grant.age(now) >= 0);
            assert!(deadline.left(now) >= -1);
        }
        // What a file or a primary may bring.
        _ => {
            let fence = Fence::new(numbers.next()?.unsigned_abs())?;
            let holds = u32::try_from(numbers.next()?).ok().filter(|&holds| holds > 0)?;
            clock.observe(fence);
            *lock = Some((
                Grant::told(owner.into_owned(), fence, holds, max_hold, None, now),
                numbers.deadline()?,
            ));
        }
    }
    Some(())
}
