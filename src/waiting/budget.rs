//! How much one step may do, over all its locks, holders and waiters; and one turn of what falls due, over all its steps.
//!
//! Work is counted, not timed: a unit is about a microsecond on a machine of today. Whatever loops over something that clients can
//! make long pays for what it does, and stops when the budget is used up. What is left is due at once, so the next turn goes on with
//! it. What has begun is finished: a step may exceed the budget by the work on one lock or on one waiter, and a turn by one step.
//! The locks that a command names itself are not counted: they are the client's own work.

/// The work of one step, and of one turn.
const WORK: u32 = 2_000;

/// A lock, a holder or a waiter is looked up.
pub(super) const LOOK: u32 = 1;

/// A grant is ended, and nothing else is known of it.
pub(super) const END: u32 = 1;

/// The most grants that a step ends so.
pub(super) const MOST_ENDED: u32 = WORK / END;

/// A grant is made or changed, or a waiter is answered: replicas, files and listeners hear of it.
pub(crate) const CHANGE: u32 = 4;

/// The work of going through so many entries of a list.
pub(super) const fn scan(entries: usize) -> u32 {
    (entries / 16) as u32
}

/// The work that a step has done, and the turn to which it belongs.
#[derive(Debug)]
pub(crate) struct Budget {
    size: u32,
    step: u32,
    turn: u32,
    /// The most that any turn has done; a command is a turn of its own.
    most: u32,
}

impl Budget {
    pub(crate) const fn new() -> Self {
        Self { size: WORK, step: 0, turn: 0, most: 0 }
    }

    /// A turn begins, and its first step.
    pub(crate) fn begin_turn(&mut self) {
        (self.step, self.turn) = (0, 0);
    }

    /// The next step of a turn begins.
    pub(crate) fn begin_step(&mut self) {
        self.step = 0;
    }

    /// Pays for some work of a step. Whether anything of the budget was left.
    pub(crate) fn pay(&mut self, work: u32) -> bool {
        let had = self.step < self.size;
        self.step = self.step.saturating_add(work);
        self.spend(work);
        had
    }

    /// Counts work that can't be left for later, since it would be as much then.
    pub(crate) fn spend(&mut self, work: u32) {
        self.turn = self.turn.saturating_add(work);
        self.most = self.most.max(self.turn);
    }

    /// Whether a turn has done as much as it may.
    pub(crate) fn is_turn_over(&self) -> bool {
        self.turn >= self.size
    }

    pub(crate) fn most(&self) -> u32 {
        self.most
    }
}

#[cfg(test)]
impl Budget {
    /// A budget that is used up by the first piece of work.
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

    /// What has begun is finished: the last piece of work may exceed the budget.
    #[test]
    fn a_step_is_over_when_it_has_used_the_budget_up() {
        let mut budget = Budget::new();
        assert!(budget.pay(WORK - 1) && budget.pay(CHANGE) && !budget.pay(0));
        // Work that can't be left for later is none of what a step pays for.
        budget.begin_step();
        budget.spend(WORK);
        assert!(budget.pay(0));
    }
}
