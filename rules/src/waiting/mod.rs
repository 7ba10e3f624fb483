//! The rules of queues, sessions and timers: who waits for a lock, who is next, and what happens to a grant when its waiter has gone away.
//!
//! The rules call the server only through the traits in `access`, so the models and histories in `tests` run this code without a server.
//! `table` has the state in memory. The other files decide, in a *step*: the work of one command or timer on open locks, during which
//! nothing else changes locks. The principles:
//!
//! - The step that frees a lock grants it to the next waiter, unless the lock is reserved (see below) or a grace lasts (`grace`). So code
//!   that ends a grant calls `hand_over`. A lock with a queue may also be found free, because its grant lapsed, or its key was deleted,
//!   flushed or overwritten. So acquires and extensions first call `settle`, which serves the queue, so that no newcomer gets ahead.
//! - A request is for a set of locks, usually for one (`lock_set`), so each rule is written once, for any number of locks. `verdict`
//!   decides about each lock, and changes nothing. Then `grant` grants all locks of the request, or none. `hand_over` does both for a
//!   waiter.
//! - A waiter for several locks is in the queues of all these locks, under one number (`RequestId`). If the waiter is first in a queue, the
//!   queue's lock is reserved for the waiter: nobody else can get this lock. A step on one lock opens no other lock. It only notes that the
//!   request has to be tried. Then a timer settles all locks of the request in one step.
//! - With `SYNC`, the module tells a client of its grant only when enough replicas have confirmed the grant (`confirm`).
//! - With `DETECT`, the module refuses a request whose wait would never end, before the wait begins (`detect`).
//! - Everything else that can touch a lock (keyspace events, a flush, swapped databases) only sets a timer for this lock. The timer calls
//!   `settle`, which goes by the present state of the lock, whatever has happened to the lock.
//! - A waiter gets its grant in the step that freed the lock, but is told of the grant only after the commands that have already arrived.
//!   If the waiter is sent away in between (`CLIENT KILL`, `CLIENT UNBLOCK`), the module takes the grant back, and grants the lock to the
//!   next waiter.
//! - A waiter leaves its queues through `WaitTable::left`, whatever the reason.
//!
//! Cost: a handover looks at the head of one queue. Because of the trees in `table`, the cost of a handover grows with the logarithm of the
//! number of waiters and locks, and no faster. If a lock has no entry in `table`, a step pays only for looking it up.

mod access;
mod acquire;
pub(crate) mod budget;
mod confirm;
mod departures;
mod detect;
mod extend;
mod grace;
mod grant;
mod hand_over;
mod join;
mod lapse;
mod leave;
mod lock_set;
mod longest_held;
mod rate_limit;
mod release;
mod run_due;
mod session_end;
mod sessions;
mod settle;
pub(crate) mod table;
#[cfg(test)]
pub(crate) mod tests;
mod together;
mod verdict;

pub use access::{
    Caller, Deferral, Environment, GraceLeft, Host, LockAccess, LockEvent, Refusal, Replicas, Settled,
    WaitLimits,
};
pub use acquire::{Grants, acquire};
pub use budget::{Budget, CHANGE};
pub use confirm::confirm;
pub use departures::{closed, finished, tell};
pub use detect::{Cycle, Holder, Link, holders};
pub use extend::{ExtendRequest, extend};
pub use grace::{Grace, GraceLength, Moment};
pub use join::{Outcome, WaitOptions};
pub use leave::{GivenUp, leave, leave_others};
pub use lock_set::LocksAccess;
pub use longest_held::longest_held;
pub use rate_limit::RateLimit;
pub use release::{ReleaseRequest, break_, release};
pub use run_due::{run_due, send_due};
pub use sessions::{outlives, shown};
pub use settle::settle;
pub use table::{
    Answer, Channel, Confirm, LockId, LockRef, LongWaits, Message, MessageKind, Page, RequestId,
    RequestedLock, RequestedLocks, WaitInfo, WaitTable, WaiterInfo,
};
pub use together::settle_together;
