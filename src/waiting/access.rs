//! The traits between the rules of this folder and the server. `serving` implements them for a real server, `tests::server` for tests.
//!
//! No model tests the code that implements these methods, so the methods are few, and decide nothing.

use super::detect::{Cycle, Holder};
use super::table::{LockEntry, LockId, LockRef, Message, Offset, RequestId, WaitTable};
use crate::lock::{
    Deadline, Fence, Grant, GrantChange, Held, Limits, Micros, Millis, Now, Others, Owner, ReentryError,
    Room, Value,
};

/// What all rules need from the server.
pub(crate) trait Environment {
    /// The server's handle of a blocked client.
    type Client: Copy;

    /// Runs `body` on the table of waiters. Meanwhile `self` is borrowed, so the server can't be called.
    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<Self::Client>) -> R) -> R;

    /// Returns the limits that apply to all grants now.
    fn limits(&mut self) -> Limits;

    /// Whether a connection with this id is open.
    fn is_open(&self, client: u64) -> bool;

    /// Pays for `work` units of work from the budget of this step (see `budget`). Returns whether anything of the budget was left before.
    fn pay(&mut self, work: u32) -> bool;

    /// Counts `work` units of work of this step that can't be put off.
    fn spend(&mut self, work: u32);
}

/// One lock, open for one step of a command or a timer.
pub(crate) trait LockAccess: Environment {
    /// The name of the lock. It outlives a borrow of the lock, so that a step does not have to clone the name.
    type Key: Copy + AsRef<[u8]>;

    fn db(&self) -> i32;

    fn key(&self) -> Self::Key;

    /// Returns the grants of the lock; `None` if it is free.
    fn value(&self) -> Option<&Value>;

    /// Returns the end of the latest lease. It is separate from `value`, because the server has to look it up.
    fn deadline(&self) -> Deadline;

    /// Makes this the only grant of the lock, in place of all others.
    fn give(&mut self, grant: Grant, until: Deadline);

    /// Adds a grant beside the others.
    fn add(&mut self, grant: Grant, until: Deadline);

    /// Changes the grant with this fence, and its lease. Does nothing if neither changes, for example after an extension to the same
    /// millisecond.
    fn update(&mut self, fence: Fence, change: GrantChange<'_>, until: Deadline);

    /// Ends one of several grants, and notes the event `why`.
    fn end(&mut self, fence: Fence, why: LockEvent);

    /// If the lock has several grants, ends at most `most` grants whose leases ended before `now`, and notes each lapse. Returns the fences
    /// of the ended grants.
    fn end_lapsed(&mut self, now: Millis, most: usize) -> Vec<Fence>;

    /// Ends all grants.
    fn free(&mut self);

    /// Notes an event, which is published and counted when the step is over.
    fn note(&mut self, event: LockEvent);

    /// Returns the fence for a grant that is made now; `None` if the greatest fence has been given.
    fn next_fence(&mut self, now: Now) -> Option<Fence>;

    /// Returns for how many ms nothing new is granted, and for how many ms no lease is made longer.
    fn grace(&mut self) -> GraceLeft;

    /// Whether the table has no entry for the lock: nobody waits for the lock, no connection keeps a grant of it alive, and no hold of it
    /// is to be taken back.
    fn idle(&mut self) -> bool;

    /// Whether a grant was made or has ended in this step.
    fn changed(&self) -> bool;

    /// Returns the most locks, counted over all places, for which the places with an unclaimed grant of this lock may wait. At this number,
    /// no more places get a grant that their owner already has.
    fn most_unclaimed(&self) -> u32 {
        32
    }

    /// Runs `body` on the table, with the name of this lock.
    fn here<R>(&mut self, body: impl FnOnce(&mut WaitTable<Self::Client>, LockRef<'_>) -> R) -> R {
        let (db, key) = (self.db(), self.key());
        self.table(|table| body(table, LockRef { db, key: key.as_ref() }))
    }

    /// Runs `body` on the lock's entry in the table, which has everything that is known about the lock, except its key.
    fn entry<R>(&mut self, body: impl FnOnce(&LockEntry) -> R) -> R {
        self.here(|table, at| body(table.locks.lock(at)))
    }

    /// Changes the lock's entry in the table, if there is one.
    fn change<R>(&mut self, body: impl FnOnce(&mut LockEntry) -> R) -> Option<R> {
        self.here(|table, at| table.locks.change(at, body))
    }

    /// Returns the grant of an owner and the end of its lease, if the owner holds the lock, and the other holders.
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

    /// Whether there is a grant with this fence. Unlike `with_fence`, this does not look up the end of the lease.
    fn has_fence(&self, fence: Fence) -> bool {
        self.value().is_some_and(|value| value.with_fence(fence, || Deadline::Never).is_some())
    }

    /// Whether one more grant may fit beside the present grants.
    fn has_room(&self) -> bool {
        self.value().is_none_or(|value| value.others().have_room_for(Room::ANY))
    }
}

/// The client of a running command.
pub(crate) trait Caller<S: LockAccess> {
    fn id(&self) -> u64;

    /// Whether the client can be blocked. It can't in a transaction, in a script, or on a replica.
    fn may_block(&self) -> bool;

    /// Returns the limits for clients that wait or have sessions.
    fn limits(&self) -> WaitLimits;

    /// Blocks the client, with the number of this request. Returns `None` if the server refuses.
    fn block(&mut self, lock: &S, request: RequestId) -> Option<S::Client>;

    /// Returns at most `most` holders of another lock, which the command does not name. `lock` stays open meanwhile.
    fn holders(&mut self, lock: &S, id: &LockId, now: Millis, most: usize) -> Vec<Holder>;
}

/// The limits that settings put on waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    /// The most waiters in one queue; `None`: no limit.
    pub(crate) waiters: Option<usize>,
    /// The most locks that may depend on one connection, through its places and sessions; `None`: no limit.
    pub(crate) places: Option<usize>,
    /// For how many ms a grant of a place may stay unclaimed.
    pub(crate) claim: Millis,
}

/// The server between commands, when due work is done and waiters are answered.
pub(crate) trait Host: Environment {
    /// Returns whether due work has to wait, and why.
    fn deferral(&mut self, now: Now) -> Deferral;

