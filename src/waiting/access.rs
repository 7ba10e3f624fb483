//! The interface between the rules of this folder and the server: `serving` implements it for the real server, and `tests::server` for
//! tests.
//!
//! No model tests the code behind these methods, so they are few, and none of them decides anything.

use super::detect::{Cycle, Holder};
use super::table::{LockEntry, LockId, LockRef, Message, Offset, RequestId, WaitTable};
use crate::lock::{
    Deadline, Fence, Grant, GrantChange, Held, Limits, Micros, Millis, Now, Others, Owner, ReentryError,
    Room, Value,
};

/// What every rule needs of the server.
pub(crate) trait Environment {
    /// A blocked client, as the server knows it.
    type Client: Copy;

    /// Runs `body` on the table of waiters. The server can't be called meanwhile, since `self` is borrowed.
    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<Self::Client>) -> R) -> R;

    /// The limits that apply to all grants now.
    fn limits(&mut self) -> Limits;

    /// Whether a connection with this id is open.
    fn is_open(&self, client: u64) -> bool;

    /// Pays for work of this step from its budget (see `budget`). Returns whether anything of the budget was left before.
    fn pay(&mut self, work: u32) -> bool;

    /// Counts work of this step that can't be put off.
    fn spend(&mut self, work: u32);
}

/// One lock, open for one step of a command or a timer.
pub(crate) trait LockAccess: Environment {
    /// The name of the lock. It outlives a borrow of the lock, so that no step has to clone the name.
    type Key: Copy + AsRef<[u8]>;

    fn db(&self) -> i32;

    fn key(&self) -> Self::Key;

    /// The grants of the lock; `None` if it is free.
    fn value(&self) -> Option<&Value>;

    /// The end of the latest lease. It is not part of `value`, since the server looks it up separately.
    fn deadline(&self) -> Deadline;

    /// Gives the lock to this grant alone, in place of all others.
    fn give(&mut self, grant: Grant, until: Deadline);

    /// Adds a holder.
    fn add(&mut self, grant: Grant, until: Deadline);

    /// Changes the grant with this fence, and its lease. Does nothing if neither would change, as after an extension to the same
    /// millisecond.
    fn update(&mut self, fence: Fence, change: GrantChange<'_>, until: Deadline);

    /// Ends one of several grants, and notes the event `why`.
    fn end(&mut self, fence: Fence, why: LockEvent);

    /// If the lock has several grants, ends the grants whose leases were over before `now`, `most` at most, and notes each lapse. Returns
    /// the fences of the ended grants.
    fn end_lapsed(&mut self, now: Millis, most: usize) -> Vec<Fence>;

    /// Ends all grants.
    fn free(&mut self);

    /// Notes an event, which is published and counted when the step is over.
    fn note(&mut self, note: LockEvent);

    /// The fence for a grant that is made now; `None` once the greatest fence has been given.
    fn next_fence(&mut self, now: Now) -> Option<Fence>;

    /// How long nothing new is granted, and how long no lease is made longer.
    fn grace(&mut self) -> GraceLeft;

    /// Whether the lock has no entry in the table: nobody waits for it, no connection keeps it alive, and nothing of it is to be taken
    /// back.
    fn idle(&mut self) -> bool;

    /// Whether a grant was made or has ended in this step.
    fn changed(&self) -> bool;

    /// The most locks, in all, that the places with an unclaimed grant of this lock may wait for. At this number, no further place is given
    /// a grant that its owner has already.
    fn most_unclaimed(&self) -> u32 {
        32
    }

    /// Runs `body` on the table, with the name of this lock.
    fn here<R>(&mut self, body: impl FnOnce(&mut WaitTable<Self::Client>, LockRef<'_>) -> R) -> R {
        let (db, key) = (self.db(), self.key());
        self.table(|table| body(table, LockRef { db, key: key.as_ref() }))
    }

    /// Runs `body` on the lock's entry in the table, which has all that is known of the lock beside its key.
    fn entry<R>(&mut self, body: impl FnOnce(&LockEntry) -> R) -> R {
        self.here(|table, at| body(table.locks.lock(at)))
    }

    /// Changes the lock's entry in the table, if there is one.
    fn change<R>(&mut self, body: impl FnOnce(&mut LockEntry) -> R) -> Option<R> {
        self.here(|table, at| table.locks.change(at, body))
    }

    /// The grant of an owner and the end of its lease, if the owner holds the lock; and the other holders.
    #[inline(always)]
    fn seen_by(&self, owner: &Owner<'_>) -> (Option<Held<'_>>, Others<'_>) {
        match self.value() {
            Some(value) => value.seen_by(owner, || self.deadline()),
            None => (None, Others::NONE),
        }
    }

    /// The grant with this fence, and the end of its lease.
    fn with_fence(&self, fence: Fence) -> Option<Held<'_>> {
        self.value()?.with_fence(fence, || self.deadline())
    }

    /// Whether there is a grant with this fence. This saves looking up the end of the lease.
    fn has_fence(&self, fence: Fence) -> bool {
        self.value().is_some_and(|value| value.with_fence(fence, || Deadline::Never).is_some())
    }

    /// Whether one more grant might fit beside the present ones.
    fn has_room(&self) -> bool {
        self.value().is_none_or(|value| value.others().bear(Room::ANY))
    }
}

/// The client of a running command.
pub(crate) trait Caller<S: LockAccess> {
    fn id(&self) -> u64;

