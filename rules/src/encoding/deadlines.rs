//! Converts between the ends of leases and their numbers in files. The latest lease (the lease that ends last) is the key's TTL. For each
//! other lease, a file has a number: by how many ms this lease ends before the latest, or, if the latest lease has no end, when this lease
//! ends, in ms since 1970.

use crate::lock::{Deadline, Millis};

/// Stands for the end of the lease that ends last, in ms since 1970, where the TTL of the key is unknown. As late as possible: the other
/// leases end so many ms before it, and none may end before 1970.
const FAR: Millis = Millis::MAX;

/// Returns what stands for the end of the lease that ends last while a lock is written to a file or read: `Never` if this lease has no end
/// (`endless`), and else `FAR`.
pub fn latest(endless: bool) -> Deadline {
    if endless { Deadline::Never } else { Deadline::At(FAR) }
}

/// Returns the number that stands in files for the end of one of several leases. `endless` says whether the lease that ends last has no
/// end.
pub(super) fn number_of(deadline: Deadline, endless: bool) -> u64 {
    match deadline {
        Deadline::Never => 0,
        Deadline::At(at) if endless => at.max(1).unsigned_abs(),
        Deadline::At(at) => FAR.saturating_sub(at).unsigned_abs(),
    }
}

/// Returns the end of a lease that was written as `number`; `None` if the number is too great.
pub(super) fn deadline_of(number: u64, endless: bool) -> Option<Deadline> {
    let number = Millis::try_from(number).ok()?;
    Some(match (endless, number) {
        (true, 0) => Deadline::Never,
        (true, at) => Deadline::At(at),
        (false, shorter) => Deadline::At(FAR - shorter),
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::lock::{Fence, Grant, GrantChange, LONGEST_LEASE, Owner, Room, Value};

    /// The present time in the tests, in ms.
    const NOW: Millis = 1;

    /// Generates the end of a lease, often near the limits.
    fn any_deadline() -> impl Strategy<Value = Deadline> {
        let at = prop_oneof![
            NOW..=Millis::MAX,
            NOW..=NOW + 9,
            Millis::MAX - 9..=Millis::MAX,
            LONGEST_LEASE - 9..LONGEST_LEASE + 9
        ];
        prop_oneof![6 => at.prop_map(Deadline::At), 1 => Just(Deadline::Never)]
    }

    /// Ends lapsed grants, as each command does. Then makes a grant for the owner, or changes the lease of the owner's grant. Returns the
    /// end of the lease that ends last.
    fn set(value: &mut Value, owner: u8, deadline: Deadline, until: Deadline, number: u64) -> Deadline {
        let mut until = until;
        for fence in value.lapsed(until, NOW).collect::<Vec<_>>() {
            until = value.end(fence, until).unwrap();
        }
        let fence = Fence::new(number).unwrap();
        let grant = Grant::received(Owner::new(&[owner]).unwrap().into_owned(), fence, 1, None, None, NOW);
        let old = value.grant_of(&grant.owner()).cloned();
        match old {
            Some(old) => value.update(old.fence(), GrantChange::NONE, deadline, until),
            None => value.put(grant.with_room(Room::ANY), deadline, until),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Leases that have been written and read again end at the same times as the original leases, whatever TTL the key then gets, and
        /// however the TTL was moved before.
        #[test]
        fn leases_come_back_as_they_were(
            actions in vec((b'a'..b'e', any_deadline(), proptest::option::of(any_deadline())), 1..12),
            seen_by in vec(any_deadline(), 3),
        ) {
            let first = Grant::received(Owner::new(b"x").unwrap(), Fence::new(1).unwrap(), 1, None, None, NOW);
            let (mut value, mut until) = (Value::One(first.with_room(Room::ANY)), Deadline::At(NOW));
            for (number, (owner, deadline, moved)) in (2..).zip(actions) {
                until = set(&mut value, owner, deadline, until, number);
                until = moved.unwrap_or(until);
            }
            let endless = value.is_endless();
            let mut loaded: Option<(Value, Deadline)> = None;
            for held in value.all(latest(endless)) {
                prop_assert!(held.deadline >= Deadline::At(0), "what replicas and files would take for none");
                let deadline = deadline_of(number_of(held.deadline, endless), endless).unwrap();
                let grant = held.grant.clone();
                loaded = Some(match loaded {
                    None => (Value::One(grant), deadline),
                    Some((mut value, until)) => {
                        let until = value.put(grant, deadline, until);
                        (value, until)
                    }
                });
            }
            let (loaded, latest_loaded) = loaded.unwrap();
            prop_assert_eq!(latest_loaded, latest(endless));
            let deadlines = |value: &Value, until| value.all(until).map(|held| held.deadline).collect::<Vec<_>>();
            for until in seen_by.into_iter().chain([until]) {
                prop_assert_eq!(deadlines(&loaded, until), deadlines(&value, until));
            }
        }
    }

    #[test]
    fn an_end_beyond_what_there_can_be_is_none() {
        for endless in [false, true] {
            assert_eq!(deadline_of(1 << 63, endless), None);
            assert_eq!(deadline_of(u64::MAX, endless), None);
        }
    }
}