    /// Returns how long this turn has lasted, in µs.
    fn used(&mut self) -> Micros;

    /// Whether this turn has used up its budget (see `budget`).
    fn is_turn_over(&mut self) -> bool;

    /// Settles one lock by a command, so that the server checks it like any write. With `waiter`, settles all locks for which this waiter
    /// waits.
    fn settle(&mut self, waiter: Option<RequestId>, ids: &[LockId]) -> Settled;

    /// Settles a lock whose hash slot is moving to this server, so that commands don't find the lock yet.
    fn settle_arriving(&mut self, id: &LockId);

    /// Returns the end of the lease of the grant with this fence; `None` if this grant does not hold the lock at `now`.
    fn deadline_of(&mut self, id: &LockId, fence: Fence, now: Millis) -> Option<Deadline>;

    /// Makes the server call back for a blocked client, in this call or soon, so that the client is answered.
    fn unblock(&mut self, client: Self::Client);

    /// Publishes a message. Returns whether somebody may have received it.
    fn publish(&mut self, message: &Message) -> bool;

    /// Returns how much of the replication stream this server has written, and its replicas have acknowledged.
    fn replicas(&mut self) -> Replicas;

    /// Asks the replicas how much of the replication stream they have. Returns whether they could be asked now.
    fn ask_replicas(&mut self) -> bool;
}

/// How much of the replication stream a server has written, and its replicas have acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replicas {
    /// The number of bytes that this server has written.
    pub(crate) written: Offset,
    /// The last offset that each replica has acknowledged.
    pub(crate) replicas: Vec<Offset>,
}

/// Whether due work has to wait, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    /// The work does not have to wait.
    None,
    /// This server is a replica, and its primary does the work.
    Replica,
    /// The data set must not change until this time, in ms since 1970.
    Until(Millis),
}

/// The result of settling locks by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    /// The lock's hash slot is moving to this server, which has only the locks that clients have taken with `ASKING`.
    Arriving,
    /// The lock is in a hash slot that another server serves.
    Elsewhere,
    /// The server refused the write.
    Refused,
}

/// How long a grace still lasts, in ms; 0 if there is no grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraceLeft {
    /// Nothing new is granted for this many ms.
    pub(crate) grants: Millis,
    /// No lease is made longer for this many ms.
    pub(crate) leases: Millis,
}

/// An event at a lock, to be counted or published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockEvent {
    /// A free lock was taken.
    Acquired,
    /// The lock went to a waiter.
    HandedOver,
    /// A wait of this many ms has ended in a grant.
    Waited(Millis),
    Reentered,
    /// An owner re-entered with less room than its grant had.
    Upgraded,
    /// A grant with room for several holders was made.
    Shared,
    /// An acquire was answered with null at once, or with an error.
    Refused,
    /// The owner has released its last hold.
    Released,
    /// A grant was taken back, because its client went away before it was told of the grant.
    TakenBack,
    /// A grant has ended because the connection of its session closed.
    SessionEnded,
    /// A grant has lapsed: one of several grants, or a grant with a session. (The server finds other lapses.)
    Lapsed,
    /// A wait was refused or ended, because it would never have been served.
    Deadlocked,
    Broken,
    Extended,
}

/// Why the rules refuse a command, which then changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotHeld,
    /// The owner holds the lock, but can't re-enter it in this way.
    NoReentry(ReentryError),
    NoMoreFences,
    /// The queue has `lock.max-waiters` waiters.
    MaxWaiters,
    /// More than `lock.max-places` locks would depend on the connection.
    MaxPlaces,
    /// The owner asks for an upgrade, while another owner already waits for an upgrade: each would wait for the other.
    Deadlock,
    /// The wait would never end, because it closes this cycle.
    Cycle(Cycle),
    /// Nothing new is granted for this many ms.
    Grace(Millis),
    /// No lease can be extended for this many ms.
    GraceOfLeases(Millis),
}

impl From<ReentryError> for Refusal {
    fn from(why: ReentryError) -> Self {
        Self::NoReentry(why)
    }
}
