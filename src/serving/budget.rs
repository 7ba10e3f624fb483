//! The budget left for the step or the turn that runs now: one at a time does, whatever it calls in turn.

use crate::server::ServerCell;
use crate::waiting::Budget;

static BUDGET: ServerCell<Budget> = ServerCell::new(Budget::new());

/// A command, or a turn of what falls due, begins.
pub(super) fn begin_turn() {
    BUDGET.with(Budget::begin_turn);
}

/// A step of a turn begins.
pub(super) fn begin_step() {
    BUDGET.with(Budget::begin_step);
}

/// Counts work that can't be left for later.
pub(super) fn spend(work: u32) {
    BUDGET.with(|budget| budget.spend(work));
}

/// Whether a turn has done as much as it may.
pub(super) fn is_turn_over() -> bool {
    BUDGET.with(|budget| budget.is_turn_over())
}

/// Pays for some work; whether anything was left for it.
pub(super) fn pay(work: u32) -> bool {
    BUDGET.with(|budget| budget.pay(work))
}

/// The most work that any command or turn has done since the server was started.
pub(crate) fn most_work() -> u64 {
    BUDGET.with(|budget| budget.most()).into()
}
