//! The queues, one to a lock: who comes, who is next, who leaves.

use std::collections::BTreeSet;

use super::grants::{GrantRecord, GrantRecords, Listener};
use super::line::{Line, Unsettled, Upgrader};
use super::message::{Due, Message, Word};
use super::queue::Ticket;
use super::untold::UntoldHold;
use super::waiter::{Arrival, Phase, Stands, Waiter, WaiterInfo, Way};
use super::{At, Place, State};
use crate::lock::{Ask, Fence, Millis, Now, Owner};

impl<C: Copy> State<C> {
    pub(super) fn line(&self, at: At<'_>) -> Option<&Line> {
        self.lines.get(at)
    }

    /// Changes a line, where there is one, and drops it if nothing is left of it.
    pub(super) fn with_line<R>(&mut self, at: At<'_>, body: impl FnOnce(&mut Line) -> R) -> Option<R> {
        let line = self.lines.get_mut(at)?;
        let result = body(line);
        if line.is_over() {
            self.cancel_timers(at);
            self.lines.remove(at);
        }
        Some(result)
    }

    /// The line of a lock, made where there is none, and its name, shared with it.
    pub(super) fn open_line(&mut self, at: At<'_>) -> (Place, &mut Line) {
        let place = self.lines.place(at).unwrap_or_else(|| at.to_place());
        (place.clone(), self.lines.open(place))
    }

    /// What of a lock is to be looked at: it is looked at now, and its timers that are due are over.
    pub(crate) fn take_up(&mut self, at: At<'_>, now: Millis) -> Unsettled {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return Unsettled::default() };
        let renewal = line.timers.is_renewal_due(now);
        self.timers.cancel_due(&mut line.timers, place, now);
        let (through, counts) = (std::mem::take(&mut line.through), line.grants.counts());
        Unsettled {
            lapsed: counts.expired > 0,
            undeliverable: counts.undeliverable > 0,
            session: counts.sessions > 0,
            // One is quickly looked at.
            sessions: through || renewal || counts.sessions == 1,
            watched: counts.listeners > 0,
            records: through || line.grants.len() == 1,
            through,
        }
    }

    /// Has all that is known of a lock compared with what it is, at that time at the latest; whether there is anything.
    pub(crate) fn look_through(&mut self, at: At<'_>, time: Millis) -> bool {
        self.leave_for_next(at);
        self.look_by(at, time)
    }

    /// The same when a lock is looked at next.
    pub(crate) fn leave_for_next(&mut self, at: At<'_>) {
        if let Some(line) = self.lines.get_mut(at) {
            line.through = true;
        }
    }

    /// The name of a line, shared with it.
    pub(super) fn place(&self, at: At<'_>) -> Option<Place> {
        self.lines.place(at)
    }

