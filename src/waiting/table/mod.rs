//! Who waits where, in memory. Nothing here changes anything in the server.
//!
//! - `entries`: by database and key, all that is known of one lock beside its key (`LockEntry`): its queue, and a record for each grant
//!   of which there is something to know (`GrantRecord`). An entry of which nothing is left is dropped: a lock without an entry costs
//!   one look-up.
//! - `owners`: by owner, who stands in queues.
//! - `waiters`: by the number of its request, everything about one waiter, from the time it joins until the server has freed it: also
//!   for the moment after it left its queue, answered or departed.
//! - `connections`: by connection, the locks whose grants live as long as it, and the waiters that are notified, in a queue or
//!   with a grant to claim.
//! - `timers`: when to look at which lock, whose lease to renew, who gives up, and who waits for several locks and may have them all
//!   now.
//! - `sweeps`: what is being done to all entries.
//! - `observers`: what is kept for those who look on, and decides nothing.
//! - `replication`: whose answer, and which renewals of sessions (`renewals`), replicas are to confirm.
//! - `outgoing`: whose grant is made and whose answer is due, in the order of the grants; and messages to holders.
//!
//! Each file has one way through them: `queues` who comes, is next and leaves; `answers` who is told what; `undeliverable` what becomes
//! of a grant whose waiter went away; `sessions` which connection keeps which grants alive; `places` who waits without being
//! blocked, and claims; `listeners` what holders hear; `looks` when to look again; `together` who waits for several locks;
//! `waits` what waits for what; `pages`, `waited_for` and `long_waits` what is shown of all that wait; `clear_up` what is much at
//! once, and done piece by piece.

mod answers;
mod busiest;
#[cfg(any(test, debug_assertions))]
mod check;
mod clear_up;
mod confirmations;
mod connections;
mod entry;
mod entry_grants;
mod grants;
mod held_since;
mod listeners;
mod lock_id;
mod lock_table;
mod long_waits;
mod looks;
mod observers;
mod outgoing;
mod owners;
mod pages;
mod places;
mod queue;
mod queues;
mod renewals;
mod replication;
mod sessions;
mod sweep;
#[cfg(test)]
mod tests;
mod timers;
mod together;
mod undeliverable;
mod untold;
mod waited_for;
mod waiter;
mod waits;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;

use connections::Connections;
use lock_table::LockTable;
use observers::Observers;
use outgoing::Notice;
use owners::Owners;
use replication::Replication;
use sweep::Sweeps;
use waiter::Waiter;

pub(crate) use busiest::Busy;
pub(crate) use entry::LockEntry;
pub(crate) use grants::Expired;
pub(crate) use lock_id::{LockId, LockRef};
pub(crate) use long_waits::LongWaits;
pub(crate) use outgoing::{Message, MessageKind, Outgoing};
pub(crate) use pages::{Page, WaitInfo};
pub(crate) use queue::RequestId;
pub(crate) use replication::{Confirm, Moved, Offset};
pub(crate) use timers::{Lane, Timers};
pub(crate) use waiter::{
    Answer, Arrival, Channel, Confirmed, RequestedLock, RequestedLocks, Session, Told, WaitKind, WaiterInfo,
};
pub(crate) use waits::Ahead;

/// How many waiters of one lock are seen to in one step, where all are to be; the others in the next.
pub(crate) const AT_ONCE: usize = 100;

/// The waiters that are left of a lock that is another server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nobody,
    /// The server sends them away when the move is done.
    Blocked,
    /// There are more to be sent away.
    More,
}

/// Who waits where; `C` is how the server knows a client that waits.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq))]
pub(crate) struct WaitTable<C> {
    entries: LockTable,
    waiters: BTreeMap<RequestId, Waiter<C>>,
    owners: Owners,
    pub(crate) connections: Connections,
    pub(crate) timers: Timers,
    sweeps: Sweeps,
    outgoing: VecDeque<Notice>,
    pub(crate) replication: Replication,
    /// How many stand in queues.
    queued: usize,
    /// For those who look on.
    observers: Observers,
    last_request: NonZeroU64,
}

impl<C: Copy> WaitTable<C> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: LockTable::new(),
            waiters: BTreeMap::new(),
            owners: Owners::new(),
            connections: Connections::new(),
            timers: Timers::new(),
            sweeps: Sweeps::new(),
            outgoing: VecDeque::new(),
            replication: Replication::new(),
            queued: 0,
            observers: Observers::new(),
            last_request: NonZeroU64::MIN,
        }
    }

    /// Whether nobody waits for any lock and no connection keeps one alive, as on many servers at most times.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether nobody waits for that lock, no connection keeps it alive, and nothing of it is left to take back.
    pub(crate) fn is_idle(&self, at: LockRef<'_>) -> bool {
        self.entries.lacks(at)
    }

    /// How many wait, and how many grants are kept alive by a connection.
    pub(crate) fn totals(&self) -> (usize, usize) {
        (self.queued, self.connections.sessions())
    }

    /// The key holds something else: nobody waits for that, and nothing of a lock is left. How many grants that were kept have
    /// lapsed by that.
    pub(crate) fn overwritten(&mut self, at: LockRef<'_>) -> usize {
        for _ in 0..AT_ONCE {
            let Some((request, _)) = self.head(at) else { break };
            self.answer(request, Answer::WrongType);
        }
        if self.head(at).is_some() {
            self.look_by(at, 0);
        }
        let lapsed = self.lock(at).grants.counts().expired as usize;
        self.end_grants(at, MessageKind::Lost);
        lapsed
    }

    /// The lock is another server's now, and so is its grant: a session of ours, or a hold to be taken back, must not end it
    /// when it comes back one day. Those who are notified are sent away. Who is left after that.
    pub(crate) fn moved_away(&mut self, at: LockRef<'_>) -> Left {
        let all = self.send_away(at);
        match self.lock(at).waiters() {
            _ if !all => Left::More,
            0 => Left::Nobody,
            _ => Left::Blocked,
        }
    }
}
