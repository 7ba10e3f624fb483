//! The key on a replica.

use super::{Effect, Server};
use crate::lock::Grant;

impl Server {
    /// A replica applies what its primary told.
    pub(crate) fn apply(&mut self, effect: Effect) {
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

    /// The grant, also one whose lease is over and that nobody has looked at since.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.lock.as_ref().map(|(grant, _)| grant)
    }
}