    /// Whether the client can be blocked here. It can't in a transaction, in a script, or on a replica.
    fn may_block(&self) -> bool;

    /// The limits for clients that wait or have sessions.
    fn limits(&self) -> WaitLimits;

    /// Blocks the client under this number. Returns `None` if the server refuses.
    fn block(&mut self, lock: &S, request: RequestId) -> Option<S::Client>;

    /// Reads the holders of another lock, which the command does not name, `most` at most. `lock` stays open meanwhile.
    fn holders(&mut self, lock: &S, id: &LockId, now: Millis, most: usize) -> Vec<Holder>;
}

/// The limits that settings put on waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    /// The most waiters in one queue, if there is a limit.
    pub(crate) waiters: Option<usize>,
    /// The most locks that may depend on one connection, by its places and sessions, if there is a limit.
    pub(crate) places: Option<usize>,
    /// How long, in ms, a place may leave a grant unclaimed.
    pub(crate) claim: Millis,
}

/// The server between commands, when due work is done and waiters are told.
pub(crate) trait Host: Environment {
    /// Why the work that is due has to wait, if it has to.
    fn rest(&mut self, now: Now) -> Deferral;

    /// How long, in µs, this turn has lasted.
    fn used(&mut self) -> Micros;

    /// Whether this turn has used up its budget (see `budget`).
    fn is_turn_over(&mut self) -> bool;

    /// Settles a lock by a command, so that the server applies the checks of every write. With `waiter`, settles all locks that this waiter
    /// waits for.
    fn settle(&mut self, waiter: Option<RequestId>, ids: &[LockId]) -> Settled;

    /// Settles a lock whose hash slot is moving to this server, where no command finds the lock yet.
    fn settle_arriving(&mut self, id: &LockId);

    /// The end of the lease of the grant with this fence; `None` if the grant does not hold the lock at `now`.
    fn deadline_of(&mut self, id: &LockId, fence: Fence, now: Millis) -> Option<Deadline>;

    /// Has the server call back for a blocked client, in this call or soon, so that the client is told.
    fn unblock(&mut self, client: Self::Client);

    /// Publishes a message. Returns whether somebody may have received it.
    fn publish(&mut self, message: &Message) -> bool;

    /// How far this server and its replicas are in the stream of replication.
    fn replicas(&mut self) -> Replicas;

    /// Asks the replicas how far they are. Returns whether they could be asked now.
    fn ask_replicas(&mut self) -> bool;
}

/// How far a server and its replicas are in the stream of replication.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replicas {
    /// How many bytes this server has written.
    pub(crate) written: Offset,
    /// The offset that each replica has acknowledged last.
    pub(crate) replicas: Vec<Offset>,
}

/// Why the work that is due has to wait, if it has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    /// The work does not have to wait.
    None,
    /// This server is a replica, and the work is the primary's.
    Replica,
    /// The server asks for quiet until this time.
    Until(Millis),
}

/// The result of settling locks by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    /// The lock's hash slot is moving to this server, and only the locks that clients have taken with `ASKING` are here.
    Arriving,
    /// The lock is in a hash slot that another server serves.
    Elsewhere,
    /// The server refused the write.
    Refused,
}

/// How long a grace still lasts, in ms; 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraceLeft {
    /// For how long nothing new is granted.
    pub(crate) grants: Millis,
    /// For how long no lease is made longer.
    pub(crate) leases: Millis,
}

/// An event of a lock.
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
    /// A grant was taken back, since its client went away before it was told of the grant.
    TakenBack,
    /// The connection that kept the grant alive has closed.
    SessionEnded,
    /// A lease ran out: one of several leases, or the lease of a grant that a connection kept alive.
    Lapsed,
    /// A wait was refused or ended, since it would never have been served.
    Deadlocked,
    Broken,
    Extended,
}

/// Why a command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotHeld,
    /// The owner holds the lock, but can't re-enter it in this way.
    NoReentry(ReentryError),
    NoMoreFences,
    /// The queue is full.
    MaxWaiters,
    /// Too many locks would depend on the connection.
    MaxPlaces,
    /// The client would wait for an owner that waits for this client's owner.
    Deadlock,
    /// The wait would never end, since it closes a cycle.
    Cycle(Cycle),
    /// Nothing new is granted for this many ms.
    Grace(Millis),
    /// No lease can be set for this many ms.
    GraceOfLeases(Millis),
}

impl From<ReentryError> for Refusal {
    fn from(why: ReentryError) -> Self {
        Self::NoReentry(why)
    }
}
