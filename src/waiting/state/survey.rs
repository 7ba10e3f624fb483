//! What is kept for those who look on. It decides nothing.

use super::busiest::Busiest;
use super::held::Held;
use super::queue::Ticket;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub(super) struct Survey {
    /// Nobody that came before that one stands in a queue.
    pub(super) first: Ticket,
    /// The last waiter that is not to be found again among those who have waited long.
    pub(super) long_waits: Ticket,
    /// How many waits have ended without a grant.
    pub(super) ungranted: u64,
    pub(super) busiest: Busiest,
    pub(super) held: Held,
}

impl Survey {
    pub(super) const fn new() -> Self {
        Self {
            first: Ticket::MIN,
            long_waits: Ticket::MIN,
            ungranted: 0,
            busiest: Busiest::new(),
            held: Held::new(),
        }
    }
}
