//! The traits through which the rules of this folder reach the server. `serving` implements these traits for a real server, `tests::server`
//! for tests.
//!
//! The models in `tests` run the rules on `tests::server`, and so never test the code in `serving`. That is why the traits have few
//! methods, and no method decides anything.

use super::budget::Budget;
use super::detect::{Cycle, Holder};
use super::table::{LockEntry, LockId, LockRef, Message, Offset, RequestId, WaitTable};
use crate::lock::{
    Deadline, Fence, Grant, GrantChange, Held, Limits, Micros, Millis, NotHeld, Now, Others, Owner,
    ReentryError, Room, Value,
};

/// What all rules need from the server.
pub trait Environment {
    /// The server's handle of a blocked client.
    type Client: Copy;

    /// Runs `body` on the table of waiters. Meanwhile `self` is borrowed, so the server can't be called.
    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<Self::Client>) -> R) -> R;

    /// Returns the limits that apply to all grants now.
    fn limits(&mut self) -> Limits;

    /// Whether a connection with this id is open.
    fn is_open(&self, client: u64) -> bool;

    /// Runs `body` on the budget of this turn of the event loop, and of this step: the work of one command or timer on open locks.
    fn budget<R>(&mut self, body: impl FnOnce(&mut Budget) -> R) -> R;

    /// Takes `work` units from the budget of this step. Returns whether any of this budget was left before the payment.
    fn pay(&mut self, work: u32) -> bool {
        self.budget(|budget| budget.pay(work))
    }

    /// Counts `work` units of work that can't be put off. They count for the budget of the turn, but not for that of the step.
    fn spend(&mut self, work: u32) {
        self.budget(|budget| budget.spend(work));
    }
}

/// One lock whose key a command or a timer has opened for one step. During a step, nothing else changes locks (see `waiting`).
pub trait LockAccess: Environment {
    /// The name of the lock. The name outlives a borrow of the lock, so that a step does not have to clone the name.
    type Key: Copy + AsRef<[u8]>;

    fn db(&self) -> i32;

    fn key(&self) -> Self::Key;

    /// Returns the grants of the lock; `None` if the lock is free.
    fn value(&self) -> Option<&Value>;

    /// Returns the end of the lease that ends last. The server has to look this end up, so `value` does not return it as well.
    fn deadline(&self) -> Deadline;

    /// Makes `grant` the only grant of the lock, in place of all others.
    fn give(&mut self, grant: Grant, until: Deadline);

    /// Adds `grant` beside the other grants of the lock.
    fn add(&mut self, grant: Grant, until: Deadline);

