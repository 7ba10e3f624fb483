//! The grants of a lock that several owners hold at the same time.

use super::map::Map;
use super::room::Slots;
use super::{Deadline, Fence, Grant, GrantChange, Held, Millis, Others, Owner, Room, UsedSlots};

/// The grants of one lock. Adding, finding or ending a grant takes logarithmic time, unless a command such as `PEXPIRE` has moved the key's
/// TTL (see `align`).
///
/// The stored ends of leases may be out of date, because a command such as `PEXPIRE` moves the key's TTL, but not the stored ends. The real
/// end of a lease follows from its stored end, the latest stored end and the end of the TTL (see `deadline_by`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Several {
    /// The oldest grant is the first, because fences rise.
    grants: Map<Fence, (Grant, Deadline)>,
    owners: Map<Owner<'static>, Fence>,
    deadlines: Map<(Deadline, Fence), ()>,
    /// How many grants have each room (the number of holders that a grant allows).
    rooms: Map<Room, usize>,
    slots: Slots,
}

/// Returns the end to which `deadline` moves when the latest end of all leases moves from `latest` to `until`.
fn moved(deadline: Deadline, latest: Deadline, until: Deadline) -> Deadline {
    match (deadline, latest, until) {
        (_, latest, until) if latest == until => deadline,
        (_, _, Deadline::Never) => Deadline::Never,
        (Deadline::At(at), Deadline::At(latest), Deadline::At(until)) => {
            Deadline::At(at.saturating_add(until.saturating_sub(latest)))
        }
        // The latest end, or the end of this lease, was `Never`. Now every lease has an end.
        (deadline, Deadline::Never, until) => deadline.min(until),
        (Deadline::Never, ..) => until,
    }
}

impl Several {
    /// Makes a `Several` with one grant, and with memory for a second grant.
    pub(super) fn of(grant: Grant, deadline: Deadline) -> Self {
        let (grants, owners, deadlines) = (Map::for_two(), Map::for_two(), Map::for_two());
        let mut several = Self { grants, owners, deadlines, ..Self::default() };
        several.put(grant, deadline);
        several
    }

    pub(super) fn count(&self) -> usize {
        self.grants.len()
    }

    /// Returns the latest stored end of all leases. After a change of the grants, the key's TTL is to be set to this end.
    pub(super) fn until(&self) -> Deadline {
        self.deadlines.last().map_or(Deadline::Never, |((deadline, _), ())| *deadline)
    }

    /// Returns the real end of a lease, from its stored end (`deadline`) and the end of the key's TTL (`until`).
    fn deadline_by(&self, deadline: Deadline, until: Deadline) -> Deadline {
        moved(deadline, self.until(), until)
    }

    /// Moves all stored ends by as much as a command such as `PEXPIRE` has moved the key's TTL, which now ends at `until`.
    pub(super) fn align(&mut self, until: Deadline) {
        let latest = self.until();
        if latest == until {
            return;
        }
        self.grants.change_all(|(_, deadline)| *deadline = moved(*deadline, latest, until));
        // The moved ends have the same order as before, so rebuilding the whole index takes a fraction of the time of single insertions.
        let deadlines =
            self.deadlines.iter().map(|((at, fence), ())| ((moved(*at, latest, until), *fence), ()));
        self.deadlines = deadlines.collect();
    }

