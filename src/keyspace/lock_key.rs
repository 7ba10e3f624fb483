//! One lock in the keyspace. This file makes every change of a lock: it stores the change, replicates it, and signals it to clients that
//! `WATCH` the key. If something else has removed the key while it was open, this file stores and replicates nothing.

use super::effects;
use crate::server::{Arg, Ctx, Key, WrongType};
use rules::lock::{Deadline, Fence, Grant, GrantChange, Millis, Value};

/// An open key that is a lock, or does not exist.
pub(crate) struct LockKey<'a> {
    /// The key is the first field, so that it is closed before `signal` is dropped.
    key: Key<'a, Value>,
    signal: Signal<'a>,
}

/// When this value is dropped, it signals a changed lock to clients that `WATCH` the key. The key must be closed by then, because Redis 8.6
/// looks up the signalled key, and deletes it if it has expired.
pub(crate) struct Signal<'a> {
    ctx: &'a Ctx<'a>,
    name: Arg<'a>,
    due: bool,
}

impl Drop for Signal<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.due {
            self.ctx.signal_modified(self.name);
        }
    }
}

impl<'a> LockKey<'a> {
    /// Opens a lock for a command that may change the lock. If the lock has lapsed, the server first deletes the key. `only` saves some
    /// time, but may be true for at most one of the keys that are open at the same time.
    #[inline(always)]
    pub(crate) fn write(ctx: &'a Ctx<'a>, name: Arg<'a>, only: bool) -> Result<Self, WrongType> {
        Key::write(ctx, name, only).map(|key| Self::of(ctx, key))
    }

    pub(crate) fn read(ctx: &'a Ctx<'a>, name: Arg<'a>) -> Result<Self, WrongType> {
        Key::read(ctx, name).map(|key| Self::of(ctx, key))
    }

    /// Opens a lock for reading. Other locks may be open at the same time. The server does not count this call as a use of the key.
    pub(crate) fn peek(ctx: &'a Ctx<'a>, name: Arg<'a>) -> Result<Self, WrongType> {
        Key::peek(ctx, name).map(|key| Self::of(ctx, key))
    }

    fn of(ctx: &'a Ctx<'a>, key: Key<'a, Value>) -> Self {
        let name = key.name();
        Self { key, signal: Signal { ctx, name, due: false } }
    }

