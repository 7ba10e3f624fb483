//! The table of waiters: who waits where, in memory. Nothing here changes anything in the server.
//!
//! Calls go down only, and no part can reach one beside it:
//!
//! - `WaitTable` does what concerns waiters and locks at once: who comes (`arrivals`), is told (`answers`), keeps and claims a place
//!   (`claims`), or has waited long enough (`due`); and how waits and grants end (`ends`). `view` is what the rules and `DETECT` read.
//! - `Sessions` and `Listeners` change what hangs on a grant: the connection that keeps it alive, and the holder that hears of it. `Shown` is
//!   what operators read. All three borrow parts of the table.
//! - `Locks`: by database and key, all that is known of one lock beside its key (`LockEntry`): its queue, its timers, and a record for
//!   each grant of which there is something to know (`GrantRecord`). When to look at which lock (`Timers`), and what is being done to
//!   all of them (`Sweeps`).
//! - `Waiters`: by the number of its request, everything about one waiter; by owner, who stands in queues (`Owners`); who gives up when,
//!   and who waits for several locks and may have them all now (`RequestTimers`).
//! - `Connections`: by connection, the locks whose grants live as long as it, and the waiters that are notified, in a queue or
//!   with a grant to claim.
//! - `Replication`: whose answer, and which renewals of sessions, replicas are to confirm.
//! - `earlier`: what this server knew as a primary before it was demoted, until all of that has been dropped.
//! - `outgoing`: whose grant is made and whose answer is due, in the order of the grants; and messages to holders.
//! - `Observers`: what is kept for those who look on, and decides nothing.

mod answers;
mod arrivals;
mod busiest;
#[cfg(any(test, debug_assertions))]
mod check;
mod claims;
mod connections;
mod due;
mod earlier;
mod ends;
mod entry;
mod entry_grants;
mod grant_record;
mod grants;
mod held_since;
mod listeners;
mod lock_id;
mod lock_table;
mod locks;
mod outgoing;
mod owners;
mod pending;
mod queue;
mod replication;
mod request_timers;
mod sessions;
mod shown;
mod sweep;
#[cfg(test)]
mod tests;
mod timers;
mod view;
mod waiter;
mod waiters;

use std::collections::VecDeque;

use connections::Connections;
use listeners::Listeners;
use lock_table::Cursor;
use locks::Locks;
use outgoing::Notice;
use replication::Replication;
use sessions::Sessions;
use shown::{Observers, Shown};
use waiters::Waiters;

pub(crate) use entry::LockEntry;
pub(crate) use grant_record::Expired;
#[cfg(test)]
pub(crate) use grants::LOOKS;
pub(crate) use lock_id::{LockId, LockRef};
pub(crate) use outgoing::{Message, MessageKind, Outgoing};
pub(crate) use queue::RequestId;
pub(crate) use replication::{Confirm, Moved, Offset};
pub(crate) use shown::{LongWaits, Page, WaitInfo};
pub(crate) use timers::Lane;
pub(crate) use view::Ahead;
pub(crate) use waiter::{
    Answer, Arrival, Channel, Confirmed, RequestedLock, RequestedLocks, Session, Told, WaitKind, WaiterInfo,
};

/// The number of waiters or grants of one lock that one step sees to, if all are to be seen to. The next step goes on.
pub(crate) const AT_A_TIME: usize = 100;

/// The table of waiters; `C` is how the server knows a client that waits.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq))]
pub(crate) struct WaitTable<C> {
    pub(crate) locks: Locks,
    pub(crate) waiters: Waiters<C>,
    pub(crate) connections: Connections,
    pub(crate) replication: Replication,
    earlier: Vec<Earlier<C>>,
    outgoing: VecDeque<Notice>,
    observers: Observers,
}

/// The table of an earlier time as a primary. A client that is blocked in it stays known until the server has freed the client.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
struct Earlier<C> {
    table: WaitTable<C>,
    /// The locks before this mark are still to be dropped.
    cursor: Cursor,
}

impl<C: Copy> WaitTable<C> {
    pub(crate) const fn new() -> Self {
        Self {
            locks: Locks::new(),
            waiters: Waiters::new(),
            connections: Connections::new(),
            replication: Replication::new(),
            earlier: Vec::new(),
            outgoing: VecDeque::new(),
            observers: Observers::new(),
        }
    }

    /// What operators are shown.
    pub(crate) fn shown(&mut self) -> Shown<'_, C> {
        Shown { locks: &self.locks, waiters: &self.waiters, observers: &mut self.observers }
    }

    /// The grants that live as long as a connection.
    #[inline(always)]
    pub(crate) fn sessions(&mut self) -> Sessions<'_> {
        let Self { locks, connections, replication, .. } = self;
        Sessions { locks, connections, replication }
    }

    /// The holders that hear what becomes of their grants.
    #[inline(always)]
    pub(crate) fn listeners(&mut self) -> Listeners<'_> {
        Listeners { locks: &mut self.locks, outgoing: &mut self.outgoing }
    }
}
