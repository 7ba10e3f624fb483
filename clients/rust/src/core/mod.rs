//! How locks are waited for, kept and given up, for tasks and threads alike. docs/protocol.md describes the protocol.
//!
//! This code decides everything, and does nothing by itself: events and the time come in, commands and promises go out. Each lock has only one
//! pending command, so no answer can overtake another one. This folder uses nothing else of the package, and nothing random, so that a
//! simulation in the crate `rules` can try it with events in every order.

mod entry;
pub(crate) mod error;
mod hold;
mod observer;
mod part;
pub(crate) mod promise;
pub(crate) mod request;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, RedisResult, Value};

pub(crate) use entry::{Acquired, Granted};
use entry::{Entry, Sent, State, Told};
pub use error::Error;
use observer::Event;
pub use observer::{Observed, Observer};
use promise::Promise;
use request::Request;

const ASK_AGAIN: Duration = Duration::from_secs(4); // less than lock.claim: a lost message delays the grant but does not lose it
pub(crate) const TRY_AGAIN: Duration = Duration::from_millis(100);
const PARTING: Duration = Duration::from_millis(40); // the longest that a caller waits for a place to be given up
const NO_LEASE: Duration = Duration::from_secs(30); // assumed for a lease whose length is unknown
const ANSWER: Duration = Duration::from_secs(5);
/// The longest pause between attempts to subscribe.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A subscription that is silent for so long is checked with a ping. If there is no answer in the same time again, it is made anew.
pub(crate) const SILENCE: Duration = Duration::from_secs(4);

pub(crate) type Id = u64;

/// The connection for a command. A command with `SYNC` delays those behind it, so it gets another connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Common,
    Session,
    Sync(u64),
}

const SYNC_LANES: u64 = 6;

pub(crate) struct Command {
    pub(crate) id: Id,
    pub(crate) words: Cmd,
    pub(crate) lane: Lane,
    /// How long to wait for the answer.
    pub(crate) patience: Duration,
}

/// The work to be done without the mutex.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) commands: Vec<Command>,
    pub(crate) told: Vec<Box<dyn FnOnce() + Send>>,
    /// What the observer has to be told.
    pub(crate) events: Vec<(Arc<Observed>, Event)>,
    /// Whether something falls due earlier than the clock expects.
    pub(crate) sooner: bool,
}

#[derive(Default)]
pub(crate) struct Core {
    pub(crate) channel: String,
    pub(crate) out: Out,
    /// Whether the handle was dropped, so that nothing new can be acquired.
    pub(crate) unused: bool,
    /// When the clock has to run next.
    next: Option<Instant>,
    entries: BTreeMap<Id, Entry>,
    owners: HashMap<Vec<u8>, Vec<Id>>,
    last: Id,
    subscribed: bool,
    /// Whether the server does not know the option START.
    claims_first: bool,
    closed: bool,
    abandoned: bool,
    leaving: usize,
    settling: Vec<Promise<()>>,
}

impl Core {
    /// `channel` must be a name that no other process uses.
    pub(crate) fn new(channel: String) -> Self {
        Self { channel, ..Self::default() }
    }

    fn insert(&mut self, entry: Entry) -> Id {
        self.last += 1;
        self.owners.entry(entry.request.owner.clone()).or_default().push(self.last);
        self.entries.insert(self.last, entry);
        self.last
    }

    /// Removes an acquire from the list of its owner.
    fn forget(&mut self, id: Id) {
        let Some(entry) = self.entries.get(&id) else { return };
        if let Some(those) = self.owners.get_mut(&entry.request.owner) {
            those.retain(|other| *other != id);
            if those.is_empty() {
                self.owners.remove(&entry.request.owner);
            }
        }
    }

    fn of_owner(&self, owner: &[u8]) -> Vec<Id> {
        self.owners.get(owner).cloned().unwrap_or_default()
    }

    /// Another acquire in one of these states that shares the grant, or will share it.
    fn partner(&self, id: Id, states: &[State]) -> Option<Id> {
        let entry = self.entries.get(&id)?;
        self.owners.get(&entry.request.owner)?.iter().copied().find(|other| {
            *other != id
                && self.entries.get(other).is_some_and(|other| {
                    let one =
                        other.fences.is_empty() || entry.fences.is_empty() || other.fences == entry.fences;
                    one && !other.used
                        && states.contains(&other.state)
                        && same(&entry.request, &other.request)
                })
        })
    }

