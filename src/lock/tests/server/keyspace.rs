//! The lock itself, and what replicas are told of it.

use super::{Effect, Server};
use crate::lock::{Ask, Deadline, Fence, Grant, Millis};

impl Server {
    /// A replica applies what its primary told.
    pub(in crate::lock::tests) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Held(grant, deadline) => {
                self.fences.observe(grant.fence());
                self.lock = Some((grant, deadline));
            }
            Effect::Lease(deadline) => {
                if let Some((_, old)) = &mut self.lock {
                    *old = deadline;
                }
            }
            Effect::Free => self.lock = None,
        }
    }

    /// A lease that is over ends the grant when somebody looks.
    pub(super) fn expire(&mut self, now: Millis) {
        if self.held(now).is_none() {
            self.free();
        }
    }

    pub(super) fn free(&mut self) {
        if self.lock.take().is_some() {
            self.effects.push(Effect::Free);
        }
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        self.lock.as_ref().map(|(grant, _)| grant.fence())
    }

    pub(super) fn grant_to(&mut self, ask: &Ask<'static>, now: Millis, deadline: Deadline) -> Fence {
        let fence = self.fences.next(now * 1000).unwrap();
        let grant = Grant::new(ask.owner.clone(), fence, 1, ask.max_hold);
        self.effects.push(Effect::Held(grant.clone(), deadline));
        self.lock = Some((grant, deadline));
        fence
    }

    pub(super) fn set_holds(&mut self, holds: u32) {
        if let Some((_, deadline)) = self.lock {
            self.update(holds, deadline);
        }
    }

    pub(super) fn update(&mut self, holds: u32, deadline: Deadline) {
        let Some((grant, old)) = &mut self.lock else { return };
        if grant.holds() != holds {
            grant.set_holds(holds);
            self.effects.push(Effect::Held(grant.clone(), deadline));
        } else if *old != deadline {
            self.effects.push(Effect::Lease(deadline));
        }
        *old = deadline;
    }
}
