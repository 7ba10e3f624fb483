//! Tests of slots, the numbers of permits.

use super::*;

fn permit(name: &str, most: u32, slot: Option<u32>) -> AcquireRequest<'_> {
    let slot = slot.map_or(SlotRequest::Least, |slot| SlotRequest::This(Slot::new(slot).unwrap()));
    AcquireRequest { room: Room::limit(most).unwrap(), slot: Some(slot), ..ask(name, 500) }
}

/// Acquires a lock with these holders, stores the result, and returns the slot. The error is the reason why a re-entry is impossible, or
/// `None` if the owner has to wait.
fn take(
    value: &mut Option<Value>,
    ask: &AcquireRequest<'_>,
    number: u64,
) -> Result<Option<u32>, Option<ReentryError>> {
    let until = Deadline::At(NOW + 500);
    let (held, others) =
        value.as_ref().map_or((None, Others::NONE), |value| value.seen_by(&ask.owner, || until));
    let acquired = crate::lock::decide_acquire(held, others, ask, age(None), NOW).map_err(Some)?;
    let slot = match acquired {
        Acquired::Granted { slot, .. } => {
            let grant = ask.grant(fence(number), slot, Now { micros: NOW * 1000, start: NOW });
            assert_eq!(slot, ask.slot.and(grant.slot()));
            match value {
                Some(value) => _ = value.put(grant, until, until),
                None => *value = Some(Value::One(grant)),
            }
            slot
        }
        Acquired::Reentered { holds, slot, .. } | Acquired::Upgraded { holds, slot, .. } => {
            let grant = held.unwrap().grant;
            let (fence, room) = (grant.fence(), grant.room().min(ask.room));
            let change = GrantChange { holds: Some(holds), room: Some(room), slot, label: None };
            value.as_mut().unwrap().update(fence, change, until, until);
            slot
        }
        Acquired::Refused | Acquired::UpgradeRefused => return Err(None),
    };
    Ok(slot.map(Slot::get))
}

#[test]
fn each_permit_has_the_least_number_that_is_free() {
    let mut value = None;
    for (number, name) in (1..).zip(["a", "b", "c"]) {
        assert_eq!(take(&mut value, &permit(name, 3, None), number), Ok(Some(number as u32)));
    }
    assert_eq!(take(&mut value, &permit("d", 3, None), 4), Err(None));
    let until = Deadline::At(NOW + 500);
    value.as_mut().unwrap().end(fence(2), until);
    assert_eq!(take(&mut value, &permit("d", 3, None), 4), Ok(Some(2)));
    assert_eq!(take(&mut value, &permit("d", 3, None), 5), Ok(Some(2)), "a re-entry");
    value.as_mut().unwrap().end(fence(1), until);
    value.as_mut().unwrap().end(fence(4), until);
    // Holders with a greater limit have slots above this limit, but count as holders.
    assert_eq!(take(&mut value, &permit("e", 2, None), 6), Ok(Some(1)));
    assert_eq!(take(&mut value, &permit("f", 2, None), 7), Err(None));
}

#[test]
fn a_slot_that_is_named_is_had_or_nothing_is() {
    let mut value = None;
    assert_eq!(take(&mut value, &permit("a", 3, Some(2)), 1), Ok(Some(2)));
    assert_eq!(take(&mut value, &permit("b", 3, Some(2)), 2), Err(None));
    assert_eq!(take(&mut value, &permit("b", 3, None), 2), Ok(Some(1)));
    assert_eq!(take(&mut value, &permit("c", 3, None), 3), Ok(Some(3)));
    let other = Err(Some(ReentryError::OtherSlot));
    assert_eq!(take(&mut value, &permit("a", 3, Some(3)), 4), other);
    assert_eq!(take(&mut value, &permit("a", 3, Some(2)), 4), Ok(Some(2)));
    assert_eq!(take(&mut value, &permit("a", 5, None), 4), Ok(Some(2)));
    // The owner's slot is above the new limit, so the request is refused whether or not there is room.
    let above = ReentryError::SlotAboveLimit { slot: Slot::new(2).unwrap(), limit: 1 };
    assert_eq!(take(&mut value, &permit("a", 1, None), 4), Err(Some(above)));
    // The reply to a request without `LIMIT` has no slot, but the grant keeps its slot.
    let until = Deadline::At(NOW + 500);
    for number in [2, 3] {
        value.as_mut().unwrap().end(fence(number), until);
    }
    assert_eq!(take(&mut value, &ask("a", 500), 5), Ok(None));
    assert_eq!(take(&mut value, &permit("a", 3, None), 5), Ok(Some(2)));
}