    fn send(&mut self, id: Id, sent: Sent, words: Cmd, now: Instant) {
        let Some(entry) = self.entries.get(&id) else { return };
        // An extension of the same grant that is already on its way may reach the server after this command.
        let others =
            self.owners.get(&entry.request.owner).into_iter().flatten().filter(|other| **other != id);
        let shares = |other: &&Entry| {
            entry.fences == other.fences
                || entry.state == State::Waiting && same(&entry.request, &other.request)
        };
        let others = others.filter_map(|other| self.entries.get(other)).filter(shares);
        let at_most = others.filter_map(Entry::sets).min().and_then(|lease| now.checked_add(lease));
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let request = &entry.request;
        let sync =
            request.sync.filter(|_| matches!(sent, Sent::Ask | Sent::Doubt | Sent::Renew | Sent::Extend(_)));
        let lane = match (&sent, sync) {
            (Sent::Ask | Sent::Doubt, _) if request.session => Lane::Session,
            (_, Some(_)) => Lane::Sync(id % SYNC_LANES),
            _ => Lane::Common,
        };
        let patience = ANSWER + sync.map_or(Duration::ZERO, |(_, time)| time);
        (entry.sent, entry.at_most) = (Some((sent, now)), at_most);
        self.out.commands.push(Command { id, words, lane, patience });
    }

    fn plan(&mut self, id: Id) {
        if let Some(at) = self.entries.get(&id).and_then(Entry::look)
            && self.next.is_none_or(|next| at < next)
        {
            self.next = Some(at);
            self.out.sooner = true;
        }
    }

