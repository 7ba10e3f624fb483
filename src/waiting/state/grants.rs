//! What is known of the grants of one lock beside what its key holds: who has not been told yet, who keeps one alive, who hears what
//! becomes of it.

use std::collections::VecDeque;

use super::awaited::{Confirm, Moved};
use super::queue::Ticket;
use super::waiter::{Channel, Session};
use crate::lock::{Fence, Grant, Owner};

/// What is known of one grant. There is a record for each grant that somebody is yet to be told of, that a connection keeps alive, or
/// whose holder hears what becomes of it.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct GrantRecord {
    /// Grants are told apart by their fences: on one lock no two have the same.
    pub(super) fence: Fence,
    pub(super) untold: UntoldHolds,
    /// Holds whose client went away before it was told: they are to be taken back.
    pub(super) undeliverable: u32,
    /// The connection that keeps the grant alive.
    pub(super) session: Option<Session>,
    /// That session goes on only as long as replicas confirm its renewals. A box, since that is rare.
    pub(super) synced: Option<Box<Synced>>,
    /// The holder, where it hears what becomes of the grant.
    pub(super) listener: Option<Box<Listener>>,
    /// The grant, where its lease ended while this server stood still, and its session may outlive that.
    pub(super) expired: Option<Box<Expired>>,
}

/// Those who were given a grant and may turn out to be gone, first come first.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct UntoldHolds {
    holds: VecDeque<UntoldHold>,
    /// How many of them are not their waiters' own.
    sharing: u32,
}

/// A hold of which a waiter is yet to be told, or which a place is yet to claim.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct UntoldHold {
    pub(super) ticket: Ticket,
    /// How many locks that waiter waited for.
    pub(super) locks: u32,
    /// Whether it is a hold of its own. One that asked with `ONCE` shares that of another.
    pub(super) own: bool,
    /// The waiter's connection is to keep the grant alive from when it is told.
    pub(super) binds: bool,
    /// A place has it, until that claims it or gives it up. A client that is blocked has it until the server has freed it, told or not.
    pub(super) to_claim: bool,
}

/// What replicas have of a session's renewals.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Synced {
    pub(super) confirm: Confirm,
    /// Under this number a renewal is to be confirmed.
    pub(super) pending: Option<Ticket>,
    /// A renewal that was not confirmed in time, and is to be undone.
    pub(super) failed: Option<Moved>,
}

/// A holder that hears what becomes of its grant.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Listener {
    pub(super) owner: Owner<'static>,
    pub(super) channel: Channel,
    /// It knows that it has the lock.
    pub(super) claimed: bool,
    /// It has been told of the queue behind it.
    pub(super) told: bool,
}

/// A grant that the server has deleted with its key, since its lease was over.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Expired {
    pub(crate) grant: Grant,
    /// Something has been done to the key since: the grant is not given back.
    pub(crate) for_good: bool,
    /// How much had happened to keys when the grant was kept.
    pub(super) kept_at: u64,
}

/// How many records there are with something to be looked for, so that nobody looks where there is none.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) struct Counts {
    pub(super) undeliverable: u32,
    pub(super) sessions: u32,
    pub(super) listeners: u32,
    /// Listeners that know of their grant, and not of the queue behind it.
    pub(super) uninformed: u32,
    pub(super) expired: u32,
}

/// The records of one lock, by fence. Whatever changes one goes through here: so the counts are right, and a record of which nothing is
/// left is dropped.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct GrantRecords {
    records: VecDeque<GrantRecord>,
    counts: Counts,
}

impl GrantRecord {
    fn new(fence: Fence) -> Self {
        Self {
            fence,
            untold: UntoldHolds::default(),
            undeliverable: 0,
            session: None,
            synced: None,
            listener: None,
            expired: None,
        }
    }

    fn is_over(&self) -> bool {
        self.untold.is_empty()
            && self.undeliverable == 0
            && self.session.is_none()
            && self.listener.is_none()
            && self.expired.is_none()
    }

