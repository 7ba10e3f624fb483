//! What one client can cost the others: the server answers one command at a time, so whoever makes much work in one step keeps all
//! waiting. The module counts its work (`waiting::budget`), and shows the most that it has done in one turn (`INFO lock`,
//! `lock_most_work`). So these tests ask for a number, and not for a time.
//!
//! The programs of `commands` and `events` try each command and each kind of event at its worst; those of `seeds/` were found by a search
//! with random programs.

mod commands;
mod events;
mod meanwhile;
mod program;
mod replay;
mod run;

/// What a step may do, and a turn, before they leave the rest for later.
const WORK: u64 = 2_000;

/// The most that a step adds for each lock that its command names, once its budget is used up: the lock is given to one waiter (4),
/// of whose owner 16 others were looked at when this bound was set (two are now), and one more gets it too (4).
const LAST: u64 = 4 + 16 + 4;

/// The most work of a turn, where a command may name so many locks: a turn that is not over yet begins one more step. That does its
/// budget, and then what can't be left undone for the locks that it names. (To tell 1,000 holders of one lock that it has ended is
/// work of 4,000, whatever the budget is. That fits too, since nothing else of that size is due with it here.)
fn bound(keys: u64) -> u64 {
    WORK + WORK + LAST * keys
}

/// A test for each program: it comes to its end, within the bound, and leaves nothing that is due for ever.
macro_rules! attacks {
    ($($(#[$attribute:meta])* $name:ident: $program:literal;)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            $crate::cost::attack($program);
        }
    )*};
}
use attacks;

#[track_caller]
fn attack(program: &str) {
    attack_beside(0, program);
}

/// `attack` with so much work that is not within the budget: `docs/design.md`, "The budget".
#[track_caller]
fn attack_beside(uncovered: u64, program: &str) {
    let mut stage = run::Stage::new();
    stage.run(program);
    stage.judge(uncovered);
    stage.wait_for_idle();
}
