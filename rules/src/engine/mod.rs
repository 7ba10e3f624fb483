//! The core to come, which will replace `waiting`: who waits for a lock, who is next, and what happens to a grant when its waiter has gone
//! away. It runs beside `waiting` in tests until it does everything; sessions, places, several locks and `SYNC` are still to come.
//!
//! Each command and each timer is one *step* on one lock (`step`): take its grants out of its key (`held`) and its state out of the table,
//! end what is over, do the command's own work (`acquire`), serve the queue (`serve`), give all back. A step calls nothing outside: what is
//! to happen to the key is a list of effects. Between steps, `table` has all that is known of each lock beyond its key (`LockState`), and
//! each waiter. `due` does what timers start: looks at locks, ends of waits, answers.

mod acquire;
mod due;
mod held;
mod serve;
mod step;
mod table;
mod tests;

pub use acquire::Outcome;
pub use due::{Host, run_due, send_due};
pub use held::{Effect, Grants};
pub use step::{Site, acquire, break_, extend, release, settle};
pub use table::{Answer, Caller, Table};
