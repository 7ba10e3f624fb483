//! Where the seam goes: what the rules of this folder need of the server. The server implements it once (`serving`),
//! the tests once (`tests::server`).
//!
//! No model sees the code behind these methods. So they are few, and none of them decides.

use super::detect::{Circle, Holder};
use super::table::{LockEntry, LockId, LockRef, Message, Offset, RequestId, WaitTable};
use crate::lock::{
    Deadline, Fence, Grant, GrantChange, Held, Limits, Micros, Millis, Now, Others, Owner, ReentryError,
    Room, Value,
};

/// What every rule needs.
pub(crate) trait Environment {
    /// A client that waits, as the server knows it.
    type Client: Copy;

    /// Lends who waits where. The server can't be called meanwhile, since `self` is lent too.
    fn table<R>(&mut self, body: impl FnOnce(&mut WaitTable<Self::Client>) -> R) -> R;

    /// The limits of all grants now.
    fn limits(&mut self) -> Limits;

    /// Whether a connection with this id is open.
    fn is_open(&self, client: u64) -> bool;

    /// Pays for some work of this step: see `budget`. Whether anything of the budget was left.
    fn pay(&mut self, work: u32) -> bool;

    /// Counts work of this step that can't be left for later.
    fn spend(&mut self, work: u32);
}

/// One lock, open for one step: a command, or a timer.
pub(crate) trait LockAccess: Environment {
    /// The name of the lock; outlives a borrow of the lock, so that no step has to clone it.
    type Key: Copy + AsRef<[u8]>;

    fn db(&self) -> i32;

    fn key(&self) -> Self::Key;

    /// The grants of the lock; none where it is free.
    fn value(&self) -> Option<&Value>;

    /// The end of the latest lease. Apart from the value, since it is a look-up of its own.
    fn deadline(&self) -> Deadline;

    /// Gives the lock to somebody alone, whoever had it.
    fn give(&mut self, grant: Grant, until: Deadline);

    /// Gives the lock to one more holder.
    fn add(&mut self, grant: Grant, until: Deadline);

    /// Changes the grant with this fence, and its lease. Does nothing at all if both are the same already, as after an extension to the
    /// same millisecond.
    fn update(&mut self, fence: Fence, change: GrantChange<'_>, until: Deadline);

    /// Ends one of several grants, and takes note of why.
    fn end(&mut self, fence: Fence, why: LockEvent);

    /// Ends at most `most` grants whose leases were over before `now`, of several, and notes each lapse. Returns the fences of these
    /// grants.
    fn end_lapsed(&mut self, now: Millis, most: usize) -> Vec<Fence>;

    /// Ends whatever grants there are.
    fn free(&mut self);

    /// Notes an event, to publish and count it once the step is over.
    fn note(&mut self, note: LockEvent);

    /// The fence for a grant that is made now; none once the greatest has been given.
    fn next_fence(&mut self, now: Now) -> Option<Fence>;

    /// How long nothing new is granted, and how long no lease is lengthened.
    fn grace(&mut self) -> GraceLeft;

    /// Nobody waits for this lock, no connection keeps it alive, and nothing of it is left to take back.
    fn idle(&mut self) -> bool;

    /// Whether a grant was made or has ended in this step.
    fn changed(&self) -> bool;

    /// The limit for places of which all have a grant of this lock to claim: one more place may re-enter only while they wait for fewer
    /// locks altogether.
    fn most_unclaimed(&self) -> u32 {
        32
    }

    /// Runs `body` on the table, with the name of this lock.
    fn here<R>(&mut self, body: impl FnOnce(&mut WaitTable<Self::Client>, LockRef<'_>) -> R) -> R {
        let (db, key) = (self.db(), self.key());
        self.table(|table| body(table, LockRef { db, key: key.as_ref() }))
    }

    /// The lock's entry in the table of waiters: all that is known of it beside its key.
    fn entry<R>(&mut self, body: impl FnOnce(&LockEntry) -> R) -> R {
        self.here(|table, at| body(table.locks.lock(at)))
    }

    /// Changes what is known of the lock, where there is anything.
    fn change<R>(&mut self, body: impl FnOnce(&mut LockEntry) -> R) -> Option<R> {
        self.here(|table, at| table.locks.change(at, body))
    }

    /// The grant of an owner and the end of its lease, if the owner holds the lock; and the grants of the others.
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

    /// Whether one more grant might fit beside the present ones.
    fn has_room(&self) -> bool {
        self.value().is_none_or(|value| value.others().bear(Room::ANY))
    }
}

/// The client of a running command.
pub(crate) trait Caller<S: LockAccess> {
    fn id(&self) -> u64;

    /// Whether it can be blocked here: not in a transaction or a script, nor on a replica.
    fn may_block(&self) -> bool;

    /// How many may wait, and for how long a grant may be left unclaimed. Asked for only where a client is to wait or has a session.
    fn limits(&self) -> WaitLimits;

    /// Blocks the client, under that number; none where the server refuses.
    fn block(&mut self, lock: &S, request: RequestId) -> Option<S::Client>;

    /// The holders of another lock, which the command was not given, so many at most: to look at, no more. `lock` is open meanwhile.
    fn holders(&mut self, lock: &S, id: &LockId, now: Millis, most: usize) -> Vec<Holder>;
}

/// What the settings allow those who wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    /// The most waiters that a queue takes, where there is a limit.
    pub(crate) waiters: Option<usize>,
    /// The most locks that hang on a connection at a time, by its places and sessions, where there is a limit.
    pub(crate) places: Option<usize>,
    /// How long, in ms, a grant may be left unclaimed.
    pub(crate) claim: Millis,
}

/// The server between steps: what falls due, and who is to be told.
pub(crate) trait Host: Environment {
    /// The reason why what is due has to wait, if there is one.
    fn rest(&mut self, now: Now) -> Deferral;

