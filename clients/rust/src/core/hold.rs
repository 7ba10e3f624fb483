//! The grant: it is renewed while it is held, checked in doubt, and may be lost.

use std::time::{Duration, Instant};

use redis::{RedisResult, Value};

use super::Error;
use super::entry::{Entry, Granted, Sent, State};
use super::error::{explained, is_gone};
use super::observer::Event;
use super::promise::Promise;
use super::request::at_least_a_millisecond;
use super::{Core, Id, lease_of, numbers, same};

const AGED: &str = "it has reached its maximum age (max_hold, or the server's lock.max-hold)";

impl Core {
    pub(super) fn hold(&mut self, id: Id, grant: &[Value], began: Instant, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.lease = entry.request.lease.unwrap_or(entry.lease);
        let lost = entry.fences.iter().any(|fence| entry.heard_lost.contains(fence));
        self.holds(id, now);
        self.believe(id, lease_of(grant.get(3)), began, now);
        if lost {
            self.lose(id, "the server says that it has ended", now);
        }
        let _ = self.check(id, now);
    }

    /// Ends the wait with a grant.
    pub(super) fn holds(&mut self, id: Id, now: Instant) {
        self.observe(id, |entry| {
            let fence = entry.fences.iter().copied().max().unwrap_or_default();
            Event::Acquired { waited: entry.lasted(now), fence }
        });
        let Some(entry) = self.entries.get_mut(&id) else { return };
        (entry.state, entry.since) = (State::Held, Some(now));
        let granted = Granted {
            keys: entry.request.keys.clone(),
            owner: entry.request.owner.clone(),
            fences: entry.fences.clone(),
            slot: entry.slot,
            lost: entry.lost.clone(),
        };
        let acquired = entry.acquired.clone();
        self.tell(&acquired, Ok(granted));
    }