    /// The number of a waiter that comes now; never used twice.
    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        Ticket(self.last_ticket)
    }

    pub(crate) fn waiters_of(&self, at: At<'_>) -> usize {
        self.line(at).map_or(0, |line| line.queue.len())
    }

    /// So many of those who wait for a lock: the next one first.
    pub(crate) fn queue_of(&self, at: At<'_>, most: usize, now: Now) -> Vec<WaiterInfo> {
        let tickets = self.line(at).into_iter().flat_map(Line::in_order);
        let waiters = tickets.filter_map(|ticket| self.waiters.get(&ticket));
        waiters.take(most).map(|waiter| WaiterInfo::new(waiter, now)).collect()
    }

    pub(crate) fn join(&mut self, at: At<'_>, ticket: Ticket, arrival: Arrival<C>) {
        let place = self.stand(at, ticket, &arrival);
        self.enter(Stands::one(place), ticket, arrival);
    }

    /// One waiter for several locks: the one of that number keeps it waiting.
    pub(crate) fn join_all(&mut self, all: &[At<'_>], stuck: usize, ticket: Ticket, arrival: Arrival<C>) {
        let places: Vec<Place> = all.iter().map(|at| self.stand(*at, ticket, &arrival)).collect();
        self.enter(Stands::several(places.into_iter(), stuck), ticket, arrival);
    }

    /// Puts a waiter into a queue.
    fn stand(&mut self, at: At<'_>, ticket: Ticket, arrival: &Arrival<C>) -> Place {
        let (place, line) = self.open_line(at);
        line.queue.join(ticket, arrival.ask.owner.clone());
        self.survey.busiest.count(&place, arrival.since);
        self.tell_wanted(at);
        place
    }

    fn enter(&mut self, stands: Stands, ticket: Ticket, arrival: Arrival<C>) {
        match arrival.way {
            Way::Notified(_) => {
                self.connections.add_place(arrival.client_id, ticket, stands.weight());
                self.owners.add_place(&arrival.ask.owner, &stands, ticket);
            }
            Way::Blocked(_) => self.connections.block(arrival.client_id, ticket),
        }
        self.owners.join(&arrival.ask.owner, ticket, stands.are_several());
        let waiter = Waiter::new(stands, arrival);
        self.timers.set_timeout(ticket, waiter.ends);
        self.waiters.insert(ticket, waiter);
        self.queued += 1;
    }

    /// The first waiter of a line, and what it asks for.
    pub(crate) fn head(&self, at: At<'_>) -> Option<(Ticket, Ask<'static>)> {
        self.asked(self.line(at)?.head()?)
    }

    /// The first waiter of a line with that owner, behind that one, and what it asks for.
    pub(crate) fn next_of(
        &self,
        at: At<'_>,
        owner: &Owner<'static>,
        seen: Option<Ticket>,
    ) -> Option<(Ticket, Ask<'static>)> {
        self.asked(self.line(at)?.queue.next_of(owner, seen)?)
    }

    /// The owners who wait, each once.
    pub(crate) fn owners_of(&self, at: At<'_>) -> BTreeSet<Owner<'static>> {
        let tickets = self.line(at).into_iter().flat_map(|line| line.queue.iter());
        tickets
            .filter_map(|ticket| self.waiters.get(&ticket))
            .map(|waiter| waiter.ask.owner.clone())
            .collect()
    }

    /// The holder, by its fence, whose waiters stand in front, since they want less room than its grant has.
    pub(crate) fn upgrader(&self, at: At<'_>) -> Option<Fence> {
        self.line(at)?.upgrader.as_ref().map(|upgrader| upgrader.fence)
    }

    /// Has a waiter of that holder stand in front, until it has what it waits for, or its grant has ended.
    pub(crate) fn upgrade_first(&mut self, at: At<'_>, fence: Fence, ticket: Ticket) {
        self.with_line(at, |line| match &mut line.upgrader {
            Some(upgrader) if upgrader.fence == fence => _ = upgrader.tickets.insert(ticket),
            other => *other = Some(Box::new(Upgrader { fence, tickets: BTreeSet::from([ticket]) })),
        });
    }

    /// Nobody stands in front any more.
    pub(crate) fn end_upgrade(&mut self, at: At<'_>) {
        self.with_line(at, |line| line.upgrader = None);
    }

    /// A grant has ended: what is known of it is over. Its holder, if it hears of it, hears that word, and nobody has to claim it any
    /// more. A place that has nothing else to claim is gone.
    pub(crate) fn end_grant(&mut self, at: At<'_>, fence: Fence, word: Option<fn(Fence) -> Word>) {
        let Some((place, line)) = self.lines.get_key_mut(at) else { return };
        if let Some(record) = line.end_grant(fence) {
            let place = place.clone();
            self.grant_ended(&place, record, word);
        }
    }

    /// Apart, since nothing hangs on most grants, and a handover ends one.
    #[inline(never)]
    fn grant_ended(&mut self, place: &Place, record: GrantRecord, word: Option<fn(Fence) -> Word>) {
        let at = place.at();
        let through = self.with_line(at, |line| line.through).unwrap_or_default();
        if let Some(session) = record.session {
            self.session_ended(place, &session, record.synced);
        }
        let mut was_to_claim = false;
        for hold in record.untold.iter().filter(|hold| hold.to_claim) {
            was_to_claim = true;
            let Some(waiter) = self.waiters.get_mut(&hold.ticket) else { continue };
            if let Some(stand) = waiter.stands.at_mut(at) {
                stand.got = None;
            }
            if waiter.stands.all().iter().all(|stand| stand.got.is_none()) {
                self.drop_waiter(hold.ticket);
            }
        }
        if was_to_claim && through {
            self.look_by(at, 0);
        }
        if let (Some(listener), Some(word)) = (record.listener, word) {
            let Listener { owner, channel, .. } = *listener;
            self.answered.push_back(Due::Message(Message { channel, word: word(record.fence), owner }));
        }
    }

    /// The same of all grants of a lock.
    pub(super) fn end_grants(&mut self, at: At<'_>, word: fn(Fence) -> Word) {
        let mut seen = None;
        while let Some(fence) = self.next_known(at, seen) {
            seen = Some(fence);
            self.end_grant(at, fence, Some(word));
        }
        self.with_line(at, |line| line.grants = GrantRecords::default());
    }

    /// The next grant of a lock of which something is known, by its fence.
    pub(crate) fn next_known(&self, at: At<'_>, seen: Option<Fence>) -> Option<Fence> {
        self.line(at)?.grants.after(seen).next().map(|record| record.fence)
    }

    fn asked(&self, ticket: Ticket) -> Option<(Ticket, Ask<'static>)> {
        Some((ticket, self.waiters.get(&ticket)?.ask.clone()))
    }

    /// The one way out of its queues, for whatever reason; whether the waiter stood in them.
    pub(super) fn leave(&mut self, ticket: Ticket, next: Phase) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return false };
        if waiter.phase != Phase::Queued {
            return false;
        }
        waiter.phase = next;
        self.queued -= 1;
        self.survey.ungranted += u64::from(!next.is_granted());
        let stands = waiter.stands.clone();
        let owner = waiter.ask.owner.clone();
        let is_place = waiter.channel().is_some();
        let locks = stands.all().len() as u32;
        let hold = UntoldHold { ticket, locks, own: true, binds: waiter.ask.session, to_claim: is_place };
        self.timers.cancel_timeout(ticket, waiter.ends.take());
        self.timers.cancel_try(ticket);
        self.owners.leave(&owner, ticket, stands.are_several());
        if is_place {
            self.owners.remove_place(&owner, &stands, ticket);
        }
        for stand in stands.all() {
            let granted = stand.fence().filter(|_| next.is_granted());
            self.leave_line(&stand.place, &owner, hold, granted, stands.are_several());
        }
        true
    }

    fn leave_line(
        &mut self,
        place: &Place,
        owner: &Owner<'static>,
        hold: UntoldHold,
        granted: Option<Fence>,
        several: bool,
    ) {
        let (at, ticket) = (place.at(), hold.ticket);
        let seen = |line: &Line| (line.head() == Some(ticket), line.queue.len() == 1);
        let (was_first, is_last) = self.line(at).map_or((false, false), seen);
        if is_last {
            self.forget_held(place);
        }
        self.with_line(at, |line| {
            line.queue.leave(ticket, owner);
            line.end_upgrade(ticket);
            if line.queue.is_empty() && line.grants.counts().listeners > 0 {
                line.grants.change_all(|record| {
                    record.listener.iter_mut().for_each(|listener| listener.told = false);
                });
            }
            if let Some(fence) = granted {
                line.add_untold(fence, hold);
            }
        });
        // There may be room for those behind it; and what it did not get for want of another lock is free.
        let may_fit = |(_, ask): (_, Ask<'_>)| several || !ask.room.is_exclusive();
        if was_first && granted.is_none() && self.head(at).is_some_and(may_fit) {
            self.look_by(at, 0);
        }
        // A holder's own waiters pass over two of it at most.
        if granted.is_none()
            && self.line(at).is_some_and(|line| line.queue.next_of(owner, Some(ticket)).is_some())
        {
            self.look_through(at, 0);
        }
    }
}
