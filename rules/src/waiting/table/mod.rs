//! The table of waiters: who waits where, in memory. Nothing here changes anything in the server.
//!
//! Calls go down only: `WaitTable` calls the structs that borrow its parts, these structs call the parts, and the parts do not call one
//! another.
//!
//! - `WaitTable` does what concerns both waiters and locks: arrivals (`arrivals`), answers (`answers`), places (waiters that are not
//!   blocked) and how they claim their grants (`claims`), timeouts (`due`), and how waits and grants end (`ends`). `DETECT` and the rules
//!   (the code outside of `table` that decides who gets a lock) read the table through `view`.
//! - `Waits`, `Sessions`, `Listeners` and `Shown` borrow parts of the table. `Waits` changes waiters, `Sessions` changes which connection
//!   keeps a grant alive, `Listeners` changes which holder gets messages about its grant, and `Shown` returns what operators are shown.
//! - `Locks` has, by database and name, all that the module knows of a lock beyond what its key says (`LockEntry`): its queue, its timers,
//!   and a record of each grant about which there is more to know than its key says (`GrantRecord`). `Locks` also has the timers of all
//!   locks (`Timers`), and the walks through all locks (`Sweeps`).
//! - `Waiters` has all that the module knows of a waiter, by the number of its request. It also has the waiters in queues, by owner
//!   (`Owners`), the timeouts of requests, and the requests for several locks that have to be tried (`RequestTimers`).
//! - `Connections` has, by connection, the grants that the connection keeps alive, and its places.
//! - `Replication` has the answers and renewals that replicas have to confirm.
//! - `earlier` has what this server knew as a primary before it was demoted, until the module has dropped all of this.
//! - `index` has the type of all indexes of these parts, and says how each index follows from its rows.
//! - `outgoing` has the list of answers to waiters, and of messages to holders, that are still to be sent.
//! - `Observers` has what only operators are shown. No decision depends on it.

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
pub(crate) use replication::Replication;
use sessions::Sessions;
use shown::{Observers, Shown};
use waiters::{Waiters, Waits};

use crate::lock::Fence;

pub(crate) use entry::LockEntry;
pub(crate) use grant_record::Expired;
#[cfg(test)]
pub(crate) use grants::LOOKS;
pub use lock_id::{LockId, LockRef};
pub(crate) use outgoing::Outgoing;
pub use outgoing::{Message, MessageKind};
#[cfg(test)]
pub(crate) use queue::Queue;
pub use queue::RequestId;
#[cfg(test)]
pub(crate) use replication::Awaited;
pub use replication::Confirm;
pub(crate) use replication::{Moved, Offset};
pub use shown::{LongWaits, Page, WaitInfo};
pub(crate) use timers::Lane;
pub(crate) use view::Ahead;
pub use waiter::{Answer, Channel, RequestedLock, RequestedLocks, WaiterInfo};
pub(crate) use waiter::{Arrival, Session, Told, WaitKind};

/// If all waiters or grants of a lock have to be handled, one step handles at most this many of them. The next step goes on.
pub(crate) const AT_A_TIME: usize = 100;

/// The table of waiters. `C` is the server's handle of a blocked client.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq))]
pub struct WaitTable<C> {
    pub locks: Locks,
    pub waiters: Waiters<C>,
    pub connections: Connections,
    pub replication: Replication,
    earlier: Vec<Earlier<C>>,
    outgoing: VecDeque<Notice>,
    /// The blocked clients that have been told of their grants in this turn of the event loop, and the numbers of their requests. The
    /// server is done with these clients, but may still close their connections before it sends the replies.
    pub(super) sent: Vec<(u64, RequestId)>,
    /// The lock whose value was last removed by something other than the module, and those of its holds of which no owner knew (see
    /// `unlinked`).
    strays: Option<(LockId, Vec<(Fence, u32)>)>,
    observers: Observers,
}

/// A table from before a demotion, when this server was a primary. The table keeps each blocked waiter until the server is done with the
/// waiter's client.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq, Hash))]
struct Earlier<C> {
    table: WaitTable<C>,
    /// The locks before this position have not been dropped yet.
    cursor: Cursor,
}

impl<C: Copy> WaitTable<C> {
    pub const fn new() -> Self {
        Self {
            locks: Locks::new(),
            waiters: Waiters::new(),
            connections: Connections::new(),
            replication: Replication::new(),
            earlier: Vec::new(),
            outgoing: VecDeque::new(),
            sent: Vec::new(),
            strays: None,
            observers: Observers::new(),
        }
    }

    /// Lends the parts from which operators are shown something.
    pub fn shown(&mut self) -> Shown<'_, C> {
        Shown { locks: &self.locks, waiters: &self.waiters, observers: &mut self.observers }
    }

    /// Lends the waiters for changes.
    #[inline(always)]
    pub(crate) fn waits(&mut self) -> Waits<'_, C> {
        Waits::new(&mut self.waiters, &mut self.connections, &mut self.replication)
    }

    /// Lends the sessions for changes.
    #[inline(always)]
    pub(crate) fn sessions(&mut self) -> Sessions<'_> {
        let Self { locks, connections, replication, .. } = self;
        Sessions { locks, connections, replication }
    }

    /// Lends the listening holders for changes.
    #[inline(always)]
    pub(crate) fn listeners(&mut self) -> Listeners<'_> {
        Listeners { locks: &mut self.locks, outgoing: &mut self.outgoing }
    }
}
