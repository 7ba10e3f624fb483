//! The table (all that the rules know between steps), and the clock, for all files of this folder.

use super::{listener, tick};
use crate::server::{self, BlockedClient, Ctx, ServerCell};
use rules::lock::Now;
use rules::waiting::{LockRef, Table};

pub(super) static TABLE: ServerCell<Table<BlockedClient>> = ServerCell::new(Table::new());

/// Begins a turn of the event loop, or a command, with a whole budget.
#[inline(always)]
pub(super) fn begin_turn() {
    TABLE.with(|table| table.begin_turn());
}

/// Returns the time, for a step that begins now.
pub(crate) fn now() -> Now {
    let micros = server::now();
    Now { micros, start: server::lease_start(micros) }
}

/// Whether nothing is known of any lock.
#[inline(always)]
pub(super) fn is_empty() -> bool {
    TABLE.with(|table| table.is_empty())
}

/// Whether the table knows anything of this lock. A function of its own, so that a step with an empty table pays for one comparison.
#[inline(never)]
pub(super) fn knows(at: LockRef<'_>) -> bool {
    TABLE.with(|table| table.get(at).is_some())
}

/// Sets timers for the work that is due. If anything is known of any lock, first subscribes to events about changed keys, unless this has
/// already been done.
pub(super) fn after_step(ctx: &Ctx<'_>) {
    if !is_empty() {
        listener::listen(ctx);
    }
    tick::arm();
}
