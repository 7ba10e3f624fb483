//! The core to come, which will replace `waiting`: who waits for a lock, who is next, and what happens to a grant when its waiter has gone
//! away. It runs beside `waiting` in tests until it does everything.
//!
//! Each command and each timer is one *step* on one lock or several (`step`): take its grants out of its key (`held`) and its state out of
//! the table, end what is over (`over`), do the command's own work (`acquire`, `release`, `extend`, `leave`), serve the queue (`serve`),
//! give all back. A step calls nothing outside: what is to happen to the key is a list of effects. Between steps, `table` has all that is
//! known: of each lock beyond its key (`lock_state`), of each waiter (`waits`), and what depends on each connection (`connections`). `due`
//! does what timers start: looks at locks, ends of waits, answers (`tell`). `session` says when leases are renewed, and when a session
//! ends; `confirm` what happens at `SYNC`; `elsewhere` what happens to locks other than by commands for them.

mod acquire;
mod confirm;
mod connections;
mod due;
mod elsewhere;
mod extend;
mod held;
mod host;
mod leave;
mod lock_state;
mod over;
mod release;
mod serve;
mod session;
mod step;
mod table;
mod tell;
mod tests;
mod verdict;
mod waiter;
mod waits;

pub use acquire::{Outcome, acquire};
pub use confirm::confirm;
pub use due::{run_due, send_due};
pub use extend::extend;
pub use held::{Effect, Grants};
pub use host::Host;
pub use leave::leave;
pub use release::{break_, release};
pub use serve::settle_together;
pub use step::{Env, Site, settle};
pub use table::Table;
pub use tell::tell;
pub use waiter::{Answer, Caller};