    /// A waiter is gone that was yet to be told of a hold, or to claim it: it is to be taken back, unless another has it now.
    pub(super) fn lose_untold(&mut self, ticket: Ticket) -> Option<UntoldHold> {
        let hold = self.untold.remove(ticket)?;
        self.undeliverable += u32::from(self.untold.is_lost_with(hold));
        Some(hold)
    }

    fn counts(&self) -> Counts {
        let listener = self.listener.as_deref();
        Counts {
            undeliverable: u32::from(self.undeliverable > 0),
            sessions: u32::from(self.session.is_some()),
            listeners: u32::from(listener.is_some()),
            uninformed: u32::from(listener.is_some_and(Listener::is_uninformed)),
            expired: u32::from(self.expired.is_some()),
        }
    }
}

impl UntoldHolds {
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &UntoldHold> {
        self.holds.iter()
    }

    fn position(&self, ticket: Ticket) -> Result<usize, usize> {
        self.holds.binary_search_by_key(&ticket, |hold| hold.ticket)
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&UntoldHold> {
        self.holds.get(self.position(ticket).ok()?)
    }

    fn get_mut(&mut self, ticket: Ticket) -> Option<&mut UntoldHold> {
        let known = self.position(ticket).ok()?;
        self.holds.get_mut(known)
    }

    pub(super) fn add(&mut self, hold: UntoldHold) {
        if let Err(next) = self.position(hold.ticket) {
            if self.holds.is_empty() {
                // Not four at once: there is one, as a rule.
                self.holds.reserve_exact(1);
            }
            self.sharing += u32::from(!hold.own);
            self.holds.insert(next, hold);
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<UntoldHold> {
        let known = self.position(ticket).ok()?;
        let hold = self.holds.remove(known)?;
        self.sharing -= u32::from(!hold.own);
        Some(hold)
    }

    /// Whether that waiter's connection is to keep the grant alive.
    pub(super) fn set_binds(&mut self, ticket: Ticket, binds: bool) {
        if let Some(hold) = self.get_mut(ticket) {
            hold.binds = binds;
        }
    }

    /// No blocked client's connection is to keep the grant alive.
    pub(super) fn end_binds(&mut self) {
        let blocked = self.holds.iter_mut().filter(|hold| !hold.to_claim);
        blocked.for_each(|hold| hold.binds = false);
    }

    /// A waiter has the grant without a hold of its own.
    pub(super) fn share_with(&mut self, ticket: Ticket) {
        if let Some(hold) = self.get_mut(ticket) {
            let shares = std::mem::take(&mut hold.own);
            self.sharing += u32::from(shares);
        }
    }

    /// The same of all clients that are blocked.
    pub(super) fn share_with_blocked(&mut self) {
        for hold in self.holds.iter_mut().filter(|hold| !hold.to_claim) {
            self.sharing += u32::from(std::mem::take(&mut hold.own));
        }
    }

    /// A hold has lost its client. If it was that client's own, another one that shares it, and came later, has it from now on. Whether
    /// there is none: then the hold is to be taken back.
    fn is_lost_with(&mut self, hold: UntoldHold) -> bool {
        if !hold.own || self.sharing == 0 {
            return hold.own;
        }
        let heir = self.holds.iter_mut().find(|other| !other.own && other.ticket > hold.ticket);
        let Some(heir) = heir else { return true };
        heir.own = true;
        self.sharing -= 1;
        false
    }
}

impl Listener {
    fn is_uninformed(&self) -> bool {
        self.claimed && !self.told
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.undeliverable += other.undeliverable;
        self.sessions += other.sessions;
        self.listeners += other.listeners;
        self.uninformed += other.uninformed;
        self.expired += other.expired;
    }

    fn remove(&mut self, other: Self) {
        self.undeliverable -= other.undeliverable;
        self.sessions -= other.sessions;
        self.listeners -= other.listeners;
        self.uninformed -= other.uninformed;
        self.expired -= other.expired;
    }
}

impl GrantRecords {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    fn position(&self, fence: Fence) -> Result<usize, usize> {
        self.records.binary_search_by_key(&fence, |record| record.fence)
    }

    pub(super) fn get(&self, fence: Fence) -> Option<&GrantRecord> {
        self.records.get(self.position(fence).ok()?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &GrantRecord> {
        self.records.iter()
    }

    /// Those with later fences.
    pub(super) fn after(&self, seen: Option<Fence>) -> impl Iterator<Item = &GrantRecord> {
        let first = self.records.partition_point(|record| Some(record.fence) <= seen);
        self.records.range(first..)
    }

    /// The session of that grant.
    pub(super) fn session(&self, fence: Fence) -> Option<&Session> {
        if self.counts.sessions == 0 {
            return None;
        }
        self.get(fence)?.session.as_ref()
    }

    /// What keeps grants alive.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> {
        let records = if self.counts.sessions == 0 { 0 } else { self.records.len() };
        self.records.iter().take(records).filter_map(|record| record.session.as_ref())
    }

    /// The first grant whose holder knows of it, and not of the queue behind it.
    pub(super) fn first_uninformed(&self) -> Option<Fence> {
        if self.counts.uninformed == 0 {
            return None;
        }
        let is_uninformed = |record: &&GrantRecord| record.counts().uninformed > 0;
        self.records.iter().find(is_uninformed).map(|record| record.fence)
    }

    /// The first grant of which holds are to be taken back.
    pub(super) fn first_undeliverable(&self) -> Option<Fence> {
        if self.counts.undeliverable == 0 {
            return None;
        }
        self.records.iter().find(|record| record.undeliverable > 0).map(|record| record.fence)
    }

    /// Changes the record of a grant, where there is one.
    pub(super) fn change<R>(&mut self, fence: Fence, body: impl FnOnce(&mut GrantRecord) -> R) -> Option<R> {
        let number = self.position(fence).ok()?;
        self.change_at(number, body)
    }

    /// Changes the record of a grant, made where there is none.
    pub(super) fn open<R>(&mut self, fence: Fence, body: impl FnOnce(&mut GrantRecord) -> R) -> Option<R> {
        let number = match self.position(fence) {
            Ok(known) => known,
            Err(next) => {
                if self.records.is_empty() {
                    self.records.reserve_exact(1);
                }
                self.records.insert(next, GrantRecord::new(fence));
                next
            }
        };
        self.change_at(number, body)
    }

    fn change_at<R>(&mut self, number: usize, body: impl FnOnce(&mut GrantRecord) -> R) -> Option<R> {
        let record = self.records.get_mut(number)?;
        self.counts.remove(record.counts());
        let result = body(record);
        self.counts.add(record.counts());
        if record.is_over() {
            self.records.remove(number);
        }
        Some(result)
    }

    /// A grant has ended: what was known of it. One that may be given back is kept.
    pub(super) fn end(&mut self, fence: Fence) -> Option<GrantRecord> {
        self.change(fence, |record| {
            let expired = record.expired.take();
            std::mem::replace(record, GrantRecord { expired, ..GrantRecord::new(fence) })
        })
    }

    /// Changes all.
    pub(super) fn change_all(&mut self, mut body: impl FnMut(&mut GrantRecord)) {
        self.records.iter_mut().for_each(&mut body);
        self.records.retain(|record| !record.is_over());
        self.counts = Counts::default();
        for record in &self.records {
            self.counts.add(record.counts());
        }
    }
}

#[cfg(test)]
impl GrantRecord {
    pub(super) fn renumber_tickets(&mut self, tickets: &std::collections::BTreeMap<Ticket, Ticket>) {
        self.untold.holds.iter_mut().for_each(|hold| hold.ticket = tickets[&hold.ticket]);
        if let Some(synced) = &mut self.synced {
            synced.pending = synced.pending.map(|old| tickets[&old]);
        }
    }
}
