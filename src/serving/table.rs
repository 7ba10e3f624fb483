//! The table of waiters, the budget and the clock: what all of this folder stands on.

use crate::lock::Now;
use crate::server::{self, Blocked, ServerCell};
use crate::waiting::{Budget, WaitTable};

pub(super) static TABLE: ServerCell<WaitTable<Blocked>> = ServerCell::new(WaitTable::new());

/// The budget that is left of the step or turn that runs now. Only one of them runs at a time.
pub(super) static BUDGET: ServerCell<Budget> = ServerCell::new(Budget::new());

/// The time of a step that begins now.
pub(crate) fn now() -> Now {
    let micros = server::now();
    Now { micros, start: server::lease_start(micros) }
}