    fn tell<T: Clone + Send + 'static>(&mut self, promise: &Promise<T>, value: T) {
        let promise = promise.clone();
        self.out.told.push(Box::new(move || promise.set(value)));
    }

    /// Adds an event, if there is an observer.
    fn observe(&mut self, id: Id, event: impl FnOnce(&Entry) -> Event) {
        if let Some(entry) = self.entries.get(&id)
            && let Some(observed) = &entry.request.observed
        {
            self.out.events.push((observed.clone(), event(entry)));
        }
    }

    pub(crate) fn answered(&mut self, id: Id, reply: RedisResult<Value>, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some((sent, began)) = entry.sent.take() else { return };
        match sent {
            Sent::Ask => self.asked(id, reply, began, now),
            Sent::Doubt => self.renewed(id, true, reply, began, now),
            Sent::Renew => self.renewed(id, false, reply, began, now),
            Sent::Extend(promise) => self.extended(id, &promise, reply, began, now),
            Sent::Release | Sent::Leave | Sent::ReleaseUnknown => self.given_up(id, &sent, reply, now),
        }
        self.go_on(id, now);
        self.out.sooner |= self.is_over();
    }

    /// Does what had to wait for the answer.
    fn go_on(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.entries.get(&id) else { return };
        if entry.sent.is_none() {
            let due = entry.due.is_some_and(|due| due <= now);
            match entry.state {
                State::Waiting if entry.woken || due => self.ask(id, now),
                // After a freeze, messages and answers may be handled before the clock runs.
                State::Held if entry.until.is_some_and(|until| until <= now) => self.expire(id, now),
                State::Held if !entry.extensions.is_empty() => self.send_extension(id, now),
                State::Held if due => self.renew(id, now),
                State::Leaving if !entry.again || due => self.give_up(id, now),
                State::Lost | State::Over if entry.dropped => {
                    self.forget(id);
                    self.entries.remove(&id);
                }
                _ => {}
            }
        }
        self.plan(id);
    }

    /// Handles a message. The owner comes last in a message, since it may contain spaces.
    pub(crate) fn heard(&mut self, message: &[u8], now: Instant) {
        let split = |text: &[u8]| {
            let at = text.iter().position(|byte| *byte == b' ')?;
            Some((text.get(..at)?.to_vec(), text.get(at + 1..)?.to_vec()))
        };
        let Some((word, mut owner)) = split(message) else { return };
        let number = |owner: &mut Vec<u8>| {
            let (number, rest) = split(owner)?;
            *owner = rest;
            String::from_utf8_lossy(&number).parse::<u64>().ok()
        };
        if word == b"start" {
            let mut next = || number(&mut owner);
            let (Some(fence), Some(lasts), Some(slot), Some(asks)) = (next(), next(), next(), next()) else {
                return;
            };
            let (lasts, slot) = (Duration::from_millis(lasts), Some(slot).filter(|slot| *slot > 0));
            let told = Told { fence, lasts, slot, number: u32::try_from(asks).unwrap_or(0) };
            for id in self.of_owner(&owner) {
                self.told(id, told, now);
            }
            return;
        }
        let mut fence = 0;
        if matches!(word.as_slice(), b"granted" | b"lost" | b"wanted") {
            let Some(said) = number(&mut owner) else { return };
            fence = said;
        }
        for id in self.of_owner(&owner) {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            match (word.as_slice(), entry.state) {
                (b"lost", State::Held) if entry.fences.contains(&fence) => {
                    self.lose(id, "the server says that it has ended", now);
                }
                // The answer with this fence may come later.
                (b"lost", State::Waiting) => entry.heard_lost.push(fence),
                (b"gone", _) | (b"granted" | b"timeout", State::Waiting) => self.doubt(id, now),
                _ => {}
            }
        }
    }

    /// Handles a new subscription. Messages were lost until now, so all waits ask again, and all held locks are checked.
    pub(crate) fn subscribed(&mut self, now: Instant) {
        (self.subscribed, self.claims_first) = (true, false); // the new server may know START
        self.doubt_those(|_| true, now);
    }

    /// Doubts all waits and held locks whose first key satisfies `those`: each is asked for again.
    pub(crate) fn doubt_those(&mut self, those: impl Fn(&[u8]) -> bool, now: Instant) {
        for id in self.all() {
            if self
                .entries
                .get(&id)
                .is_some_and(|entry| entry.request.keys.first().is_some_and(|key| those(key)))
            {
                self.doubt(id, now);
            }
        }
    }

    /// Whether there is a wait or a held lock whose first key satisfies `those`.
    pub(crate) fn needs(&self, those: impl Fn(&[u8]) -> bool) -> bool {
        let live = |entry: &&Entry| matches!(entry.state, State::Waiting | State::Held);
        let mut live = self.entries.values().filter(live);
        live.any(|entry| entry.request.keys.first().is_some_and(|key| those(key)))
    }

    /// Handles a failure to subscribe. If there has been no subscription yet, all waits fail: none may ask without one.
    pub(crate) fn unreachable(&mut self, error: &redis::RedisError, now: Instant) {
        if self.subscribed {
            return;
        }
        for id in self.all() {
            let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.state == State::Waiting) else {
                continue;
            };
            entry.tries += 1;
            self.refused(id, error.clone(), now);
        }
    }

    fn doubt(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match entry.state {
            State::Waiting => entry.woken = true,
            State::Held => {
                entry.doubted = true;
                entry.due = Some(now);
            }
            _ => return,
        }
        self.go_on(id, now);
    }

    /// Does the work that is due. Returns when to call it again, and whether the background can end.
    pub(crate) fn tick(&mut self, now: Instant) -> (Option<Instant>, bool) {
        // A release does not set the clock, so at the time that was planned, nothing may be due.
        if self.next.is_none_or(|next| next > now) {
            self.out.sooner = false;
            return (self.next, self.is_over());
        }
        for id in self.all() {
            let Some(entry) = self.entries.get(&id).filter(|entry| entry.look().is_some_and(|at| at <= now))
            else {
                continue;
            };
            match entry.state {
                State::Waiting if !entry.once() && entry.end.is_some_and(|end| end <= now) => {
                    self.not_acquired(id, now)
                }
                State::Held if entry.until.is_some_and(|until| until <= now) => {
                    self.expire(id, now);
                }
                State::Leaving if entry.why.as_ref().is_some_and(|(_, at)| *at <= now) => self.tell_why(id),
                _ => {}
            }
            self.go_on(id, now);
        }
        self.next = self.entries.values().filter_map(Entry::look).min();
        self.out.sooner = false;
        (self.next, self.is_over())
    }

    /// Whether nothing new will be acquired, and everything has been given back.
    pub(crate) fn is_over(&self) -> bool {
        self.unused && self.entries.is_empty() || self.closed && self.leaving == 0
    }

    fn all(&self) -> Vec<Id> {
        self.entries.keys().copied().collect()
    }

    /// Handles the drop of a guard or a wait.
    pub(crate) fn dropped(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.dropped = true;
        match entry.state {
            State::Waiting => self.end_wait(id, Error::Cancelled, now),
            State::Held => drop(self.release(id, now)),
            _ => {}
        }
        self.go_on(id, now);
    }

    /// Ends all waits, and releases all locks that are held.
    pub(crate) fn close(&mut self, now: Instant) {
        self.closed = true;
        for id in self.all() {
            let Some(entry) = self.entries.get(&id) else { continue };
            match entry.state {
                State::Waiting => self.end_wait(id, Error::Closed, now),
                State::Held => {
                    let lost = entry.lost.clone();
                    self.tell(&lost, Error::Closed);
                    drop(self.release(id, now));
                }
                _ => {}
            }
        }
    }

    /// Returns a promise that is fulfilled when no release is on its way to the server any more.
    pub(crate) fn settled(&mut self) -> Promise<()> {
        let promise = Promise::default();
        self.settling.push(promise.clone());
        self.tell_settled();
        promise
    }

    fn tell_settled(&mut self) {
        if self.leaving == 0 {
            for promise in std::mem::take(&mut self.settling) {
                self.tell(&promise, ());
            }
        }
    }
}

fn same(one: &Request, other: &Request) -> bool {
    one.keys.len() == other.keys.len() && one.keys.iter().all(|key| other.keys.contains(key))
}

/// The numbers in a reply: one, or several.
fn numbers(reply: Option<&Value>) -> Vec<u64> {
    match reply {
        Some(Value::Int(number)) => u64::try_from(*number).into_iter().collect(),
        Some(Value::Array(all)) => all.iter().flat_map(|one| numbers(Some(one))).collect(),
        _ => Vec::new(),
    }
}

fn lease_of(reply: Option<&Value>) -> i64 {
    if let Some(Value::Int(ms)) = reply { *ms } else { 0 }
}
