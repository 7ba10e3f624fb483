//! The rules: who waits for a lock, who is next, what becomes of a grant whose waiter died, sessions and timers.
//!
//! The rules are pure, and generic over the server around them (`access`): the small worlds and histories in `tests` run this code, not
//! a model of it. `table` has what is known in memory; the other files decide, with a lock open. What each function keeps:
//!
//! - A lock with a queue is never free for longer than the step that freed it, unless it is reserved. Whoever ends a grant calls
//!   `pass_on`; whoever finds the lock free with a queue (it lapsed, was deleted, flushed, overwritten) calls `settle`, and does so
//!   before anything else, so that no newcomer slips in.
//! - A request is for a set of locks, and most sets have one (`lock_set`): a rule is written once, for any set. `verdict` decides about
//!   each lock, and changes nothing; then `grant` grants all of them, or none: no other code grants a lock. `hand_over` serves a waiter.
//! - A waiter for several locks is in the queues of all of them, under one number (`RequestId`). Where it is next, the lock
//!   is reserved for it. No step on one lock opens another: it notes that the request is to be tried, and a timer settles all of its
//!   locks in one step.
//! - With `SYNC`, a client is told of its grant only after enough replicas have it (`confirm`).
//! - With `DETECT`, a client is told before it waits that the wait would never end (`detect`).
//! - Anything else that can touch a lock (events of the keyspace, a database flushed or swapped) only sets a timer
//!   for it. The timer calls `settle`, which looks at what is there now: it does not matter what happened.
//! - The grant is made in the step that freed the lock; its waiter is answered when the commands that have already
//!   arrived are done. One that is sent away in between (`CLIENT KILL`, `CLIENT UNBLOCK`) is seen, the grant is taken back,
//!   and the next one gets it.
//! - A waiter leaves the queue through `WaitTable::leave`, whatever the reason.
//!
//! Cost: a handover looks at the head of one queue. It does not grow with the waiters or the locks, but for the
//! logarithm in the trees of `table`. A lock that nobody waits for and no connection keeps alive costs one look-up a step.

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
pub(crate) use departures::{ended, tell};
pub(crate) use detect::{Circle, Holder, Link, holders};
pub(crate) use extend::{ExtendRequest, extend};
pub(crate) use grace::{Grace, GraceLength, Moment};
pub(crate) use join::{Outcome, WaitOptions};
pub(crate) use leave::{GivenUp, leave, leave_others};
pub(crate) use lock_set::LocksAccess;
pub(crate) use longest_held::longest_held;
pub(crate) use rate_limit::RateLimit;
pub(crate) use release::{ReleaseRequest, break_, release};
pub(crate) use run_due::{answer, run_due};
pub(crate) use sessions::{outlives, outliving};
pub(crate) use settle::settle;
pub(crate) use table::{
    Answer, Channel, Confirm, LockId, LockRef, LongWaits, Message, MessageKind, Page, RequestId,
    RequestedLock, RequestedLocks, WaitInfo, WaitTable, WaiterInfo,
};
pub(crate) use together::settle_together;
