//! The wait: the package asks until the lock is held, or the time is over.

use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult, Value};

use super::Error;
use super::entry::{Entry, Sent, State, Told};
use super::error::{explained, passes};
use super::observer::Event;
use super::request::{Request, ms};
use super::{ASK_AGAIN, Acquired, Core, Id, PARTING, TRY_AGAIN, lease_of, numbers};

impl Core {
    pub(crate) fn acquire(&mut self, request: Request, now: Instant) -> Result<(Id, Acquired), Error> {
        request.check()?;
        if self.closed {
            let refused = Event::Refused { waited: Duration::ZERO, outcome: "closed", error: Error::Closed };
            self.out.events.extend(request.observed.map(|observed| (observed, refused)));
            return Err(Error::Closed);
        }
        if self.abandoned {
            return Err(super::part::abandoned());
        }
        let mut entry = Entry::new(request, State::Waiting);
        // The server renews a session's lease, but only a renewal tells how long it is.
        entry.request.kept |= entry.request.session;
        entry.end = entry.request.wait.filter(|_| !entry.once()).and_then(|wait| now.checked_add(wait));
        entry.since = Some(now);
        let acquired = entry.acquired.clone();
        let id = self.insert(entry);
        self.ask(id, now);
        self.plan(id);
        Ok((id, acquired))
    }

    pub(super) fn ask(&mut self, id: Id, now: Instant) {
        // A pending release of another acquire of this owner could end the grant that this one would enter. So this one asks after it.
        let leaving = self.partner(id, &[State::Leaving]).is_some();
        let Some(entry) = self.entries.get_mut(&id) else { return };
        (entry.woken, entry.due) = (false, None);
        if !self.subscribed || leaving {
            return;
        }
        entry.tries += 1;
        entry.starts = !self.claims_first && entry.request.starts();
        (entry.asked, entry.told) = (Some(now), None);
        let block = match entry.end {
            _ if entry.once() => None,
            None => Some(0),
            Some(end) => Some(ms(end.saturating_duration_since(now))),
        };
        let start = entry.starts.then_some(entry.tries);
        let words = entry.request.acquire(&self.channel, block, entry.request.lease, start);
        self.send(id, Sent::Ask, words, now);
    }

