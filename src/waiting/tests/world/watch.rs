//! What the guarantees say of each step, and of the moment in which all that was due has been done.

use super::{Fault, Hears, Site, Size, Who, World, owner};
use crate::lock::{Deadline, Fence, Millis};
use crate::waiting::tests::server::{Rules, Server, Stands};
use crate::waiting::{Message, Word};

impl World {
    /// Has a server do something, and looks at what became of the lock.
    pub(super) fn step<T>(
        &mut self,
        size: Size,
        at: Site,
        body: impl FnOnce(&mut Server, Rules, Millis) -> T,
    ) -> T {
        let now = self.now;
        let server = self.server(at);
        let queued = server.queued();
        let before = server.fences_held().first().copied();
        let result = body(server, size.rules, now);
        let after = server.held(now).map(|held| (held.grant.fence(), held.grant.owner().into_owned()));
        let effects = std::mem::take(&mut server.effects);
        let messages = std::mem::take(&mut server.messages);
        if at == Site::Primary && self.replica.is_some() {
            self.on_the_way.extend(effects);
        }
        // A lease that ended while the server stood still, and is given back.
        let after = after.filter(|after| before != Some(after.0) && self.highest.as_ref() != Some(after));
        if let Some((fence, holder)) = after {
            if self.highest.as_ref().is_some_and(|(highest, _)| fence <= *highest) {
                self.faults.insert(Fault::FenceNotAbove);
            }
            self.untold = Some(fence);
            // The first to come of those who wait, by our own list.
            let first = self.arrivals.iter().find(|&stands| queued.contains(stands));
            if let Some(first) = first.filter(|_| at == Site::Primary) {
                let next = match first {
                    Stands::Blocked(conn) => self.waiting[usize::from(*conn)].map(|(who, _)| owner(who)),
                    Stands::Notified(owner) => Some(owner.clone()),
                };
                if next.as_ref() != Some(&holder) {
                    self.faults.insert(Fault::NotTheFirst);
                }
                if let Stands::Notified(_) = first {
                    self.to_claim = Some(fence);
                    let hears = Hears { fence, claimed: false, wanted: false };
                    let who = (0..size.owners).find(|who| owner(*who) == holder);
                    who.into_iter().for_each(|who| self.hears[usize::from(who)] = Some(hears));
                }
            }
            self.highest = Some((fence, holder));
        }
        if at == Site::Primary {
            self.read(size, messages);
        }
        result
    }

    /// What has been published, and what has become of the places.
    fn read(&mut self, size: Size, messages: Vec<Message>) {
        let queued = self.primary.queued();
        let holder = self.primary.held(self.now).map(|held| held.grant.owner().into_owned());
        for who in 0..size.owners {
            let place = Stands::Notified(owner(who));
            let mut told = messages.iter().filter(|message| message.owner == owner(who));
            let ends = |message: &Message| !matches!(message.word, Word::Lost(_) | Word::Wanted(_));
            if self.arrivals.contains(&place) && !queued.contains(&place) {
                self.arrivals.retain(|stands| *stands != place);
                if holder != Some(owner(who)) && !told.any(ends) {
                    self.faults.insert(Fault::PlaceLost);
                }
            }
        }
        for Message { word, owner: name, .. } in messages {
            let Some(who) = (0..size.owners).find(|who| owner(*who) == name) else { continue };
            let hears = &mut self.hears[usize::from(who)];
            match word {
                Word::Lost(fence) => _ = hears.take_if(|hears| hears.fence == fence),
                Word::Gone => *hears = None,
                Word::Wanted(fence) => {
                    let same = hears.iter_mut().filter(|hears| hears.fence == fence);
                    same.for_each(|hears| hears.wanted = true);
                }
                // Nobody will claim it.
                Word::Granted(fence) if self.primary.deaf => {
                    _ = self.to_claim.take_if(|to_claim| *to_claim == fence)
                }
                Word::Granted(fence) => self.to_claim = self.to_claim.max(Some(fence)),
                Word::Timeout => {}
            }
        }
        if queued.is_empty() {
            self.hears.iter_mut().flatten().for_each(|hears| hears.wanted = false);
        }
    }

