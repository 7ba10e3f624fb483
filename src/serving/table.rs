//! The table of waiters, and the clock: what all of this folder stands on.

use crate::lock::Now;
use crate::server::{self, Blocked, ServerCell};
use crate::waiting::WaitTable;

pub(super) static TABLE: ServerCell<WaitTable<Blocked>> = ServerCell::new(WaitTable::new());

/// The time of a step that begins now.
pub(crate) fn now() -> Now {
    let micros = server::now();
    Now { micros, start: server::lease_start(micros) }
}
