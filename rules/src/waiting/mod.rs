//! The rules of queues, sessions and timers: who waits for a lock, who is next, and what happens to a grant when its waiter has gone away.
//!
//! Each command and each timer is one *step* on one lock or several (`step`): take its grants out of its key (`held`) and its state out of
//! the table, end what is over (`over`), do the command's own work (`acquire`, `release`, `extend`, `leave`), serve the queue (`serve`),
//! give all back. A step calls nothing outside: what is to happen to the key is a list of effects. Between steps, `table` has all that is
//! known: of each lock beyond its key (`lock_state`), of each waiter (`waits`), and what depends on each connection (`connections`). `due`
//! does what timers start: looks at locks, ends of waits, answers (`tell`). `session` says when leases are renewed, and when a session
//! ends; `confirm` what happens at `SYNC`; `elsewhere` what happens to locks other than by commands for them.

mod acquire;
mod budget;
mod busiest;
#[cfg(any(test, debug_assertions))]
mod check;
mod confirm;
mod connections;
mod detect;
mod due;
mod elsewhere;
mod extend;
mod grace;
mod held;
mod host;
mod index;
mod leave;
mod lock_id;
mod lock_state;
mod message;
mod over;
mod queue;
mod rate_limit;
mod release;
mod replication;
mod serve;
mod session;
mod shown;
mod step;
mod table;
mod tell;
#[cfg(test)]
mod tests;
mod verdict;
mod waiter;
mod waits;

pub use acquire::{Outcome, Refusal, WaitOptions, acquire, acquire_free};
pub use budget::Budget;
pub use busiest::Busy;
pub use confirm::confirm;
pub use detect::{Cycle, Holder, Link, cycle, holders};
pub use due::{run_due, send_due};
pub use extend::{ExtendRequest, extend};
pub use grace::{Grace, GraceLeft, GraceLength, Moment};
pub use held::{Effect, Grants, LockEvent};
pub use host::{Deferral, Host, Replicas, Settled};
pub use leave::{GivenUp, leave};
pub use lock_id::{LockId, LockRef};
pub use message::{Channel, Message, MessageKind};
pub use queue::RequestId;
pub use rate_limit::RateLimit;
pub use release::{ReleaseRequest, break_, frees, release};
pub use replication::Confirm;
pub use serve::settle_together;
pub use shown::{LongWaits, Page, WaitInfo, WaiterInfo, longest_held};
pub use step::{Env, Site, settle};
pub use table::Table;
pub use tell::{Told, tell};
pub use waiter::{Answer, Caller, RequestedLock, RequestedLocks};
