//! What is kept for `LOCK.WAITS`, `INFO` and the log. It decides nothing.

use super::busiest::Busiest;
use super::held_since::HeldSince;
use super::queue::RequestId;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub(super) struct Observers {
    /// Nobody that came before that one stands in a queue.
    pub(super) first: RequestId,
    /// The last waiter that is not to be found again among those who have waited long.
    pub(super) long_waits: RequestId,
    /// How many waits have ended without a grant.
    pub(super) ungranted: u64,
    pub(super) busiest: Busiest,
    pub(super) held: HeldSince,
}

impl Observers {
    pub(super) const fn new() -> Self {
        Self {
            first: RequestId::MIN,
            long_waits: RequestId::MIN,
            ungranted: 0,
            busiest: Busiest::new(),
            held: HeldSince::new(),
        }
    }
}