    /// Changes the grant with this fence, and sets the end of its lease to `until`. Does nothing if both stay the same, for example after
    /// an extension to the same millisecond.
    fn update(&mut self, fence: Fence, change: GrantChange<'_>, until: Deadline);

    /// Ends one of several grants, and notes the event `why`.
    fn end(&mut self, fence: Fence, why: LockEvent);

    /// If the lock has several grants, ends at most `most` grants whose leases ended before `now`, and notes each lapse. Returns the fences
    /// of the ended grants.
    fn end_lapsed(&mut self, now: Millis, most: usize) -> Vec<Fence>;

    /// Ends all grants.
    fn free(&mut self);

    /// Notes an event, to be counted and published when the step is over.
    fn note(&mut self, event: LockEvent);

    /// Returns the fence for a grant that is made now; `None` if no new grant can be made, because the greatest possible fence has already
    /// been used, or something else has changed keys during this step.
    fn next_fence(&mut self, now: Now) -> Option<Fence>;

    /// Returns for how many more ms the server grants nothing new, and for how many it makes no lease longer (see `grace`).
    fn grace(&mut self) -> GraceLeft;

    /// Whether the table of waiters has no entry for the lock. The lock has an entry while somebody waits for the lock, and while the table
    /// knows more about a grant than the key says: a session, a channel for messages, or a blocked client or place that perhaps does not
    /// know of the grant yet.
    fn idle(&mut self) -> bool;

    /// Whether a grant was made or has ended in this step.
    fn changed(&self) -> bool;

    /// Returns a limit on the grants of this lock that places (waiters with `NOTIFY`, which are not blocked) still have to claim. Each such
    /// place counts with the number of locks for which it asked. At the limit, no further place re-enters a grant that its owner already
    /// has, until owners have claimed some of these grants.
    fn most_unclaimed(&self) -> u32 {
        32
    }

    /// Runs `body` on the table, with the name of this lock.
    fn here<R>(&mut self, body: impl FnOnce(&mut WaitTable<Self::Client>, LockRef<'_>) -> R) -> R {
        let (db, key) = (self.db(), self.key());
        self.table(|table| body(table, LockRef { db, key: key.as_ref() }))
    }

    /// Runs `body` on the lock's entry in the table, which has all that the module knows about the lock beside its key.
    fn entry<R>(&mut self, body: impl FnOnce(&LockEntry) -> R) -> R {
        self.here(|table, at| body(table.locks.lock(at)))
    }

    /// Changes the lock's entry in the table, if there is one.
    fn change<R>(&mut self, body: impl FnOnce(&mut LockEntry) -> R) -> Option<R> {
        self.here(|table, at| table.locks.change(at, body))
    }

    /// Returns the owner's grant and the end of its lease, if the owner holds the lock. Also returns the other holders.
    #[inline(always)]
    fn seen_by(&self, owner: &Owner<'_>) -> (Option<Held<'_>>, Others<'_>) {
        match self.value() {
            Some(value) => value.seen_by(owner, || self.deadline()),
            None => (None, Others::NONE),
        }
    }

    /// Returns the grant with this fence, if there is one, and the end of its lease.
    fn with_fence(&self, fence: Fence) -> Option<Held<'_>> {
        self.value()?.with_fence(fence, || self.deadline())
    }

    /// Whether there is a grant with this fence. Unlike `with_fence`, this method does not look up the end of the lease.
    fn has_fence(&self, fence: Fence) -> bool {
        self.value().is_some_and(|value| value.with_fence(fence, || Deadline::Never).is_some())
    }

    /// Whether one more grant can fit beside the present grants.
    fn has_room(&self) -> bool {
        self.value().is_none_or(|value| value.others().have_room_for(Room::ANY))
    }
}

/// The client of a running command.
pub trait Caller<S: LockAccess> {
    fn id(&self) -> u64;

    /// Whether the client can be blocked. A client can't be blocked in a transaction, in a script, or on a replica.
    fn may_block(&self) -> bool;

    /// Returns the limits for clients that wait or have sessions.
    fn limits(&self) -> WaitLimits;

    /// Blocks the client for this request. Returns the handle of the blocked client; `None` if the server refuses to block it.
    fn block(&mut self, lock: &S, request: RequestId) -> Option<S::Client>;

    /// Returns at most `most` holders of the lock `id`, which the command does not name. `lock`, which the command names, stays open
    /// meanwhile.
    fn holders(&mut self, lock: &S, id: &LockId, now: Millis, most: usize) -> Vec<Holder>;
}

/// The limits that settings put on waiting.
#[derive(Clone, Copy, Debug)]
pub struct WaitLimits {
    /// The most waiters in one queue; `None`: no limit.
    pub waiters: Option<usize>,
    /// The most locks that may depend on one connection: locks for which the connection has places (positions in queues, `NOTIFY`), and
    /// locks whose grants the connection keeps alive (`SESSION`). `None`: no limit.
    pub places: Option<usize>,
    /// For how many ms the grant of a place (a waiter with `NOTIFY`) may stay unclaimed.
    pub claim: Millis,
}

/// The server between commands, when timers do the work that is due, and answer waiters.
pub trait Host: Environment {
    /// Returns why work that is due has to wait now, if it has to.
    fn deferral(&mut self, now: Now) -> Deferral;

    /// Returns how long this turn of the event loop has lasted, in µs.
    fn used(&mut self) -> Micros;

    /// Settles locks (brings their grants and queues up to date, see `settle`) by one internal command, which the server checks like any
    /// other write. `ids` are all locks of `waiter`, or one lock if there is no `waiter`.
    fn settle(&mut self, waiter: Option<RequestId>, ids: &[LockId]) -> Settled;

    /// Settles a lock whose hash slot is still moving to this server, without a command. The command of `settle` can't do this, because the
    /// server still redirects commands for the lock.
    fn settle_arriving(&mut self, id: &LockId);