    pub(super) fn all(&self, until: Deadline) -> impl Iterator<Item = Held<'_>> {
        self.grants.values().map(move |(grant, at)| Held { grant, deadline: self.deadline_by(*at, until) })
    }

    pub(super) fn seen_by(&self, owner: &Owner<'_>, until: Deadline) -> (Option<Held<'_>>, Others<'_>) {
        let its = self.owners.get(owner).and_then(|fence| self.with_fence(*fence, until));
        let slots = self.slots();
        let Some(held) = its else {
            return (None, Others { count: self.count(), room: self.room(), slots });
        };
        // `room` and `slots` include those of the owner's own grant, which does no harm: a re-entry keeps room for no more holders than its
        // grant allows, and an owner with a slot never looks for another slot.
        (Some(held), Others { count: self.count() - 1, room: self.room(), slots })
    }

    pub(super) fn grant_of(&self, owner: &Owner<'_>) -> Option<&Grant> {
        let fence = self.owners.get(owner)?;
        self.grants.get(fence).map(|(grant, _)| grant)
    }

    pub(super) fn with_fence(&self, fence: Fence, until: Deadline) -> Option<Held<'_>> {
        let (grant, deadline) = self.grants.get(&fence)?;
        Some(Held { grant, deadline: self.deadline_by(*deadline, until) })
    }

    pub(super) fn first_deadline(&self, until: Deadline) -> Deadline {
        self.deadlines.first().map_or(until, |((deadline, _), ())| self.deadline_by(*deadline, until))
    }

    pub(super) fn lapsed(&self, until: Deadline, now: Millis) -> impl Iterator<Item = Fence> {
        let deadlines = self.deadlines.iter().map(|(deadline, ())| *deadline);
        let over = move |(at, _): &(Deadline, Fence)| self.deadline_by(*at, until) < Deadline::At(now);
        deadlines.take_while(over).map(|(_, fence)| fence)
    }

    pub(super) fn room(&self) -> Room {
        self.rooms.first().map_or(Room::ANY, |(room, _)| *room)
    }

    pub(super) fn slots(&self) -> UsedSlots<'_> {
        UsedSlots::Several(&self.slots)
    }

    /// Adds a grant beside the other grants. If its owner already has a grant, replaces that grant.
    pub(super) fn put(&mut self, grant: Grant, deadline: Deadline) {
        let owner = grant.owner().into_owned();
        let earlier = self.owners.get(&owner).copied().and_then(|fence| self.end(fence));
        let grant = match &earlier {
            Some(earlier) => grant.with_age_of(earlier),
            None => grant,
        };
        // Two grants must not have the same fence, whatever a file says.
        self.end(grant.fence());
        // Two grants must not have the same slot, either. `slots` does not have the slot 1 that an exclusive grant has without storing it.
        // In an altered file, such a grant may be beside a grant that stores slot 1. Then the end of the exclusive grant must not free the
        // other grant's slot.
        let grant = match grant.explicit_slot() {
            Some(slot) if self.slots.has(slot) => grant.without_slot(),
            Some(slot) => {
                self.slots.add(slot);
                grant
            }
            None => grant,
        };
        match self.rooms.get_mut(&grant.room()) {
            Some(count) => *count += 1,
            None => self.rooms.insert(grant.room(), 1),
        }
        self.deadlines.insert((deadline, grant.fence()), ());
        self.owners.insert(owner, grant.fence());
        self.grants.insert(grant.fence(), (grant, deadline));
    }

    /// Changes the grant with this fence, if there is one, and sets the end of its lease to `deadline`.
    pub(super) fn update(&mut self, fence: Fence, change: GrantChange<'_>, deadline: Deadline) {
        if let Some(mut grant) = self.end(fence) {
            grant.change(change);
            self.put(grant, deadline);
        }
    }

    /// Removes the grant with this fence, and returns it; `None` if there is no such grant.
    pub(super) fn end(&mut self, fence: Fence) -> Option<Grant> {
        let (grant, deadline) = self.grants.remove(&fence)?;
        self.deadlines.remove(&(deadline, fence));
        self.owners.remove(&grant.owner().into_owned());
        if let Some(slot) = grant.explicit_slot() {
            self.slots.remove(slot);
        }
        if let Some(count) = self.rooms.get_mut(&grant.room()) {
            *count -= 1;
            if *count == 0 {
                self.rooms.remove(&grant.room());
            }
        }
        Some(grant)
    }

    /// If only one grant is left, takes it out and returns it. After that, the caller must drop this `Several`.
    pub(super) fn last_one(&mut self) -> Option<Grant> {
        if self.count() > 1 {
            return None;
        }
        let fence = *self.grants.first()?.0;
        self.grants.remove(&fence).map(|(grant, _)| grant)
    }

    /// Whether every map has all grants, and nothing else. If an owner without a grant stayed in a map, it would take memory forever.
    #[cfg(fuzzing)]
    pub(super) fn maps_agree(&self) -> bool {
        let with_a_room = self.rooms.values().sum();
        let with_a_slot = self.grants.values().filter(|(grant, _)| grant.explicit_slot().is_some()).count();
        [self.owners.len(), self.deadlines.len(), with_a_room] == [self.count(); 3]
            && self.slots.count() == with_a_slot
    }

    pub(super) fn heap_size(&self) -> usize {
        // Owners' names are stored in both `grants` and `owners`.
        let owners = self.grants.values().map(|(grant, _)| grant.heap_size() + grant.owner().heap_size());
        let maps = self.grants.heap_size()
            + self.owners.heap_size()
            + self.deadlines.heap_size()
            + self.rooms.heap_size();
        owners.sum::<usize>() + maps + self.slots.heap_size()
    }
}
