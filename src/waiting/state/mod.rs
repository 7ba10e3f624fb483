//! Who waits where, in memory. Nothing here changes anything in the server.
//!
//! Eight trees and a list:
//!
//! - `lines`: by database and key, the queue of a lock (`lock::Queue`, tickets in order of arrival) and the session
//!   that keeps its grant alive. A line with neither is dropped.
//! - `waiters`: by ticket, everything about one waiter, from the time it joins until the server has freed it: also for
//!   the moment after it left its line, answered or departed.
//! - `sessions`: by connection, the locks whose grants live as long as it.
//! - `timeouts`: who gives up when. Ours, not the server's: some servers lose the answer of a client whose time is up
//!   in the very moment in which it is unblocked.
//! - `alarms`: which lock to look at when; at most one for a line, the earliest (`Line::alarm`). It may be too early,
//!   when the lease was moved since: looking costs little, and sets the next one.
//! - `dead`: by lock, the grants whose waiter went away before it was answered, one for each hold.
//! - `sharers`: by grant, those who were given it without a hold of their own (`ONCE`).
//! - `answered`: whose grant is made and whose answer is due, in the order of the grants.
//! - `given`: by grant, those who were given it and may turn out to be gone: until the server has freed them, told or not.
//!
//! Each file has one way through them: `lines` who comes, is next and leaves; `answers` who is told what; `dead` what becomes
//! of a grant whose waiter went away; `sessions` which connection keeps which grants alive; `alarms` when to look again.

mod alarms;
mod answers;
mod dead;
mod lines;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::waiter::{Answer, Place, Session, Waiter};
use crate::lock::{Fence, Millis, Queue, Ticket};
use crate::server::Timer;

#[derive(Default)]
struct Line {
    queue: Queue,
    session: Option<Session>,
    alarm: Option<Millis>,
}

pub(super) struct State {
    lines: BTreeMap<i32, BTreeMap<Arc<[u8]>, Line>>,
    waiters: BTreeMap<Ticket, Waiter>,
    sessions: BTreeMap<u64, BTreeSet<Place>>,
    timeouts: BTreeSet<(Millis, Ticket)>,
    alarms: BTreeSet<(Millis, Place)>,
    answered: Vec<Ticket>,
    dead: BTreeMap<Place, Vec<Fence>>,
    sharers: BTreeSet<(Fence, Ticket)>,
    given: BTreeSet<(Fence, Ticket)>,
    last_ticket: NonZeroU64,
    /// The timer of the server's that rings the next alarm, and when; see `tick`.
    pub(super) timer: Option<(Millis, Timer)>,
    /// A timer of the server's that answers those whose answers are due has been set.
    pub(super) answering: bool,
    /// The server tells of changed keys.
    pub(super) listening: bool,
    /// The alarms are ringing now.
    pub(super) ringing: bool,
    /// No alarm is to ring before that.
    pub(super) quiet_until: Millis,
}

impl State {
    pub(super) const fn new() -> Self {
        Self {
            lines: BTreeMap::new(),
            waiters: BTreeMap::new(),
            sessions: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            alarms: BTreeSet::new(),
            answered: Vec::new(),
            dead: BTreeMap::new(),
            sharers: BTreeSet::new(),
            given: BTreeSet::new(),
            last_ticket: NonZeroU64::MIN,
            timer: None,
            answering: false,
            listening: false,
            ringing: false,
            quiet_until: 0,
        }
    }

    /// Whether nobody waits, no session is held, and no grant of a dead waiter is left to take back.
    pub(super) fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.dead.is_empty()
    }

    /// How many wait, and how many grants are kept alive by a connection.
    pub(super) fn totals(&self) -> (usize, usize) {
        let lines = || self.lines.values().flat_map(BTreeMap::values);
        let waiters = lines().map(|line| line.queue.len()).sum();
        (waiters, lines().filter(|line| line.session.is_some()).count())
    }

    /// The key holds something else: nobody waits for that, and nothing of a lock is left.
    pub(super) fn overwritten(&mut self, db: i32, key: &[u8]) {
        while let Some((ticket, ..)) = self.head(db, key) {
            self.answer(ticket, Answer::WrongType);
        }
        self.end_session(db, key);
        self.dead.remove(&Place { db, key: key.into() });
    }

    /// The lock is another server's now, and so is its grant: a session of ours, or a hold to be taken back, must not end it
    /// when it comes back one day. Whether anybody still waits here; the server sends them away when the move is done.
    pub(super) fn moved_away(&mut self, place: &Place) -> bool {
        self.end_session(place.db, &place.key);
        self.dead.remove(place);
        self.waiters_of(place.db, &place.key) > 0
    }

    /// On a replica nothing is to be done: the server sends the waiters away, sessions end with the lease, and the rest
    /// is the primary's to tell.
    pub(super) fn stand_down(&mut self) {
        self.dead.clear();
        self.alarms.clear();
        self.sessions.clear();
        for lines in self.lines.values_mut() {
            lines.retain(|_, line| {
                line.alarm = None;
                line.session = None;
                !line.queue.is_empty()
            });
        }
        self.lines.retain(|_, lines| !lines.is_empty());
    }
}