    /// Notes the lease in an answer. It counts from the moment before the command was sent.
    fn believe(&mut self, id: Id, lease: i64, began: Instant, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.state == State::Held) else {
            return;
        };
        let before = entry.until;
        // A doubt that arose while the command was on its way remains.
        (entry.until, entry.due, entry.unclaimed) = (None, entry.doubted.then_some(began), false);
        let Ok(lease) = u64::try_from(lease).map(Duration::from_millis) else { return }; // somebody used PERSIST
        let sure = entry.at_most.map_or(lease, |at_most| lease.min(at_most.saturating_duration_since(began)));
        entry.until = began.checked_add(sure);
        // The maximum age only cuts a new lease. If the end moved back by more than the answer took, the server's default was changed.
        let slack = now.saturating_duration_since(began) + Duration::from_millis(1);
        let back = before.zip(began.checked_add(lease + slack)).is_some_and(|(before, end)| end < before);
        let whole = entry.request.lease.unwrap_or(if back { Duration::ZERO } else { entry.given });
        entry.aged = entry.request.kept && lease < whole;
        if !entry.aged {
            entry.given = lease;
        }
        if entry.request.lease.is_none() {
            // The first lease may have been that of another hold, and longer than the server's default.
            entry.lease = lease;
        }
        // A shorter lease than asked for means that the grant has reached its maximum age. No renewal makes it longer.
        if !entry.doubted && entry.request.kept && lease >= whole / 2 {
            entry.due = began.checked_add(sure / 3);
        }
        self.plan(id);
        self.shorten(id, sure, began);
    }

    /// Notes the lease that an extension is about to set: the server may set it even if no answer comes. Before the claim, the length of the
    /// server's default is not known.
    fn extends(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.entries.get(&id) else { return };
        if let Some(lease) = entry.request.lease.or((!entry.unclaimed).then_some(entry.lease)) {
            self.shorten(id, lease, now);
        }
    }

    /// Shortens the lease of all acquires that share the grant. The server may handle their pending commands before or after the one that sets
    /// this lease.
    fn shorten(&mut self, id: Id, lease: Duration, began: Instant) {
        let Some((until, soon)) = began.checked_add(lease).zip(began.checked_add(lease / 3)) else {
            return;
        };
        let Some(entry) = self.entries.get(&id) else { return };
        let (fences, request) = (entry.fences.clone(), entry.request.clone());
        for other in self.of_owner(&request.owner) {
            let Some(entry) = self.entries.get_mut(&other) else { continue };
            let shares = entry.state == State::Held && entry.fences == fences;
            if shares || entry.state == State::Waiting && same(&entry.request, &request) {
                entry.at_most = Some(entry.at_most.map_or(until, |before| before.min(until)));
            }
            if shares && entry.until.is_none_or(|before| until < before) {
                entry.until = Some(until);
                if entry.request.kept {
                    entry.due = Some(entry.due.map_or(soon, |due| due.min(soon)));
                }
                self.plan(other);
            }
        }
    }

    /// Renews the lease. If the grant is in doubt, acquires the lock again, so that the server learns this channel and connection anew. The
    /// fence then tells whether the grant is still the same.
    pub(super) fn renew(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.due = None;
        if !entry.doubted {
            self.extends(id, now);
        }
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let (sent, words) = if entry.doubted {
            entry.doubted = false; // the answer does not settle a doubt that arises after this
            let request = &entry.request;
            // An acquire never makes a lease shorter, so a lock that is not renewed asks for the shortest lease once it is claimed.
            let whole = request.kept || entry.unclaimed;
            let lease = if whole { request.lease } else { Some(Duration::from_millis(1)) };
            (Sent::Doubt, request.acquire(&self.channel, None, lease, None))
        } else {
            (Sent::Renew, entry.request.extend(&entry.fences))
        };
        self.send(id, sent, words, now);
    }

    pub(super) fn renewed(
        &mut self,
        id: Id,
        asked: bool,
        reply: RedisResult<Value>,
        began: Instant,
        now: Instant,
    ) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                entry.doubted |= asked || error.code() == Some("GRACE");
                let pause = Duration::from_secs(1).min(entry.lease / 10);
                let left = entry.until.map(|until| until.saturating_duration_since(now) / 3);
                entry.due =
                    Some(now + left.filter(|_| entry.unclaimed).map_or(pause, |left| pause.min(left)));
                if is_gone(&error) {
                    self.gone(id, &error.to_string(), now);
                }
                return;
            }
        };
        let Value::Array(grant) = &reply else {
            match reply {
                Value::Nil => self.gone(id, "someone else holds it", now),
                reply => self.believe(id, lease_of(Some(&reply)), began, now),
            }
            return;
        };
        let fences = numbers(grant.get(1));
        if fences != entry.fences {
            let request = entry.request.clone();
            self.gone(id, "it was free meanwhile", now);
            self.give_back(request, fences, now);
        } else if entry.state == State::Lost {
            let request = entry.request.clone();
            self.give_back(request, fences, now);
        } else {
            self.believe(id, lease_of(grant.get(3)), began, now);
        }
    }

    pub(crate) fn extend(
        &mut self,
        id: Id,
        lease: Option<Duration>,
        now: Instant,
    ) -> Promise<Result<Duration, Error>> {
        let promise = Promise::default();
        match at_least_a_millisecond("a lease", lease).and_then(|()| self.check(id, now)) {
            Err(error) => self.tell(&promise, Err(error)),
            Ok(()) => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.extensions.push_back((lease, promise.clone()));
                }
                self.go_on(id, now);
            }
        }
        promise
    }

    pub(super) fn send_extension(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some((lease, promise)) = entry.extensions.pop_front() else { return };
        if let Some(lease) = lease {
            (entry.request.lease, entry.lease) = (Some(lease), lease);
        }
        self.extends(id, now);
        let Some(entry) = self.entries.get(&id) else { return };
        let words = entry.request.extend(&entry.fences);
        self.send(id, Sent::Extend(promise), words, now);
    }

    pub(super) fn extended(
        &mut self,
        id: Id,
        promise: &Promise<Result<Duration, Error>>,
        reply: RedisResult<Value>,
        began: Instant,
        now: Instant,
    ) {
        let Some(entry) = self.entries.get(&id) else { return };
        let (locks, sync) = (entry.request.locks(), entry.request.sync.is_some());
        let result = match reply {
            Ok(reply) => {
                let lease = lease_of(Some(&reply));
                self.believe(id, lease, began, now);
                let given = u64::try_from(lease).map_or(Duration::MAX, Duration::from_millis);
                self.check(id, now).map(|()| given)
            }
            Err(error) => {
                if is_gone(&error) {
                    self.gone(id, &error.to_string(), now);
                }
                self.check(id, now).and(Err(explained(error, &locks, sync)))
            }
        };
        self.tell(promise, result);
    }

    /// What a holder believes: its fences, and the end of its lease.
    #[cfg(test)]
    #[allow(dead_code, reason = "the world in rules/ uses it, which compiles this file")]
    pub(crate) fn belief(&self, id: Id) -> Option<(&[u64], Option<Instant>)> {
        let entry = self.entries.get(&id).filter(|entry| entry.state == State::Held)?;
        Some((&entry.fences, entry.until))
    }

    /// Where an acquire is in the table of docs/protocol.md.
    #[cfg(test)]
    #[allow(dead_code, reason = "the world in rules/ uses it, which compiles this file")]
    pub(crate) fn stage(&self, id: Id) -> &'static str {
        let Some(entry) = self.entries.get(&id) else { return "over" };
        match entry.state {
            State::Waiting if entry.sent.is_some() || entry.trouble.is_some() => "asking",
            State::Waiting => "queued",
            State::Held if entry.doubted || matches!(entry.sent, Some((Sent::Doubt, _))) => "doubted",
            State::Held => "held",
            State::Lost => "lost",
            State::Leaving => "leaving",
            State::Over => "over",
        }
    }

    /// Fails if the lock was lost. A process that was suspended notices here that its lease is over.
    pub(crate) fn check(&mut self, id: Id, now: Instant) -> Result<(), Error> {
        if self.entries.get(&id).is_some_and(|entry| entry.until.is_some_and(|until| until <= now)) {
            self.expire(id, now);
        }
        match self.entries.get(&id) {
            Some(entry) if entry.state == State::Held => Ok(()),
            entry => Err(entry.and_then(|entry| entry.error.clone()).unwrap_or(Error::Closed)),
        }
    }

    pub(super) fn expire(&mut self, id: Id, now: Instant) {
        self.lose(id, "its lease is over, and no renewal came through", now);
    }

    /// The server does not know the grant, so it is lost for all acquires that share it.
    fn gone(&mut self, id: Id, why: &str, now: Instant) {
        let Some(entry) = self.entries.get(&id) else { return };
        let fences = entry.fences.clone();
        for other in self.of_owner(&entry.request.owner) {
            let has = |entry: &Entry| fences.iter().all(|fence| entry.fences.contains(fence));
            if self.entries.get(&other).is_some_and(has) {
                self.lose(other, why, now);
            }
        }
    }

    /// Tells the observer. An error's text contains the key, so the reason is only its code.
    pub(super) fn observe_loss(&mut self, id: Id, held: Duration, why: &str) {
        self.observe(id, |entry| {
            let text = why.strip_prefix(&format!("{}: ", entry.request.locks())).unwrap_or(why);
            let reason = text.split(": ").next().unwrap_or(text).trim_matches('"').to_string();
            Event::Lost { held, reason, error: Error::Lost(why.to_string()) }
        });
    }

    pub(super) fn lose(&mut self, id: Id, why: &str, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.state == State::Held) else {
            return;
        };
        // The server may report the end a moment before the clock runs.
        let aged = entry.aged && entry.until.is_some_and(|until| until <= now);
        let why = if aged { AGED } else { why };
        let (why, held) = (format!("{}: {why}", entry.request.locks()), entry.lasted(now));
        let error = Error::Lost(why.clone());
        (entry.state, entry.error) = (State::Lost, Some(error.clone()));
        let (lost, request, fences) = (entry.lost.clone(), entry.request.clone(), entry.fences.clone());
        let mut extensions: Vec<_> = entry.extensions.drain(..).map(|(_, promise)| promise).collect();
        if let Some((Sent::Extend(promise), _)) = &entry.sent {
            extensions.push(promise.clone()); // whatever its answer will be
        }
        for promise in extensions {
            self.tell(&promise, Err(error.clone()));
        }
        self.observe_loss(id, held, &why);
        self.tell(&lost, error);
        self.give_back(request, fences, now); // perhaps only the network failed, or other locks of several are still held
    }
}
