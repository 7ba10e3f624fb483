//! The table of waiters, the budget and the clock, for all files of this folder.

use crate::server::{self, BlockedClient, ServerCell};
use rules::lock::Now;
use rules::waiting::{Budget, WaitTable};

pub(super) static TABLE: ServerCell<WaitTable<BlockedClient>> = ServerCell::new(WaitTable::new());

/// The budget (the most work) of the present turn of the event loop, and of the step that runs now.
pub(super) static BUDGET: ServerCell<Budget> = ServerCell::new(Budget::new());

/// Returns the time, for a step that begins now.
pub(crate) fn now() -> Now {
    let micros = server::now();
    Now { micros, start: server::lease_start(micros) }
}
