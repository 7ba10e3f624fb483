//! Limits the work of one step (over all its locks, holders and waiters), and of one turn of the event loop (over all its steps).
//!
//! Work is counted, not timed: a unit is about a microsecond on a present machine. A loop that clients can make long pays for its work, and
//! stops when the budget is used up. The rest of the work is due at once, so the next turn does it. Work that has begun is finished: a step
//! may exceed the budget by the work on one lock or one waiter, and a turn by one step. The locks that a command names are not counted,
//! because they are the command's own work.

/// The budget of one step, and of one turn, in units of work.
const WORK: u32 = 2_000;

/// The work of looking up a lock, a holder or a waiter.
pub(crate) const LOOKUP: u32 = 1;

/// The work of ending a grant that is only in the lock's key, and of which the table knows nothing.
pub(crate) const END: u32 = 1;

/// The work of making or changing a grant, or of answering a waiter. This includes writing the change to the replicas and the append-only
/// file, and sending messages to owners (`NOTIFY`).
pub(super) const CHANGE: u32 = 4;

/// Returns the work of going through a list with this many entries.
pub(crate) const fn scan(entries: usize) -> u32 {
    (entries / 16) as u32
}

/// Counts the work of the running step, and of the turn of the event loop in which the step runs.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq))]
pub struct Budget {
    size: u32,
    step: u32,
    turn: u32,
    /// The most units of work that any turn has done. A command counts as a turn of its own.
    most: u32,
}

impl Budget {
    pub const fn new() -> Self {
        Self { size: WORK, step: 0, turn: 0, most: 0 }
    }

    /// Begins a turn, and its first step.
    pub fn begin_turn(&mut self) {
        (self.step, self.turn) = (0, 0);
    }

    /// Begins the next step of a turn.
    pub(crate) fn begin_step(&mut self) {
        self.step = 0;
    }

    /// Takes units of work from the budget of the step. Returns whether any of this budget was left before the payment.
    pub fn pay(&mut self, work: u32) -> bool {
        let had = self.step < self.size;
        self.step = self.step.saturating_add(work);
        self.spend(work);
        had
    }

    /// Counts work that is done even if the budget is used up, because doing it later would cost as much.
    pub(crate) fn spend(&mut self, work: u32) {
        self.turn = self.turn.saturating_add(work);
        self.most = self.most.max(self.turn);
    }

    /// Whether the turn has used up its budget.
    pub(crate) fn is_turn_over(&self) -> bool {
        self.turn >= self.size
    }

    pub fn most(&self) -> u32 {
        self.most
    }
}

#[cfg(test)]
impl Budget {
    /// Makes a budget that the first piece of work uses up.
    pub(crate) const fn least() -> Self {
        Self { size: 1, step: 0, turn: 0, most: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_over_when_all_of_its_steps_have_used_the_budget_up() {
        let mut budget = Budget::new();
        for _ in 0..2 {
            budget.begin_turn();
            for step in 1..=4 {
                budget.begin_step();
                assert!(!budget.is_turn_over(), "step {step}");
                assert!(budget.pay(WORK / 4 - 1));
                budget.spend(1);
            }
            assert!(budget.is_turn_over());
        }
        assert_eq!(budget.most(), WORK);
    }

    /// Work that has begun is finished, so the last piece of work may exceed the budget.
    #[test]
    fn a_step_is_over_when_it_has_used_the_budget_up() {
        let mut budget = Budget::new();
        assert!(budget.pay(WORK - 1) && budget.pay(CHANGE) && !budget.pay(0));
        // A step does not pay for work that can't be put off.
        budget.begin_step();
        budget.spend(WORK);
        assert!(budget.pay(WORK) && !budget.pay(0));
        budget.begin_turn();
        assert!(budget.pay(0));
    }
}
