//! The rules of queues, sessions and timers: who waits for a lock, who is next, and what happens to a grant whose waiter is gone.
//!
//! The rules are pure, and generic over the server (`access`): the models and histories in `tests` run this code. `table` has the state in
//! memory; the other files decide, with locks open. The principles:
//!
//! - A lock with a queue is never free after the step that freed it, unless it is reserved. Code that ends a grant calls `hand_over`. Code
//!   that finds a lock free though it has a queue (the lock lapsed, or was deleted, flushed or overwritten) calls `settle` before anything
//!   else, so that no newcomer slips in.
//! - A request is for a set of locks, usually a set of one (`lock_set`): a rule is written once, for any set. `verdict` decides about each
//!   lock, and changes nothing; then `grant` grants all locks, or none. `hand_over` serves a waiter.
//! - A waiter for several locks is in the queues of all these locks, under one number (`RequestId`). If the waiter is next in a queue, the
//!   lock is reserved for the waiter. A step on one lock opens no other lock: the step notes that the request is to be tried, and a timer
//!   settles all locks of the request in one step.
//! - With `SYNC`, a client is told of its grant only when enough replicas have confirmed the grant (`confirm`).
//! - With `DETECT`, a client is told before it waits that the wait would never end (`detect`).
//! - Everything else that can touch a lock (keyspace events, a flush, swapped databases) only sets a timer for this lock. The timer calls
//!   `settle`, which looks at the present state, whatever has happened.
//! - The grant is made in the step that freed the lock; its waiter is told when the commands that have already arrived are done. If the
//!   waiter is sent away in between (`CLIENT KILL`, `CLIENT UNBLOCK`), the grant is taken back, and goes to the next waiter.
//! - A waiter leaves its queues through `WaitTable::leave`, whatever the reason.
//!
//! Cost: a handover looks at the head of one queue. Its cost does not grow with the number of waiters or locks, except for the logarithm of
//! the trees in `table`. For a lock without an entry in `table`, a step costs one look-up.

mod access;
mod acquire;
mod budget;
mod confirm;
mod departures;
mod detect;
mod extend;
mod grace;
mod grant;
mod hand_over;
mod join;
mod leases;
mod leave;
mod lock_set;
mod longest_held;
mod rate_limit;
mod release;
mod run_due;
mod sessions;
mod settle;
mod table;
#[cfg(test)]
mod tests;
mod together;
mod verdict;

pub(crate) use access::{
    Caller, Deferral, Environment, GraceLeft, Host, LockAccess, LockEvent, Refusal, Replicas, Settled,
    WaitLimits,
};
pub(crate) use acquire::{Grants, acquire};
pub(crate) use budget::{Budget, CHANGE};
pub(crate) use confirm::confirm;
pub(crate) use departures::{finished, tell};
pub(crate) use detect::{Cycle, Holder, Link, holders};
pub(crate) use extend::{ExtendRequest, extend};
pub(crate) use grace::{Grace, GraceLength, Moment};
pub(crate) use join::{Outcome, WaitOptions};
pub(crate) use leave::{GivenUp, leave, leave_others};
pub(crate) use lock_set::LocksAccess;
pub(crate) use longest_held::longest_held;
pub(crate) use rate_limit::RateLimit;
pub(crate) use release::{ReleaseRequest, break_, release};
pub(crate) use run_due::{run_due, send_due};
pub(crate) use sessions::{outlives, outliving};
pub(crate) use settle::settle;
pub(crate) use table::{
    Answer, Channel, Confirm, LockId, LockRef, LongWaits, Message, MessageKind, Page, RequestId,
    RequestedLock, RequestedLocks, WaitInfo, WaitTable, WaiterInfo,
};
pub(crate) use together::settle_together;