/// Grants without a slot are grants of readers, or were made by an earlier version.
#[test]
fn a_grant_without_a_slot_has_one_from_its_next_re_entry_on() {
    let reader = |name| AcquireRequest { room: Room::ANY, ..ask(name, 500) };
    let mut value = None;
    for (number, name) in (1..).zip(["a", "b"]) {
        assert_eq!(take(&mut value, &reader(name), number), Ok(None));
    }
    assert_eq!(take(&mut value, &permit("a", 3, None), 3), Ok(Some(1)));
    assert_eq!(take(&mut value, &permit("b", 3, Some(1)), 3), Err(None), "another has it");
    assert_eq!(take(&mut value, &permit("b", 3, None), 3), Ok(Some(2)));
}

/// An earlier version made the grant: `LIMIT 2` without a slot. The grant goes on allowing two holders, and its slot may not be above 2.
#[test]
fn a_first_slot_is_within_the_room_of_the_grant() {
    let old = Grant::new(owner("a").into_owned(), fence(1), 1, None, NOW).with_room(Room::limit(2).unwrap());
    let mut value = Some(Value::One(old));
    assert_eq!(take(&mut value, &permit("a", 5, Some(3)), 2), Err(Some(ReentryError::OtherSlot)));
    assert_eq!(take(&mut value, &permit("a", 5, Some(2)), 2), Ok(Some(2)));
}

/// An earlier version made one of the grants. If the other grant has the requested slot, the owner waits, as if it asked for a grant that
/// allows fewer holders than there are.
#[test]
fn a_first_slot_that_another_has_is_waited_for() {
    let old = Grant::new(owner("a").into_owned(), fence(1), 1, None, NOW).with_room(Room::limit(2).unwrap());
    let mut value = Some(Value::One(old));
    assert_eq!(take(&mut value, &permit("b", 2, None), 2), Ok(Some(1)));
    assert_eq!(take(&mut value, &permit("a", 2, Some(1)), 3), Err(None));
    assert_eq!(take(&mut value, &permit("a", 2, None), 3), Ok(Some(2)));
}

/// No two holders have the same slot, whatever replicas or files say.
#[test]
fn no_two_holders_have_one_slot() {
    let grant = |name: &str, number| {
        let grant = Grant::new(owner(name).into_owned(), fence(number), 1, None, NOW).with_room(Room::ANY);
        grant.with_slot(Slot::new(1))
    };
    let until = Deadline::At(NOW + 500);
    let mut value = Value::One(grant("a", 1));
    value.put(grant("b", 2), until, until);
    let slots: Vec<_> = value.all(until).map(|held| held.grant.slot().map(Slot::get)).collect();
    assert_eq!(slots, [Some(1), None]);
}

/// In an altered file, an exclusive grant may be among others, one of which stores slot 1, the slot that an exclusive grant has without
/// storing it.
#[test]
fn the_end_of_an_exclusive_grant_frees_no_number_of_another() {
    let until = Deadline::At(NOW + 500);
    let mut value = None;
    for (number, name) in [(1, "a"), (2, "b")] {
        take(&mut value, &permit(name, 4, None), number).unwrap();
    }
    let exclusive = Grant::new(owner("c").into_owned(), fence(3), 1, None, NOW);
    value.as_mut().unwrap().put(exclusive, until, until);
    value.as_mut().unwrap().end(fence(3), until);
    assert_eq!(take(&mut value, &permit("d", 4, None), 4), Ok(Some(3)));
}
