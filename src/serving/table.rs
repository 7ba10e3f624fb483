//! The table of waiters, the budget and the clock: what all of this folder stands on.

use crate::lock::Now;
use crate::server::{self, Blocked, ServerCell};
use crate::waiting::{Budget, WaitTable};

pub(super) static TABLE: ServerCell<WaitTable<Blocked>> = ServerCell::new(WaitTable::new());

/// What is left for the step or the turn that runs now: one at a time does, whatever it calls in turn.
pub(super) static BUDGET: ServerCell<Budget> = ServerCell::new(Budget::new());

/// The time of a step that begins now.
pub(crate) fn now() -> Now {
    let micros = server::now();
    Now { micros, start: server::lease_start(micros) }
}