    /// How long, in µs, this turn of ours has lasted.
    fn used(&mut self) -> Micros;

    /// Whether this turn has done as much as it may: see `budget`.
    fn is_turn_over(&mut self) -> bool;

    /// Settles a lock by a command, so that the server applies what it applies to every write; or all locks that a waiter waits for.
    fn settle(&mut self, waiter: Option<RequestId>, ids: &[LockId]) -> Settled;

    /// Settles a lock whose slot is on its way to this server, so that no command finds it here.
    fn settle_arriving(&mut self, id: &LockId);

    /// The end of the lease of the grant with this fence; `None` if the grant does not hold the lock at `now`.
    fn look(&mut self, id: &LockId, fence: Fence, now: Millis) -> Option<Deadline>;

    /// Has a client asked to be told: it is, in this call or soon.
    fn unblock(&mut self, client: Self::Client);

    /// Publishes a message; whether somebody may have heard it.
    fn publish(&mut self, message: &Message) -> bool;

    /// How far this server and its replicas are.
    fn replicas(&mut self) -> Replicas;

    /// Asks the replicas how far they are; whether that could be done now.
    fn ask_replicas(&mut self) -> bool;
}

/// How far a server and its replicas are in the stream of replication.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replicas {
    /// How much this server has written.
    pub(crate) written: Offset,
    /// The offset that each replica has acknowledged last.
    pub(crate) replicas: Vec<Offset>,
}

/// Why what is due has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    /// What is due does not have to wait.
    None,
    /// This server is a replica: it is for the primary to do.
    Replica,
    /// The server asks for quiet until then.
    Until(Millis),
}

/// The result of settling locks by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    /// The lock's slot is on its way to this server: only what clients have taken by `ASKING` is here.
    Arriving,
    /// The lock is in a slot that another server serves.
    Elsewhere,
    /// The server refused the write.
    Refused,
}

/// How long a grace still lasts, in ms; 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GraceLeft {
    /// Nothing new is granted for so long.
    pub(crate) grants: Millis,
    /// No lease is lengthened for so long.
    pub(crate) leases: Millis,
}

/// An event of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockEvent {
    /// A free lock was taken.
    Acquired,
    /// The lock went to a waiter.
    HandedOver,
    /// A wait of so many ms has ended in a grant.
    Waited(Millis),
    Reentered,
    /// An owner re-entered with less room than its grant had.
    Upgraded,
    /// A grant was made that has room for several.
    Shared,
    /// An acquire was answered with null at once, or with an error.
    Refused,
    /// The owner has given its last hold back.
    Released,
    /// The grant of somebody who was never told of it has been taken back.
    TakenBack,
    /// The connection that kept the grant alive has closed.
    SessionEnded,
    /// The lease ran out: of one among several, or of one that a connection kept alive.
    Lapsed,
    /// A wait would never have ended.
    Deadlocked,
    Broken,
    Extended,
}

/// Why a command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotHeld,
    /// A re-entry can't be had.
    NoReentry(ReentryError),
    NoMoreFences,
    /// The queue is full.
    MaxWaiters,
    /// No more locks may hang on the connection.
    MaxPlaces,
    /// The client would wait for an owner that waits for this client's owner.
    Deadlock,
    /// The wait would never end, since it closes a circle.
    Circle(Circle),
    /// Nothing new is granted, for so many ms.
    Grace(Millis),
    /// No lease is set anew, for so many ms.
    GraceOfLeases(Millis),
}

impl From<ReentryError> for Refusal {
    fn from(why: ReentryError) -> Self {
        Self::NoReentry(why)
    }
}
