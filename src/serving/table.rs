//! The table of waiters, the budget and the clock, which all files of this folder use.

use crate::lock::Now;
use crate::server::{self, BlockedClient, ServerCell};
use crate::waiting::{Budget, WaitTable};

pub(super) static TABLE: ServerCell<WaitTable<BlockedClient>> = ServerCell::new(WaitTable::new());

/// The budget of the running step and turn. Only one step runs at a time.
pub(super) static BUDGET: ServerCell<Budget> = ServerCell::new(Budget::new());

/// The time of a step that begins now.
pub(crate) fn now() -> Now {
    let micros = server::now();
    Now { micros, start: server::lease_start(micros) }
}
