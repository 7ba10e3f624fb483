//! Who waits where, in memory. Nothing here changes anything in the server.
//!
//! - `lines`: by database and key, all that is known of one lock beside its grant (`Line`). A line of which nothing is left
//!   is dropped: a lock without a line costs one look-up.
//! - `waiters`: by ticket, everything about one waiter, from the time it joins until the server has freed it: also for
//!   the moment after it left its queue, answered or departed.
//! - `sessions`: by connection, the locks whose grants live as long as it.
//! - `timeouts`: who gives up when. Ours, not the server's: some servers lose the answer of a client whose time is up
//!   in the very moment in which it is unblocked.
//! - `alarms`: which lock to look at when; at most one for a line, the earliest (`Line::alarm`). It may be too early,
//!   when the lease was moved since: looking costs little, and sets the next one.
//! - `places`: by connection, the waiters that are notified, in a queue or with a grant to claim.
//! - `answered`: whose grant is made and whose answer is due, in the order of the grants; and messages to holders.
//!
//! Each file has one way through them: `lines` who comes, is next and leaves; `answers` who is told what; `dead` what becomes
//! of a grant whose waiter went away; `sessions` which connection keeps which grants alive; `places` who waits without being
//! blocked, and claims; `watches` what holders hear; `alarms` when to look again.

mod alarms;
mod answers;
mod dead;
mod line;
mod lines;
mod message;
mod place;
mod places;
mod queue;
mod sessions;
mod table;
#[cfg(test)]
mod tests;
mod waiter;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use crate::lock::Millis;
use message::Due;
use table::Lines;
use waiter::Waiter;

pub(crate) use line::Lapsed;
pub(crate) use message::{Message, Tell, Word};
pub(crate) use place::{At, Place};
pub(crate) use queue::Ticket;
pub(crate) use waiter::{Answer, Arrival, Channel, Session, Told, WaiterInfo, Way};

/// Who waits where; `C` is how the server knows a client that waits.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq))]
pub(crate) struct State<C> {
    lines: Lines,
    waiters: BTreeMap<Ticket, Waiter<C>>,
    sessions: BTreeMap<u64, BTreeSet<Place>>,
    places: BTreeMap<u64, BTreeSet<Ticket>>,
    timeouts: BTreeSet<(Millis, Ticket)>,
    alarms: BTreeSet<(Millis, Place)>,
    answered: Vec<Due>,
    last_ticket: NonZeroU64,
    /// No alarm is to ring before that.
    quiet_until: Millis,
    /// When all that was due had been looked at last.
    rang_at: Millis,
}

impl<C: Copy> State<C> {
    pub(crate) const fn new() -> Self {
        Self {
            lines: Lines::new(),
            waiters: BTreeMap::new(),
            sessions: BTreeMap::new(),
            places: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            alarms: BTreeSet::new(),
            answered: Vec::new(),
            last_ticket: NonZeroU64::MIN,
            quiet_until: 0,
            rang_at: 0,
        }
    }

    /// Whether nobody waits for any lock and no connection keeps one alive, as on many servers at most times.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether nobody waits for that lock, no connection keeps it alive, and nothing of it is left to take back.
    pub(crate) fn is_idle(&self, at: At<'_>) -> bool {
        self.line(at).is_none()
    }

    /// How many wait, and how many grants are kept alive by a connection.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let waiters = self.lines.values().map(|line| line.queue.len()).sum();
        (waiters, self.lines.values().filter(|line| line.session.is_some()).count())
    }

    /// The key holds something else: nobody waits for that, and nothing of a lock is left. Whether a grant that was kept has
    /// lapsed by that.
    pub(crate) fn overwritten(&mut self, at: At<'_>) -> bool {
        while let Some((ticket, _)) = self.head(at) {
            self.answer(ticket, Answer::WrongType, 0);
        }
        let lapsed = self.line(at).is_some_and(|line| line.lapsed.is_some());
        self.end_watch(at, Some(Word::Lost));
        self.forget_grants(at);
        lapsed
    }

    /// The lock is another server's now, and so is its grant: a session of ours, or a hold to be taken back, must not end it
    /// when it comes back one day. Those who are notified are sent away. Whether anybody is still blocked here; the server sends
    /// them away when the move is done.
    pub(crate) fn moved_away(&mut self, at: At<'_>) -> bool {
        self.send_away(at);
        self.forget_grants(at);
        self.waiters_of(at) > 0
    }

    fn forget_grants(&mut self, at: At<'_>) {
        self.end_session(at);
        self.with_line(at, |line| line.forget_grants());
    }

    /// On a replica nothing is to be done: the server sends away those who are blocked, and we the others; sessions end with
    /// the lease, and the rest is the primary's to tell.
    pub(crate) fn stand_down(&mut self) {
        let lines = self.lines.iter().filter(|(_, line)| line.has_messages());
        for place in lines.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            self.send_away(place.at());
        }
        self.alarms.clear();
        self.sessions.clear();
        self.lines.retain(|line| {
            line.alarm = None;
            line.session = None;
            line.forget_grants();
            !line.is_over()
        });
    }
}
