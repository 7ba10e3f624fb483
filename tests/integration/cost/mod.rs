//! What one client can cost the others: the server executes one command at a time, so a client that causes much work in one step keeps all
//! others waiting. The module counts its work (`waiting::budget`), and shows the most work of one turn (`INFO lock`, `lock_most_work`). So
//! these tests check a number, and not a time.
//!
//! The programs of `commands` and `events` try the most expensive use of each command and event; those of `seeds/` were found by a search
//! with random programs.

mod commands;
mod events;
mod meanwhile;
mod program;
mod replay;
mod run;

/// The most work that a step or a turn does before it leaves the rest for later.
const WORK: u64 = 2_000;

/// The most work that a step adds for each named lock after its budget is used up: it gives the lock to one waiter (4), looks at 16 others
/// of the same owner (two today; 16 when the bound was set), and one more waiter gets the lock (4).
const LAST: u64 = 4 + 16 + 4;

/// The most work of a turn if a command may name this many locks. A turn that still has budget begins one more step, which uses its own
/// budget, and then does what can't be postponed for the named locks. (Telling 1,000 holders of a lock that it has ended is work of 4,000,
/// whatever the budget. The bound covers this, because nothing else of that size is due at the same time here.)
fn bound(keys: u64) -> u64 {
    WORK + WORK + LAST * keys
}

/// Makes a test of each program: it must end, stay within the bound, and leave nothing due for ever.
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

/// As `attack`, with additional work that the budget does not cover: see `docs/design.md`, "The budget".
#[track_caller]
fn attack_beside(uncovered: u64, program: &str) {
    let mut stage = run::Stage::new();
    stage.run(program);
    stage.judge(uncovered);
    stage.wait_for_idle();
}
