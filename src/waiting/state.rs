//! Who waits where, in memory. Nothing here changes anything in the server.
//!
//! Five trees and two lists:
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
//! - `answered`: whose grant is made and whose answer is due, in the order of the grants.
//! - `dead`: grants whose waiter went away before it was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::waiter::{Answer, Phase, Place, Session, Told, Waiter, WaiterInfo};
use crate::info;
use crate::lock::{Ask, Fence, Millis, Owner, Queue, Ticket};
use crate::server::{self, Blocked, Timer};

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
    dead: Vec<(Place, Fence)>,
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
            dead: Vec::new(),
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

    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        Ticket(self.last_ticket.get())
    }

    /// How many wait, and how many grants are kept alive by a connection.
    pub(super) fn totals(&self) -> (usize, usize) {
        let lines = || self.lines.values().flat_map(BTreeMap::values);
        let waiters = lines().map(|line| line.queue.len()).sum();
        (waiters, lines().filter(|line| line.session.is_some()).count())
    }

    fn line(&self, db: i32, key: &[u8]) -> Option<&Line> {
        self.lines.get(&db)?.get(key)
    }

    fn line_mut(&mut self, db: i32, key: &[u8]) -> Option<&mut Line> {
        self.lines.get_mut(&db)?.get_mut(key)
    }

    /// The name of a line, shared with it.
    fn place(&self, db: i32, key: &[u8]) -> Option<Place> {
        let (key, _) = self.lines.get(&db)?.get_key_value(key)?;
        Some(Place { db, key: Arc::clone(key) })
    }

    pub(super) fn waiters_of(&self, db: i32, key: &[u8]) -> usize {
        self.line(db, key).map_or(0, |line| line.queue.len())
    }

    pub(super) fn queue_of(&self, db: i32, key: &[u8]) -> Vec<WaiterInfo> {
        let now = server::now();
        let Some(line) = self.line(db, key) else { return Vec::new() };
        let waiters = line.queue.iter().filter_map(|ticket| self.waiters.get(ticket));
        waiters
            .map(|waiter| WaiterInfo {
                owner: waiter.ask.owner.clone(),
                client_id: waiter.client_id,
                waited: now.saturating_sub(waiter.since).max(0) / 1000,
                timeout: waiter.timeout,
            })
            .collect()
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn join(
        &mut self,
        db: i32,
        key: &[u8],
        ticket: Ticket,
        ask: Ask<'static>,
        client: Blocked,
        client_id: u64,
        timeout: Millis,
    ) {
        let place = self.place(db, key).unwrap_or_else(|| Place { db, key: key.into() });
        let line = self.lines.entry(db).or_default().entry(Arc::clone(&place.key)).or_default();
        line.queue.join(ticket, ask.owner.clone());
        let since = server::now();
        let phase = Phase::Queued;
        let unblocked = false;
        let waiter = Waiter { place, ask, phase, client, client_id, since, unblocked, timeout };
        self.timeouts.extend(waiter.gives_up().map(|at| (at, ticket)));
        self.waiters.insert(ticket, waiter);
    }

    /// The one way out of a line, for whatever reason; whether the waiter stood in it.
    fn leave(&mut self, ticket: Ticket, next: Phase) -> bool {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return false };
        if waiter.phase != Phase::Queued {
            return false;
        }
        waiter.phase = next;
        let place = waiter.place.clone();
        let owner = waiter.ask.owner.clone();
        if let Some(at) = waiter.gives_up() {
            self.timeouts.remove(&(at, ticket));
        }
        if let Some(line) = self.line_mut(place.db, &place.key) {
            line.queue.leave(ticket, &owner);
            self.drop_line_if_empty(&place);
        }
        true
    }

    fn drop_line_if_empty(&mut self, place: &Place) {
        let Some(lines) = self.lines.get_mut(&place.db) else { return };
        if lines.get(&place.key).is_none_or(|line| !line.queue.is_empty() || line.session.is_some()) {
            return;
        }
        let alarm = lines.remove(&place.key).and_then(|line| line.alarm);
        if lines.is_empty() {
            self.lines.remove(&place.db);
        }
        let dead = self.dead.iter().any(|(dead, _)| dead == place);
        if let Some(at) = alarm.filter(|_| !dead) {
            self.alarms.remove(&(at, place.clone()));
        }
    }

    /// The first waiter of a line, and what it asks for.
    pub(super) fn head(&self, db: i32, key: &[u8]) -> Option<(Ticket, Ask<'static>)> {
        let ticket = self.line(db, key)?.queue.head()?;
        let waiter = self.waiters.get(&ticket)?;
        Some((ticket, waiter.ask.clone()))
    }

    /// The first waiter of a line with that owner, and what it asks for.
    pub(super) fn head_of(
        &self,
        db: i32,
        key: &[u8],
        owner: &Owner<'static>,
    ) -> Option<(Ticket, Ask<'static>)> {
        let ticket = self.line(db, key)?.queue.first_of(owner)?;
        let waiter = self.waiters.get(&ticket)?;
        Some((ticket, waiter.ask.clone()))
    }

    /// Takes a waiter out of its line, to be told that.
    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if !self.leave(ticket, Phase::Answered(answer)) {
            return;
        }
        self.answered.push(ticket);
        if let (Answer::Granted { .. }, Some(waiter)) = (answer, self.waiters.get(&ticket)) {
            info::waited(server::now().saturating_sub(waiter.since) / 1000);
        }
    }

    /// The key holds something else: nobody waits for that, and nothing of a lock is left.
    pub(super) fn overwritten(&mut self, db: i32, key: &[u8]) {
        while let Some((ticket, ..)) = self.head(db, key) {
            self.answer(ticket, Answer::WrongType);
        }
        self.end_session(db, key);
        self.dead.retain(|(place, _)| place.db != db || *place.key != *key);
    }

    /// The lock is another server's now, and so is its grant: a session of ours, or a hold to be taken back, must not end it
    /// when it comes back one day. Whether anybody still waits here; the server sends them away when the move is done.
    pub(super) fn moved_away(&mut self, place: &Place) -> bool {
        self.end_session(place.db, &place.key);
        self.dead.retain(|(dead, _)| dead != place);
        self.waiters_of(place.db, &place.key) > 0
    }

    /// Whose answers are due.
    pub(super) fn take_answered(&mut self) -> Vec<Blocked> {
        let tickets = std::mem::take(&mut self.answered);
        let waiters = tickets.iter().filter_map(|ticket| {
            let waiter = self.waiters.get_mut(ticket)?;
            // One whom an operator sent away in this step has been told already.
            waiter.unblocked = matches!(waiter.phase, Phase::Answered(_));
            Some(waiter.client)
        });
        waiters.collect()
    }

    /// Answers those whose time is up.
    pub(super) fn time_out(&mut self, now: Millis) {
        while let Some(&(_, ticket)) = self.timeouts.first().filter(|(at, _)| *at <= now) {
            self.answer(ticket, Answer::TimedOut);
            info::TIMEOUTS.count();
        }
    }

    /// What a waiter whom the server lets us answer now is told, and by what name: one that still stands in line is sent away
    /// by an operator as if its time were up. `None`: it has been told already, and is not to be told twice. (Redis 7.0 with
    /// threads for input asks again where an operator's `CLIENT UNBLOCK` came in between.)
    pub(super) fn tell(&mut self, ticket: Ticket) -> Option<Told> {
        self.leave(ticket, Phase::Answered(Answer::TimedOut));
        let waiter = self.waiters.get_mut(&ticket)?;
        let Phase::Answered(answer) = waiter.phase else { return None };
        waiter.phase = Phase::Told(answer);
        let Waiter { place, ask, client_id, .. } = waiter;
        Some(Told { place: place.clone(), ask: ask.clone(), client_id: *client_id, answer })
    }

    /// A waiter can be told nothing any more.
    pub(super) fn depart(&mut self, ticket: Ticket) {
        self.leave(ticket, Phase::Left);
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let phase = std::mem::replace(&mut waiter.phase, Phase::Left);
        let place = waiter.place.clone();
        let client = waiter.client_id;
        let Some((granted, own_hold)) = hold_of(&mut { phase }).map(|(fence, own)| (fence, *own)) else {
            return;
        };
        // Told, but in vain.
        let session = self.session(place.db, &place.key);
        if session.is_some_and(|session| (session.client, session.fence) == (client, granted)) {
            self.end_session(place.db, &place.key);
        }
        if !own_hold {
            return;
        }
        // One that asked for the grant back with `ONCE` has been told of the same hold: it is that one's now.
        let heir = self.waiters.values_mut().find_map(|waiter| match hold_of(&mut waiter.phase) {
            Some((fence, own_hold)) if fence == granted && !*own_hold => Some(own_hold),
            _ => None,
        });
        match heir {
            Some(own_hold) => *own_hold = true,
            None => {
                self.dead.push((place.clone(), granted));
                self.alarm(place, 0);
            }
        }
    }

    /// A running command has been told of the hold of that grant: it is not taken back with a waiter that was to be told of it.
    pub(super) fn share_hold(&mut self, fence: Fence) {
        for ticket in &self.answered {
            if let Some((granted, own_hold)) =
                self.waiters.get_mut(ticket).and_then(|waiter| hold_of(&mut waiter.phase))
                && granted == fence
            {
                *own_hold = false;
            }
        }
    }

    /// The server has freed a waiter: what is left of it is dropped.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        // Not told any more, whatever kept us from it.
        if self.waiters.get(&ticket).is_some_and(|waiter| !matches!(waiter.phase, Phase::Told(_))) {
            self.depart(ticket);
        }
        self.waiters.remove(&ticket);
    }

    /// The connection of a waiter that has been told that it has the lock, and whether the tick had it told.
    pub(super) fn told_client(&self, ticket: Ticket) -> Option<(u64, bool)> {
        let waiter = self.waiters.get(&ticket)?;
        matches!(waiter.phase, Phase::Told(Answer::Granted { .. }))
            .then_some((waiter.client_id, waiter.unblocked))
    }

    /// A grant on that lock whose waiter went away before it was answered.
    pub(super) fn take_dead(&mut self, db: i32, key: &[u8]) -> Option<Fence> {
        let found = self.dead.iter().position(|(place, _)| place.db == db && *place.key == *key)?;
        Some(self.dead.swap_remove(found).1)
    }

    /// Has a connection keep a grant alive, in place of any other.
    pub(super) fn start_session(&mut self, db: i32, key: &[u8], session: Session) {
        let place = self.place(db, key).unwrap_or_else(|| Place { db, key: key.into() });
        let line = self.lines.entry(db).or_default().entry(Arc::clone(&place.key)).or_default();
        let earlier = line.session.replace(session);
        if let Some(earlier) = earlier.filter(|earlier| earlier.client != session.client) {
            self.forget_session(earlier.client, &place);
        }
        self.sessions.entry(session.client).or_default().insert(place.clone());
        self.alarm(place, session.renew_at);
    }

    /// No connection keeps the grant alive any more.
    pub(super) fn end_session(&mut self, db: i32, key: &[u8]) {
        let Some(place) = self.place(db, key) else { return };
        let session = self.line_mut(db, key).and_then(|line| line.session.take());
        if let Some(session) = session {
            self.forget_session(session.client, &place);
            self.drop_line_if_empty(&place);
        }
    }

    fn forget_session(&mut self, client: u64, place: &Place) {
        if let Some(places) = self.sessions.get_mut(&client) {
            places.remove(place);
            if places.is_empty() {
                self.sessions.remove(&client);
            }
        }
    }

    pub(super) fn session(&self, db: i32, key: &[u8]) -> Option<Session> {
        self.line(db, key)?.session
    }

    /// A connection has closed: what it kept alive is to be released now. Whether there was anything.
    pub(super) fn disconnected(&mut self, client: u64) -> bool {
        let Some(places) = self.sessions.remove(&client) else { return false };
        for place in places {
            if let Some(session) = self.line_mut(place.db, &place.key).and_then(|line| line.session.as_mut())
            {
                session.over = true;
            }
            self.alarm(place, 0);
        }
        true
    }

    /// Has a lock looked at at that time at the latest, if anybody waits for it or keeps it alive; whether somebody does.
    pub(super) fn alarm_at(&mut self, db: i32, key: &[u8], at: Millis) -> bool {
        match self.place(db, key) {
            Some(place) => {
                self.alarm(place, at);
                true
            }
            None => false,
        }
    }

    /// Has a lock looked at at that time at the latest.
    pub(super) fn alarm(&mut self, place: Place, at: Millis) {
        if let Some(line) = self.line_mut(place.db, &place.key) {
            match line.alarm {
                Some(earlier) if earlier <= at => return,
                later => {
                    line.alarm = Some(at);
                    if let Some(later) = later {
                        self.alarms.remove(&(later, place.clone()));
                    }
                }
            }
        }
        self.alarms.insert((at, place));
    }

    /// Has all locks of a database, or of all, looked at now.
    pub(super) fn alarm_db(&mut self, db: Option<i32>) {
        let lines = self.lines.iter().filter(|&(&number, _)| db.is_none_or(|db| db == number));
        let places: Vec<Place> = lines
            .flat_map(|(&db, lines)| lines.keys().map(move |key| Place { db, key: Arc::clone(key) }))
            .collect();
        for place in places {
            self.alarm(place, 0);
        }
    }

    /// The locks that are to be looked at now. Not one more, though looking at them may make others due: a server that
    /// does not let keys expire would have them due for ever.
    pub(super) fn take_due(&mut self, now: Millis) -> Vec<Place> {
        let mut due = Vec::new();
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, place)) = self.alarms.pop_first() else { break };
            if let Some(line) = self.line_mut(place.db, &place.key) {
                line.alarm = None;
            }
            due.push(place);
        }
        due
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

    /// Whether somebody is to be answered.
    pub(super) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    /// When something else is to be done next.
    pub(super) fn next_due(&self) -> Option<Millis> {
        let alarm = self.alarms.first().map(|(at, _)| (*at).max(self.quiet_until));
        let timeout = self.timeouts.first().map(|(at, _)| *at);
        alarm.into_iter().chain(timeout).min()
    }
}

/// The fence of the grant that a waiter has been given, told or not, and whether a hold was made for it.
fn hold_of(phase: &mut Phase) -> Option<(Fence, &mut bool)> {
    match phase {
        Phase::Answered(Answer::Granted { fence, own_hold, .. })
        | Phase::Told(Answer::Granted { fence, own_hold, .. }) => Some((*fence, own_hold)),
        _ => None,
    }
}