    /// A step by an owner: it must not touch another's grant.
    pub(super) fn step_of<T>(
        &mut self,
        size: Size,
        at: Site,
        who: Who,
        body: impl FnOnce(&mut Server, Rules, Millis) -> T,
    ) -> T {
        let now = self.now;
        let before = self.server(at).clone();
        let result = self.step(size, at, body);
        let after = self.server(at).held(now);
        if let Some(held) = before.held(now).filter(|held| held.grant.owner() != owner(who)) {
            let same =
                after.is_some_and(|after| *after.grant == *held.grant && after.deadline >= held.deadline);
            // The step may be the first to find out that the grant's client has gone away, or to renew a session's lease.
            if !same && !before.is_unsettled() {
                self.faults.insert(Fault::ByAStranger);
            }
        }
        result
    }

    /// All that was due has been done: what must be so then.
    pub(super) fn look(&mut self, size: Size) {
        let held = self.primary.held(self.now).map(|held| held.grant.fence());
        let may_grant = self.primary.grace_left(size.rules, self.now).grants == 0 && !size.happens.refusals;
        let ends = self.primary.held(self.now).is_some_and(|held| held.deadline <= Deadline::At(self.now));
        if ends && held.is_some_and(|fence| self.primary.session(fence).is_some()) && !size.happens.refusals {
            self.faults.insert(Fault::NotRenewed);
        }
        // A failover may lose it.
        let kept = |fence| held == Some(fence) || size.failover.is_some();
        if !self.beliefs.iter().flatten().all(|belief| kept(belief.fence)) {
            self.faults.insert(Fault::Lost);
        }
        if held.is_none() && !self.primary.queued().is_empty() && may_grant {
            self.faults.insert(Fault::FreeWithAQueue);
        }
        let holder = self.primary.held(self.now).map(|held| held.grant.owner().into_owned());
        let waits_for_itself = |stands: &Stands| match stands {
            Stands::Blocked(conn) => self.waiting[usize::from(*conn)].map(|(who, _)| owner(who)) == holder,
            Stands::Notified(name) => Some(name) == holder.as_ref(),
        };
        let refused = size.happens.refusals || size.happens.arrives;
        if holder.is_some() && self.primary.queued().iter().any(waits_for_itself) && !refused {
            self.faults.insert(Fault::WaitsForItself);
        }
        // What is not claimed ends soon.
        let claim = size.rules.claim;
        let may_be_claimed =
            |fence: &Fence| Some(*fence) == self.to_claim && self.now <= fence.granted_at() / 1000 + claim;
        let untold = self.untold.filter(|fence| !may_be_claimed(fence));
        if held.is_some() && held == untold && !size.happens.refusals {
            self.faults.insert(Fault::ToNobody);
        }
        let waits = !self.primary.queued().is_empty();
        // What an owner does not know of it does not miss.
        let over = |hears: &mut Hears| !hears.claimed && held != Some(hears.fence);
        self.hears.iter_mut().for_each(|hears| _ = hears.take_if(over));
        let heard = |hears: &Hears| held == Some(hears.fence) && (hears.wanted || !waits || !hears.claimed);
        if !self.hears.iter().flatten().all(heard) && !size.happens.refusals {
            self.faults.insert(Fault::NotHeard);
        }
        let gone = |stands: &Stands| matches!(stands, Stands::Notified(_)) && !self.arrivals.contains(stands);
        if self.primary.queued().iter().any(gone) {
            self.faults.insert(Fault::ToNobody);
        }
        if self.primary.blocked().iter().any(|&conn| self.waiting[usize::from(conn)].is_none()) {
            self.faults.insert(Fault::ToNobody);
        }
    }
}
