//! The table of waiters: who waits where, in memory. Nothing here changes anything in the server.
//!
//! Calls go down only: from `WaitTable` to what borrows its parts, and from there to the parts, which do not call one another.
//!
//! - `WaitTable` does what concerns waiters and locks at once: arrivals (`arrivals`), answers (`answers`), places and claims (`claims`),
//!   timeouts (`due`), and how waits and grants end (`ends`). `view` has what the rules and `DETECT` read.
//! - `Waits`, `Sessions`, `Listeners` and `Shown` borrow parts of the table. They change waiters, which connection keeps a grant alive, and
//!   which holder hears of its grant; and show operators what there is.
//! - `Locks` has, by database and key, all that is known of a lock beside its key (`LockEntry`): its queue, its timers, and a record for
//!   each grant of which anything is known (`GrantRecord`). It also has the timers of all locks (`Timers`), and walks through all of them
//!   (`Sweeps`).
//! - `Waiters` has all that is known of a waiter, by the number of its request; the waiters in queues, by owner (`Owners`); and when
//!   requests time out, and which requests for several locks are to be tried (`RequestTimers`).
//! - `Connections` has, by connection, the grants that it keeps alive, and its places.
//! - `Replication` has the answers and renewals that replicas are to confirm.
//! - `earlier` has what this server knew as a primary before it was demoted, until all of that has been dropped.
//! - `index` says how the indexes of all these follow from their rows.
//! - `outgoing` has the answers that are due, in the order of the grants, and messages to holders.
//! - `Observers` has what is kept only to be shown, and decides nothing.

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
mod index;
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
use waiters::{Waiters, Waits};

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

/// The most waiters or grants of one lock that one step handles if all are to be handled. The next step goes on.
pub(crate) const AT_A_TIME: usize = 100;

/// The table of waiters. `C` is a blocked client, as the server knows it.
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

/// The table from before a demotion, when this server was a primary. It keeps each blocked client until the server has freed that client.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
struct Earlier<C> {
    table: WaitTable<C>,
    /// The locks before this position are still to be dropped.
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

    /// The waiters, to be changed.
    #[inline(always)]
    pub(crate) fn waits(&mut self) -> Waits<'_, C> {
        Waits::new(&mut self.waiters, &mut self.connections, &mut self.replication)
    }

    /// The sessions, to be changed.
    #[inline(always)]
    pub(crate) fn sessions(&mut self) -> Sessions<'_> {
        let Self { locks, connections, replication, .. } = self;
        Sessions { locks, connections, replication }
    }

    /// The listening holders, to be changed.
    #[inline(always)]
    pub(crate) fn listeners(&mut self) -> Listeners<'_> {
        Listeners { locks: &mut self.locks, outgoing: &mut self.outgoing }
    }
}
