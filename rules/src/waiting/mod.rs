//! The rules of queues, sessions and timers: who waits for a lock, who is next, and what happens to a grant when its waiter has gone away.
//!
//! Each command and each timer is one *step* on one lock or several (`step`): take its grants out of its key (`grants`) and its state out
//! of the table, end what is over, do the command's own work (`acquire`, `release`, `extend`), serve the queue (`serve`), and put both
//! back. `judge` says whether a request can have a lock. A step calls nothing outside: what is to happen to the key is a list of
//! effects. Between steps, `table` has all that is known: of each lock beyond its key (`lock_state`), of each waiter (`stages`), and what
//! depends on each connection (`connections`). `due` does what timers start: it settles locks, ends waits and sends answers (`tell`).
//! `session` says when leases are renewed, and when a session ends; `sync` says what happens at `SYNC`, and `elsewhere` what happens to
//! locks without a command for them.

mod acquire;
mod budget;
#[cfg(any(test, debug_assertions))]
mod check;
mod connections;
mod detect;
mod due;
mod elsewhere;
mod extend;
mod grace;
mod grants;
mod host;
mod judge;
mod lock_id;
mod lock_state;
mod locks;
mod message;
mod notices;
mod observers;
mod queue;
mod release;
mod replication;
mod serve;
mod session;
mod shown;
mod stages;
mod step;
mod sync;
mod table;
mod tell;
#[cfg(test)]
mod tests;
mod waiter;

pub use acquire::{Outcome, Refusal, WaitOptions, acquire, acquire_free};
pub use budget::Budget;
pub use detect::{Cycle, Link, cycle};
pub use due::run_due;
pub use extend::{ExtendRequest, extend};
pub use grace::{Grace, GraceLeft, GraceLength, Moment};
pub use grants::{Effect, Effects, Grants, Holder, LockEvent, holders};
pub use host::{Deferral, Host, Replicas, Settled};
pub use lock_id::{LockId, LockRef};
pub use message::{Channel, Message, MessageKind};
pub use observers::Busy;
pub use queue::RequestId;
pub use release::{GivenUp, ReleaseRequest, break_, frees, leave, release};
pub use replication::Confirm;
pub use serve::try_waiter;
pub use shown::{LongWaits, Page, WaitInfo, WaiterInfo, longest_held};
pub use step::{Env, Site, settle};
pub use sync::take_up_confirmed;
pub use table::Table;
pub use tell::{ToldAnswer, send_due, tell};
pub use waiter::{Answer, Caller, RequestedLock, RequestedLocks};