    pub(super) fn asked(&mut self, id: Id, reply: RedisResult<Value>, began: Instant, now: Instant) {
        self.note(id, &reply);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.state != State::Waiting {
            // Others may have left meanwhile, without this grant: each of them releases the grant that it knows, or only its place.
            if entry.used {
                let (fences, place) = (entry.fences.clone(), entry.place || entry.unsure);
                let heir = self.partner(id, &[State::Waiting, State::Held]);
                let knows = |other| self.entries.get(&other).is_some_and(|other| !other.fences.is_empty());
                let used = heir.is_some()
                    || !fences.is_empty() && self.partner(id, &[State::Leaving]).is_some_and(knows);
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.used = used;
                }
                if let Some(heir) = heir {
                    self.bequeath(heir, fences, place);
                }
            }
            return;
        }
        entry.trouble = None;
        match reply {
            Ok(Value::Array(grant)) => self.hold(id, &grant, began, now),
            Ok(Value::Nil) => self.not_acquired(id, now),
            Ok(_) => {
                if entry.request.observed.as_ref().is_some_and(|observed| observed.begins_to_wait()) {
                    self.observe(id, |_| Event::Waiting);
                }
                let Some(entry) = self.entries.get_mut(&id) else { return };
                entry.due = Some(now + ASK_AGAIN);
                if let Some(told) = entry.told.take() {
                    self.begin(id, told, now);
                }
            }
            // The server does not know the option START.
            Err(error) if entry.starts && error.to_string().contains("syntax error") => {
                self.claims_first = true;
                entry.due = Some(now);
            }
            Err(error) => self.refused(id, error, now),
        }
    }

    /// Handles a `start` message. If its number is not that of the last request, it is late: the lock was asked for again since.
    pub(super) fn told(&mut self, id: Id, told: Told, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.state == State::Waiting) else {
            return;
        };
        if told.number == entry.tries {
            match entry.sent {
                None => self.begin(id, told, now),
                Some(_) => entry.told = Some(told),
            }
        }
    }

    /// Holds the lock from the message on, if enough of the lease is left. The message repeats the number of the last request, so the grant is
    /// younger than the request: the lease safely counts from when this was sent.
    fn begin(&mut self, id: Id, told: Told, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Told { fence, lasts, slot, .. } = told;
        let Some(until) = entry.asked.and_then(|asked| asked.checked_add(lasts)) else { return };
        let left = until.saturating_duration_since(now);
        if left < lasts / 5 || entry.heard_lost.contains(&fence) {
            self.doubt(id, now);
            return;
        }
        (entry.fences, entry.slot, entry.unclaimed) = (vec![fence], slot, true);
        (entry.until, entry.due) = (Some(until), now.checked_add(left / 3));
        self.holds(id, now);
        self.plan(id);
    }

    pub(super) fn refused(&mut self, id: Id, error: RedisError, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        // At a silent server, another try would take as long again.
        if passes(&error) && (!entry.once() || entry.tries < 2 && !error.is_timeout()) {
            entry.trouble = Some(error);
            entry.due = Some(now + TRY_AGAIN);
        } else {
            let why = explained(error, &entry.request.locks(), entry.request.sync.is_some());
            self.end_wait(id, why, now);
        }
    }

    /// Notes whether the server may have a place or a grant for this wait.
    fn note(&mut self, id: Id, reply: &RedisResult<Value>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match reply {
            Ok(Value::Array(grant)) => {
                entry.unsure = false;
                entry.fences = numbers(grant.get(1));
                entry.slot = numbers(grant.get(4)).first().copied();
                if let Ok(lease) = u64::try_from(lease_of(grant.get(3))) {
                    entry.lease = Duration::from_millis(lease);
                }
            }
            Ok(reply) => {
                entry.unsure &= entry.request.keys.len() > 1; // without one of them, it may hold the others
                entry.place |= *reply != Value::Nil;
            }
            Err(error) => {
                entry.unsure |= passes(error);
                entry.place |= error.code() == Some("NOREPLICAS"); // the unclaimed place or grant may still be there
            }
        }
    }

    pub(super) fn not_acquired(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.entries.get(&id) else { return };
        let why = Error::NotAcquired(entry.request.locks(), entry.trouble.clone());
        self.end_wait(id, why, now);
    }

    /// Ends the wait when its place has been given up, or soon after.
    pub(super) fn end_wait(&mut self, id: Id, why: Error, now: Instant) {
        self.observe(id, |entry| {
            let outcome = match &why {
                Error::NotAcquired(..) if entry.once() => "busy",
                Error::NotAcquired(..) => "timeout",
                Error::Cancelled => "cancelled",
                Error::Deadlock(_) => "deadlock",
                Error::Closed => "closed",
                _ => "error",
            };
            Event::Refused { waited: entry.lasted(now), outcome, error: why.clone() }
        });
        self.leave(id, now);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.why = Some((why, now + PARTING));
        let (used, left, request) = (entry.used, entry.left.clone(), entry.request.clone());
        if !used {
            self.give_back(request, left, now);
        }
        self.go_on(id, now);
    }

    pub(crate) fn cancel(&mut self, id: Id, now: Instant) {
        if self.entries.get(&id).is_some_and(|entry| entry.state == State::Waiting) {
            self.end_wait(id, Error::Cancelled, now);
        }
    }

    pub(super) fn tell_why(&mut self, id: Id) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if let Some((why, _)) = entry.why.take() {
            let acquired = entry.acquired.clone();
            self.tell(&acquired, Err(why));
        }
    }
}