    /// Closes the key. Dropping the result signals the change to clients that `WATCH` the key.
    #[inline(always)]
    pub(crate) fn close(self) -> Signal<'a> {
        self.signal
    }

    pub(crate) fn name(&self) -> Arg<'a> {
        self.key.name()
    }

    /// Returns the grants of the lock; `None` if the lock is free.
    pub(crate) fn value(&self) -> Option<&Value> {
        self.key.value()
    }

    /// Returns the end of the lease that ends last: the end of the key's TTL, which the server has to look up.
    pub(crate) fn deadline(&self) -> Deadline {
        self.key.expires_at().map_or(Deadline::Never, Deadline::At)
    }

    /// Whether a change of this lock has to be replicated. Must be called exactly once for each change, because `Ctx::must_replicate` may
    /// add the change to the server's count of changes.
    #[inline(always)]
    fn must_replicate(&self, ctx: &Ctx<'_>) -> bool {
        ctx.must_replicate() && !self.key.is_lost()
    }

    /// Makes `grant` the only grant of the lock, and replicates the change.
    #[inline(always)]
    pub(crate) fn give(&mut self, ctx: &Ctx<'_>, grant: Grant, until: Deadline) {
        if self.must_replicate(ctx) {
            effects::alone(ctx, self.key.name(), &grant, until);
        }
        self.store(grant, until);
    }

    /// Makes `grant` the only grant of the lock, and replicates nothing. `LOCK.APPLY` calls this method.
    #[inline(always)]
    pub(crate) fn store(&mut self, grant: Grant, until: Deadline) {
        match self.key.value_mut() {
            None => self.key.set_value(Value::One(grant)),
            Some(Value::One(held)) => *held = grant.with_age_of(held),
            Some(value) => *value = Value::One(grant),
        }
        self.set_deadline(until);
        self.signal.due = true;
    }

    /// Adds `grant` beside the other grants, and replicates the change.
    pub(crate) fn add(&mut self, ctx: &Ctx<'_>, grant: Grant, deadline: Deadline) {
        if self.must_replicate(ctx) {
            effects::among(ctx, self.key.name(), &grant, deadline);
        }
        self.store_among(grant, deadline);
    }

    /// Adds `grant` beside the other grants, and replicates nothing. `LOCK.APPLY` calls this method.
    pub(crate) fn store_among(&mut self, grant: Grant, deadline: Deadline) {
        let until = self.deadline();
        let Some(value) = self.key.value_mut() else { return self.store(grant, deadline) };
        let new_until = value.put(grant, deadline, until);
        self.move_deadline(until, new_until);
        self.signal.due = true;
    }

    /// Changes the grant with this fence and its lease, and replicates the change. Does nothing if both stay the same, for example after an
    /// extension to the same millisecond.
    pub(crate) fn update(&mut self, ctx: &Ctx<'_>, fence: Fence, change: GrantChange<'_>, to: Deadline) {
        let (name, until) = (self.key.name(), self.deadline());
        let Some(value) = self.key.value_mut() else { return };
        let Some(held) = value.with_fence(fence, || until) else { return };
        let same = held.grant.is_already(change);
        if same && held.deadline == to {
            return;
        }
        let alone = value.is_one();
        let new_until = value.update(fence, change, to, until);
        let changed = value.with_fence(fence, || new_until).filter(|_| ctx.must_replicate());
        match changed {
            Some(_) if alone && same => effects::lease(ctx, name, to),
            Some(held) if alone => effects::alone(ctx, name, held.grant, to),
            Some(held) => effects::among(ctx, name, held.grant, to),
            None => (),
        }
        self.move_deadline(until, new_until);
        self.signal.due = true;
    }

    /// Sets the end of the key's TTL, which moves all leases, as `LOCK.APPLY` says, and replicates nothing. Does nothing if the lock is
    /// free.
    pub(crate) fn store_lease(&mut self, deadline: Deadline) {
        if self.key.value().is_some() {
            self.set_deadline(deadline);
            self.signal.due = true;
        }
    }

    /// Ends the grant with this fence, and replicates the change.
    pub(crate) fn end(&mut self, ctx: &Ctx<'_>, fence: Fence) {
        if self.must_replicate(ctx) {
            effects::end(ctx, self.key.name(), fence);
        }
        self.remove_one(fence);
    }

    /// Ends the grant with this fence, and replicates nothing.
    pub(crate) fn remove_one(&mut self, fence: Fence) {
        let until = self.deadline();
        let Some(value) = self.key.value_mut() else { return };
        match value.end(fence, until) {
            Some(new_until) => {
                self.move_deadline(until, new_until);
                self.signal.due = true;
            }
            None => self.remove(),
        }
    }

    /// If the lock has several grants, ends at most `most` grants whose leases ended before `now`, and replicates the change. Returns the
    /// ended grants.
    pub(crate) fn end_lapsed(&mut self, ctx: &Ctx<'_>, now: Millis, most: usize) -> Vec<Grant> {
        let lapsed = self.lapsed(now, most);
        let is_all =
            self.key.value().is_none_or(|value| value.lapsed(self.deadline(), now).nth(most).is_none());
        if is_all && self.must_replicate(ctx) {
            effects::end_lapsed(ctx, self.key.name(), now);
        }
        for grant in &lapsed {
            match is_all {
                true => self.remove_one(grant.fence()),
                false => self.end(ctx, grant.fence()),
            }
        }
        lapsed
    }

    /// Ends the grants whose leases ended before `now`, as `LOCK.APPLY` says, and replicates nothing.
    pub(crate) fn remove_lapsed(&mut self, now: Millis) {
        for grant in self.lapsed(now, usize::MAX) {
            self.remove_one(grant.fence());
        }
    }

    /// Returns at most `most` grants whose leases ended before `now`, if the lock has several grants.
    fn lapsed(&self, now: Millis, most: usize) -> Vec<Grant> {
        let until = self.deadline();
        let Some(value) = self.key.value() else { return Vec::new() };
        let fences = value.lapsed(until, now).take(most);
        fences.filter_map(|fence| Some(value.with_fence(fence, || until)?.grant.clone())).collect()
    }

    /// Ends all grants, and replicates the change.
    #[inline(always)]
    pub(crate) fn free(&mut self, ctx: &Ctx<'_>) {
        if self.must_replicate(ctx) {
            effects::free(ctx, self.key.name());
        }
        self.remove();
    }

    /// Ends all grants, and replicates nothing.
    pub(crate) fn remove(&mut self) {
        self.key.delete();
        self.signal.due = true;
    }

    fn move_deadline(&mut self, from: Deadline, to: Deadline) {
        if from != to {
            self.set_deadline(to);
        }
    }

    fn set_deadline(&mut self, deadline: Deadline) {
        self.key.set_expires_at(match deadline {
            Deadline::At(at) => Some(at),
            Deadline::Never => None,
        });
    }
}
