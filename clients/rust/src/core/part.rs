//! The end: a grant or a place is given up, at once or as soon as the server can be asked.

use std::time::Instant;

use redis::{RedisResult, Value};

use super::Error;
use super::entry::{Entry, Sent, State};
use super::error::{explained, is_gone, passes};
use super::observer::Event;
use super::promise::Promise;
use super::request::Request;
use super::{Core, Id, NO_LEASE, TRY_AGAIN};

pub(super) fn abandoned() -> Error {
    Error::Invalid("the runtime of these locks has ended, so nothing would answer".to_string())
}

fn unheard(locks: &str) -> Error {
    Error::Lost(format!("{locks}: its release could not reach the server"))
}

impl Core {
    /// Releases the lock. The promise is an `Error::Lost` if the lock had been lost before.
    pub(crate) fn release(&mut self, id: Id, now: Instant) -> Promise<Result<(), Error>> {
        let held = self.check(id, now);
        let parted = self.entries.get(&id).map(|entry| entry.parted.clone()).unwrap_or_default();
        match held {
            Ok(()) => {
                self.leave(id, now);
                self.go_on(id, now);
            }
            // After `close`, the release is on its way already.
            Err(Error::Closed) if self.entries.contains_key(&id) => {}
            Err(error) => self.tell(&parted, Err(error)),
        }
        parted
    }

    /// Starts to give up a grant or a place. If several acquires share a grant, only the last one releases it.
    pub(super) fn leave(&mut self, id: Id, now: Instant) {
        let other = self.partner(id, &[State::Waiting, State::Held]);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let held = entry.state == State::Held;
        entry.held = held.then(|| entry.lasted(now));
        entry.used = other.is_some();
        entry.state = State::Leaving;
        entry.due = None;
        // Without an answer, a command is sent again until the lease would be over anyway.
        entry.give_up = now.checked_add(entry.lease).into_iter().chain(entry.until.filter(|_| held)).min();
        let left = if entry.fences.is_empty() { entry.left.clone() } else { entry.fences.clone() };
        let place = !held && (entry.place || entry.unsure);
        let extensions = std::mem::take(&mut entry.extensions);
        if let Some(other) = other {
            self.bequeath(other, left, place);
        }
        for (_, promise) in extensions {
            self.tell(&promise, Err(Error::Closed));
        }
        self.leaving += 1;
    }

    /// Leaves a grant or a place to another acquire of the owner, which will give it up unless it gets a grant of its own.
    pub(super) fn bequeath(&mut self, heir: Id, fences: Vec<u64>, place: bool) {
        let Some(heir) = self.entries.get_mut(&heir) else { return };
        heir.place |= place;
        if heir.fences.is_empty() && !fences.is_empty() {
            heir.left = fences;
        }
    }

    /// Releases a grant that nobody wants.
    pub(super) fn give_back(&mut self, request: Request, fences: Vec<u64>, now: Instant) {
        if fences.is_empty() {
            return;
        }
        let mut entry = Entry::new(request, State::Lost);
        (entry.fences, entry.lease, entry.dropped) = (fences, NO_LEASE, true);
        let id = self.insert(entry); // a new acquire of this owner waits for it
        if let Some(other) = self.partner(id, &[State::Waiting, State::Held]) {
            self.forget(id);
            let left = self.entries.remove(&id).map(|entry| entry.fences).unwrap_or_default();
            return self.bequeath(other, left, false);
        }
        self.leave(id, now);
        self.go_on(id, now);
    }

    pub(super) fn give_up(&mut self, id: Id, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.due = None;
        let request = &entry.request;
        if entry.used {
            self.over(id, Ok(()), now);
        } else if !entry.fences.is_empty() {
            let words = request.release(&entry.fences);
            self.send(id, Sent::Release, words, now);
        } else if entry.place || entry.unsure {
            let words = request.leave();
            self.send(id, Sent::Leave, words, now);
        } else {
            self.over(id, Ok(()), now);
        }
    }

    pub(super) fn given_up(&mut self, id: Id, sent: &Sent, reply: RedisResult<Value>, now: Instant) {
        let stays = !self.closed && !self.unused;
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let locks = entry.request.locks();
        // The server renews a session's lease for as long as the connection is open.
        let is_over = |entry: &Entry| entry.give_up.is_none_or(|end| end <= now);
        let goes_on = entry.request.session && stays || !is_over(entry);
        match reply {
            // The lock may have been granted, with the `start` message still on its way; of several, some may be held beside the place. It is
            // not released if the caller named the owner, who may hold it in another process.
            Ok(Value::Int(left))
                if matches!(sent, Sent::Leave)
                    && (left == 0 || entry.request.keys.len() > 1)
                    && (entry.unsure || entry.request.starts())
                    && !entry.request.named =>
            {
                let words = entry.request.release(&[]);
                self.send(id, Sent::ReleaseUnknown, words, now);
            }
            Ok(Value::Array(missing)) if missing.contains(&Value::Nil) && !entry.again => {
                let why = format!("{locks}: one of the locks was gone when it was released");
                self.over(id, Err(Error::Lost(why)), now);
            }
            Ok(_) => self.over(id, Ok(()), now),
            Err(error) if passes(&error) && goes_on => {
                entry.again = true;
                entry.due = Some(now + TRY_AGAIN);
            }
            Err(error) if passes(&error) && self.closed => self.over(id, Err(unheard(&locks)), now),
            // The lease is over, or the first release was successful.
            Err(error) if passes(&error) || entry.again && is_gone(&error) => self.over(id, Ok(()), now),
            Err(error) => self.over(id, Err(explained(error, &locks, false)), now),
        }
    }

    /// Gives up waiting for pending answers: for the reason `why`, or since the locks were closed.
    pub(crate) fn cut_off(&mut self, why: Option<Error>, now: Instant) {
        for id in self.all() {
            if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.state == State::Leaving) {
                entry.sent = None;
                let why = why.clone().unwrap_or_else(|| unheard(&entry.request.locks()));
                self.over(id, Err(why), now);
            }
        }
    }

    /// Ends everything, since nothing can be sent any more: all waits end, and holders are told that their locks are lost.
    #[cfg(feature = "tokio")]
    pub(crate) fn abandon(&mut self, now: Instant) {
        self.abandoned = true;
        for id in self.all() {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            if let Some((Sent::Extend(promise), _)) = entry.sent.take() {
                entry.extensions.push_back((None, promise));
            }
            match entry.state {
                State::Waiting => self.end_wait(id, abandoned(), now),
                State::Held => self.lose(id, &abandoned().to_string(), now),
                _ => self.go_on(id, now),
            }
        }
        self.cut_off(Some(abandoned()), now);
        self.out.commands.clear();
    }

    fn over(&mut self, id: Id, result: Result<(), Error>, now: Instant) {
        self.tell_why(id);
        self.forget(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if let Some(held) = entry.held.take() {
            match &result {
                Err(Error::Lost(why)) => self.observe_loss(id, held, why),
                _ => self.observe(id, |_| Event::Released { held }),
            }
        }
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.state = State::Over;
        let (parted, owner) = (entry.parted.clone(), entry.request.owner.clone());
        if entry.dropped {
            self.entries.remove(&id);
        }
        self.tell(&parted, result);
        self.leaving = self.leaving.saturating_sub(1);
        self.tell_settled();
        for other in self.of_owner(&owner) {
            if self
                .entries
                .get(&other)
                .is_some_and(|other| other.state == State::Waiting && other.sent.is_none())
            {
                self.ask(other, now);
            }
        }
    }
}
