//! Checks the guarantees after each step, and when all due work has been done.

use std::collections::{BTreeMap, BTreeSet};

use super::super::server::{Queued, QueuedRequest, Rules, Server};
use super::{Fault, Hears, Role, Size, Who, World, owner};
use crate::lock::{Deadline, Fence, Held, Millis, Owner, Room, Slot, SlotRequest};
use crate::waiting::replication::Offset;
use crate::waiting::{Message, MessageKind};

/// The fence of a grant, its owner and its room.
type Holder = (Fence, Owner<'static>, Room);

/// The slot of each grant.
type Slots = BTreeMap<Fence, Option<Slot>>;

impl World {
    /// Makes a server take a step, and checks the lock afterwards.
    pub(super) fn step<T>(
        &mut self,
        size: Size,
        at: Role,
        body: impl FnOnce(&mut Server, Rules, Millis) -> T,
    ) -> T {
        let now = self.now;
        let server = self.server(at);
        let asked = server.asks();
        let before: Vec<Fence> = server.all_held().iter().map(|held| held.grant.fence()).collect();
        let slots_before = slots(&server.holders(now));
        let result = body(server, size.rules, now);
        let slots_after = slots(&server.holders(now));
        let after = server.holders(now).into_iter();
        let after: Vec<_> = after
            .map(|held| (held.grant.fence(), held.grant.owner().into_owned(), held.grant.room()))
            .collect();
        let effects = std::mem::take(&mut server.effects);
        let messages = std::mem::take(&mut server.messages);
        server.written += effects.len() as Offset;
        if at == Role::Primary {
            self.on_the_way.extend(effects.into_iter().filter(|_| self.replica.is_some()));
            self.note_acks();
        }
        if !before.is_empty() || !size.happens.freezes && !size.happens.arrives {
            self.known = before;
        }
        if !are_right(&slots_before, &slots_after, size) {
            self.faults.insert(Fault::WrongSlot);
        }
        let is_new = |holder: &&Holder| !self.known.contains(&holder.0);
        let new: Vec<Holder> = after.iter().filter(is_new).cloned().collect();
        let kept: Vec<Holder> = after.iter().filter(|holder| !is_new(holder)).cloned().collect();
        for (fence, holder, _) in &new {
            // An old primary that has to ask replicas tells nobody of its grants.
            if at == Role::Old && self.confirms {
                continue;
            }
            if self.highest.as_ref().is_some_and(|(highest, _)| fence <= highest) {
                self.faults.insert(Fault::FenceNotAbove);
            }
            self.untold.insert(*fence);
            self.highest = Some((*fence, holder.clone()));
        }
        if at == Role::Primary {
            self.check_order(size, asked, kept, new);
            let fences: BTreeSet<Fence> = after.iter().map(|(fence, ..)| *fence).collect();
            self.untold.retain(|fence| fences.contains(fence));
            self.to_claim.retain(|fence| fences.contains(fence));
            // A shortened lease is remembered as long as the grant exists, or as a client may still be told of it.
            let given: Vec<Fence> = self.primary.given(0).into_iter().map(|(fence, _)| fence).collect();
            let alone = size.kinds.iter().all(|kind| kind.room().is_exclusive());
            self.cut.retain(|fence, _| !alone || fences.contains(fence) || given.contains(fence));
        }
        if !size.happens.freezes && !size.happens.arrives {
            self.known.clear();
        }
        if at == Role::Primary {
            self.read(size, messages);
        }
        result
    }

    /// Checks that new grants go to the first waiter, by the world's own list, and to nobody while a holder waits for an upgrade. A
    /// holder's own waiters re-enter wherever they are in the queue.
    fn check_order(&mut self, size: Size, asked: Vec<QueuedRequest>, kept: Vec<Holder>, new: Vec<Holder>) {
        let rank = |asked: &QueuedRequest| self.arrivals.iter().position(|queued| *queued == asked.by);
        let mut waits: Vec<_> = asked.iter().filter_map(|asked| Some((rank(asked)?, asked))).collect();
        waits.sort_by_key(|(rank, _)| *rank);
        let still = self.primary.queued();
        let upgrades = |asked: &QueuedRequest| {
            let less = |(_, holder, room): &Holder| *holder == asked.owner && asked.room < *room;
            kept.iter().any(less) && still.contains(&asked.by)
        };
        if !new.is_empty() && waits.iter().any(|(_, asked)| upgrades(asked)) {
            self.faults.insert(Fault::NotTheFirst);
        }
        let mut holders: Vec<Owner<'_>> = kept.into_iter().map(|(_, owner, _)| owner).collect();
        for (fence, holder, _) in new {
            let next = waits.iter().map(|(_, asked)| *asked).find(|asked| !holders.contains(&asked.owner));
            if next.is_some_and(|next| next.owner != holder) {
                self.faults.insert(Fault::NotTheFirst);
            }
            if next.is_some_and(|next| matches!(next.by, Queued::Notified(_))) {
                self.to_claim.insert(fence);
                let hears = Hears { fence, claimed: false, wanted: false };
                let who = (0..size.owners).find(|who| owner(*who) == holder);
                who.into_iter().for_each(|who| self.hears[usize::from(who)] = Some(hears));
            }
            holders.push(holder);
        }
    }

    /// Returns the requests of holders that wait for upgrades.
    pub(super) fn upgrades(&self) -> impl Iterator<Item = QueuedRequest> {
        let holders = self.primary.holders(self.now);
        let less = move |asked: &QueuedRequest| {
            holders.iter().any(|held| held.grant.owner() == asked.owner && asked.room < held.grant.room())
        };
        self.primary.asks().into_iter().filter(less)
    }

    /// Reads the published messages, and checks that no place ended without one.
    fn read(&mut self, size: Size, messages: Vec<Message>) {
        let queued = self.primary.queued();
        let holders = self.primary.holders(self.now).into_iter();
        let holders: Vec<Owner<'_>> = holders.map(|held| held.grant.owner().into_owned()).collect();
        for who in 0..size.owners {
            let place = Queued::Notified(owner(who));
            let mut told = messages.iter().filter(|message| message.owner == owner(who));
            let ends =
                |message: &Message| !matches!(message.kind, MessageKind::Lost(_) | MessageKind::Wanted(_));
            if self.arrivals.contains(&place) && !queued.contains(&place) {
                self.arrivals.retain(|queued| *queued != place);
                if !holders.contains(&owner(who)) && !told.any(ends) {
                    self.faults.insert(Fault::PlaceLost);
                }
            }
        }
        for Message { kind, owner: name, .. } in messages {
            let Some(who) = (0..size.owners).find(|who| owner(*who) == name) else { continue };
            let hears = &mut self.hears[usize::from(who)];
            if matches!(kind, MessageKind::Gone | MessageKind::Timeout) {
                self.to_be_sent_away.remove(&who);
            }
            match kind {
                MessageKind::Lost(fence) => _ = hears.take_if(|hears| hears.fence == fence),
                MessageKind::Gone => *hears = None,
                MessageKind::Wanted(fence) => {
                    let same = hears.iter_mut().filter(|hears| hears.fence == fence);
                    same.for_each(|hears| hears.wanted = true);
                }
                // Nobody got the message, so nobody will claim the grant.
                MessageKind::Granted(fence) if self.primary.deaf => _ = self.to_claim.remove(&fence),
                MessageKind::Granted(fence) => _ = self.to_claim.insert(fence),
                MessageKind::Start { fence, .. } if self.primary.deaf => _ = self.to_claim.remove(&fence),
                // The message `start` claims the grant.
                MessageKind::Start { fence, .. } => {
                    self.untold.remove(&fence);
                    self.to_claim.remove(&fence);
                    let same = hears.iter_mut().filter(|hears| hears.fence == fence);
                    same.for_each(|hears| hears.claimed = true);
                }
                MessageKind::Timeout => {}
            }
        }
        if queued.is_empty() {
            self.hears.iter_mut().flatten().for_each(|hears| hears.wanted = false);
        }
    }

    /// Takes a step for an owner, and checks that the step does not change another owner's grant.
    pub(super) fn step_of<T>(
        &mut self,
        size: Size,
        at: Role,
        who: Who,
        body: impl FnOnce(&mut Server, Rules, Millis) -> T,
    ) -> T {
        let now = self.now;
        let before = self.server(at).clone();
        let result = self.step(size, at, body);
        let after = self.server(at).confirmed(now);
        let others = before.confirmed(now).into_iter().filter(|held| held.grant.owner() != owner(who));
        let same = |held: &Held<'_>| {
            let after = after.iter().find(|after| after.grant.fence() == held.grant.fence());
            // The other owner's waiters may re-enter, even by an upgrade.
            after.is_some_and(|after| {
                let less = after.grant.room() <= held.grant.room();
                after.deadline >= held.deadline && after.grant.holds() >= held.grant.holds() && less
            })
        };
        // The step may be the first to find that the client of a grant has gone away, or to renew a session's lease.
        if !others.into_iter().all(|held| same(&held)) && !before.is_unsettled() {
            self.faults.insert(Fault::ByAStranger);
        }
        result
    }

    /// Checks the guarantees for the moment in which all due work has been done.
    pub(super) fn look(&mut self, size: Size) {
        let now = self.now;
        let holders = self.primary.holders(now);
        let held: Vec<Fence> = holders.iter().map(|held| held.grant.fence()).collect();
        let mut found = Vec::new();
        let refusals = size.happens.refusals;
        let ends = |held: &Held<'_>| held.deadline <= Deadline::At(now);
        let kept_alive = |held: &Held<'_>| self.primary.session(held.grant.fence()).is_some();
        // A session ends if replicas do not confirm its renewals.
        if holders.iter().any(|held| ends(held) && kept_alive(held)) && !refusals && !self.confirms {
            found.push(Fault::NotRenewed);
        }
        // A failover may lose the grant.
        let kept = |fence| held.contains(&fence) || self.has_failed_over(size);
        if !self.all_beliefs().all(|belief| kept(belief.fence)) {
            found.push(Fault::Lost);
        }
        let asks = self.primary.asks();
        let first = self.upgrades().next();
        let first = first.as_ref().or(asks.first());
        if first.is_some_and(|first| fits(first, &holders, size)) && !refusals {
            found.push(Fault::FreeWithAQueue);
        }
        let waits_for_itself = |asked: &QueuedRequest| {
            let its = |held: &Held<'_>| held.grant.owner() == asked.owner && asked.room >= held.grant.room();
            holders.iter().any(its)
        };
        if asks.iter().any(waits_for_itself) && !refusals && !size.happens.arrives {
            found.push(Fault::WaitsForItself);
        }
        // An owner that is not shown its grant does not rely on it, so nobody should have to wait for this grant.
        if self.confirms && self.primary.clone().shown(size.rules, now).len() != holders.len() {
            found.push(Fault::NotShown);
        }
        // Nothing new is granted in a grace.
        if self.primary.grace_left(size.rules, now).grants > 0 {
            found.retain(|fault| *fault != Fault::FreeWithAQueue);
        }
        self.faults.extend(found);
        self.check_sessions();
        // An unclaimed grant must end after the time to claim it.
        let claim = size.rules.claim;
        let may_be_claimed =
            |fence: &Fence| self.to_claim.contains(fence) && now <= fence.granted_at() / 1000 + claim;
        let waits = |fence: &Fence| self.primary.is_unconfirmed(*fence);
        let in_vain = |fence: &Fence| held.contains(fence) && !may_be_claimed(fence) && !waits(fence);
        if self.untold.iter().any(in_vain) && !refusals {
            self.faults.insert(Fault::ToNobody);
        }
        let waits = !self.primary.queued().is_empty();
        // A holder need not hear messages about a grant that it does not know of.
        let over = |hears: &mut Hears| !hears.claimed && !held.contains(&hears.fence);
        self.hears.iter_mut().for_each(|hears| _ = hears.take_if(over));
        let heard = |hears: &Hears| held.contains(&hears.fence) && (hears.wanted || !waits || !hears.claimed);
        if !self.hears.iter().flatten().all(heard) && !size.happens.refusals {
            self.faults.insert(Fault::NotHeard);
        }
        if !self.to_be_sent_away.is_empty() {
            self.faults.insert(Fault::PlaceLost);
        }
        let gone = |queued: &Queued| matches!(queued, Queued::Notified(_)) && !self.arrivals.contains(queued);
        if self.primary.queued().iter().any(gone) {
            self.faults.insert(Fault::ToNobody);
        }
        if self.primary.blocked().iter().any(|&conn| self.waiting[usize::from(conn)].is_none()) {
            self.faults.insert(Fault::ToNobody);
        }
    }

    /// Checks that a connection keeps a grant alive only after the owner was told, or until the server knows that the connection has gone.
    fn check_sessions(&mut self) {
        let mut kept = vec![BTreeSet::new(); self.sessions.len()];
        for held in self.primary.holders(self.now) {
            let who = (0..self.beliefs.len() as Who).find(|who| owner(*who) == held.grant.owner());
            if let Some((conn, who)) = self.primary.session(held.grant.fence()).zip(who) {
                kept[usize::from(conn)].insert(who);
            }
        }
        for (conn, (kept, told)) in (0..).zip(kept.iter().zip(&mut self.sessions)) {
            if !kept.is_subset(told) && !self.primary.has_vanished(conn) && !self.primary.is_doomed(conn) {
                self.faults.insert(Fault::KeptUntold);
            }
            told.retain(|who| kept.contains(who));
        }
    }
}