    /// Returns the holds and the end of the lease of the grant with this fence; `None` if this grant does not hold the lock at `now`.
    fn alive_with(&mut self, id: &LockId, fence: Fence, now: Millis) -> Option<(u32, Deadline)>;

    /// Returns the end of the lease of the grant with this fence; `None` if this grant does not hold the lock at `now`, or if the next look
    /// at the lock will end the grant. Whoever is told of a grant is told what this method says (see `departures::check_answer`).
    fn deadline_of(&mut self, id: &LockId, fence: Fence, now: Millis) -> Option<Deadline> {
        let (holds, until) = self.alive_with(id, fence, now)?;
        self.table(|table| !table.is_left(id.to_ref(), fence, holds)).then_some(until)
    }

    /// Unblocks a client. During this call or soon afterwards, the server asks the module for the reply to the client.
    fn unblock(&mut self, client: Self::Client);

    /// Publishes a message. Returns whether somebody may have received the message.
    fn publish(&mut self, message: &Message) -> bool;

    fn replicas(&mut self) -> Replicas;

    /// Asks the replicas how much of the replication stream they have. Returns `false` if this is not possible now.
    fn ask_replicas(&mut self) -> bool;
}

/// How much of the replication stream a server has written, and how much of it each replica has acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Replicas {
    /// The number of bytes that this server has written.
    pub written: Offset,
    /// The last offset, in bytes, that each replica has acknowledged.
    pub replicas: Vec<Offset>,
}

/// Says whether work that is due has to wait, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// The work does not have to wait.
    None,
    /// This server is a replica, and its primary does the work.
    Replica,
    /// The data set must not change until this time, in ms since 1970.
    Until(Millis),
}

/// The result when the server settles locks by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Done,
    /// The lock's hash slot is moving to this server. Until it has moved, clients can reach the lock on this server only with `ASKING`.
    Arriving,
    /// The lock is in a hash slot that another server serves.
    Elsewhere,
    /// The server refused the write.
    Refused,
}

/// How long a grace (see `grace`) still lasts, in ms; 0 if there is no grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraceLeft {
    /// The server grants nothing new for this many ms.
    pub grants: Millis,
    /// The server makes no lease longer for this many ms.
    pub leases: Millis,
}

/// An event at a lock, to be counted or published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// A client got a new grant without waiting.
    Acquired,
    /// The lock went to a waiter.
    HandedOver,
    /// A wait of this many ms has ended in a grant.
    Waited(Millis),
    Reentered,
    /// An owner re-entered in such a way that its grant now allows fewer holders, or has got its first slot (the number of a permit).
    Upgraded,
    /// A grant with room for several holders was made.
    Shared,
    /// An acquire got no grant, and was answered at once: with null or with an error.
    Refused,
    /// The owner has released its last hold.
    Released,
    /// The module took a grant back, because the client went away before it was told of the grant.
    TakenBack,
    /// A grant has ended because the connection of its session closed.
    SessionEnded,
    /// A grant has lapsed that was one of several grants of its lock, or had a session. (The server itself reports other lapses, as expired
    /// keys.)
    Lapsed,
    /// The module refused or ended a wait that would never have led to a grant.
    Deadlocked,
    Broken,
    Extended,
}

/// Why the rules refuse a command, which then changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The owner does not hold the lock. If the command names several locks, this is the key of the first lock that is not held.
    NotHeld(NotHeld, Option<Box<[u8]>>),
    /// The owner holds the lock, but can't re-enter it in this way.
    NoReentry(ReentryError),
    NoMoreFences,
    /// The queue has `lock.max-waiters` waiters.
    MaxWaiters,
    /// With this request, more than `lock.max-places` locks would depend on the connection (see `WaitLimits::places`).
    MaxPlaces,
    /// The owner asks for an upgrade (a re-entry that allows fewer other holders), while another owner already waits for an upgrade: each
    /// would wait for the other.
    Deadlock,
    /// The wait would never end, because it closes this cycle.
    Cycle(Cycle),
    /// The server grants nothing new for this many ms.
    Grace(Millis),
    /// The server extends no lease for this many ms.
    GraceOfLeases(Millis),
}

impl From<ReentryError> for Refusal {
    fn from(why: ReentryError) -> Self {
        Self::NoReentry(why)
    }
}