fn slots(holders: &[Held<'_>]) -> Slots {
    holders.iter().map(|held| (held.grant.fence(), held.grant.slot())).collect()
}

/// Whether all slots differ, each grant has kept its slot, and each new slot is the least free slot, unless a request named another slot.
fn are_right(before: &Slots, after: &Slots, size: Size) -> bool {
    let known = |fence: &Fence| before.get(fence).copied().flatten();
    let mut used: BTreeSet<Slot> = after.keys().filter_map(known).collect();
    let wishes: Vec<_> = size.kinds.iter().map(|kind| kind.slot()).collect();
    after.iter().all(|(fence, slot)| match (known(fence), *slot) {
        (None, None) => true,
        (Some(known), slot) => slot == Some(known),
        (None, Some(slot)) => {
            let is_least = (1..slot.get()).filter_map(Slot::new).all(|less| used.contains(&less));
            used.insert(slot) && (is_least || wishes.contains(&Some(SlotRequest::This(slot))))
        }
    })
}

/// Whether this request fits beside the holders, by the rules of the page on `LOCK.ACQUIRE`.
fn fits(asked: &QueuedRequest, holders: &[Held<'_>], size: Size) -> bool {
    let others: Vec<_> = holders.iter().filter(|held| held.grant.owner() != asked.owner).collect();
    let room = |room: Room| room.most().map_or(usize::MAX, |most| most as usize);
    let rooms = others.iter().map(|held| room(held.grant.room()));
    let rooms = rooms.chain([room(asked.room), room(size.rules.max_holders)]);
    let taken = |held: &&Held<'_>| held.grant.slot().map(SlotRequest::This) == asked.slot;
    let is_taken = matches!(asked.slot, Some(SlotRequest::This(_))) && others.iter().any(taken);
    !is_taken && rooms.into_iter().all(|room| others.len() < room)
}
