//! One lock in the keyspace. Every change goes through here: stored, told to replicas and files, shown to `WATCH`. Where the key is
//! lost, nothing is stored, and no replica told.

use super::effects;
use crate::lock::{Deadline, Fence, Grant, GrantChange, Held, Millis, Value};
use crate::server::{Arg, Ctx, Key, WrongType};

/// A key that holds a lock, or nothing.
pub(crate) struct LockKey<'a> {
    /// Closed first.
    key: Key<'a, Value>,
    signal: Signal<'a>,
}

/// Tells `WATCH` of a changed lock when this value is dropped. The key must be closed by then, since Redis 8.6 looks the key up to do so,
/// and deletes a key whose lease has ended.
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
    /// Opens a lock for a command that may change it. A lapsed one is deleted first, by the server. `only`: no other is opened so
    /// while this one is open.
    #[inline(always)]
    pub(crate) fn write(ctx: &'a Ctx<'a>, name: Arg<'a>, only: bool) -> Result<Self, WrongType> {
        Key::write(ctx, name, only).map(|key| Self::of(ctx, key))
    }

    /// Opens a lock to look at it.
    pub(crate) fn read(ctx: &'a Ctx<'a>, name: Arg<'a>) -> Result<Self, WrongType> {
        Key::read(ctx, name).map(|key| Self::of(ctx, key))
    }

    /// Opens a lock to look at it beside others, and leaves no trace.
    pub(crate) fn peek(ctx: &'a Ctx<'a>, name: Arg<'a>) -> Result<Self, WrongType> {
        Key::peek(ctx, name).map(|key| Self::of(ctx, key))
    }

    fn of(ctx: &'a Ctx<'a>, key: Key<'a, Value>) -> Self {
        let name = key.name();
        Self { key, signal: Signal { ctx, name, due: false } }
    }

    /// Closes the key.
    #[inline(always)]
    pub(crate) fn close(self) -> Signal<'a> {
        self.signal
    }

    pub(crate) fn name(&self) -> Arg<'a> {
        self.key.name()
    }

    /// The grants of the lock; none where it is free.
    pub(crate) fn value(&self) -> Option<&Value> {
        self.key.value()
    }

    /// The end of the latest lease, which the server has to look up.
    pub(crate) fn deadline(&self) -> Deadline {
        self.key.expires_at().map_or(Deadline::Never, Deadline::At)
    }

    /// Notes that the lock was changed. Whether others are to be told of changes.
    #[inline(always)]
    fn is_to_tell(&self, ctx: &Ctx<'_>) -> bool {
        ctx.must_replicate() && !self.key.is_lost()
    }

    /// Gives the lock to somebody alone.
    #[inline(always)]
    pub(crate) fn give(&mut self, ctx: &Ctx<'_>, grant: Grant, until: Deadline) {
        if self.is_to_tell(ctx) {
            effects::alone(ctx, self.key.name(), &grant, until);
        }
        self.store(grant, until);
    }

    /// Stores what a primary told, and tells nobody: that grant alone.
    #[inline(always)]
    pub(crate) fn store(&mut self, grant: Grant, until: Deadline) {
        match self.key.value_mut() {
            None => self.key.set_value(Value::One(grant)),
            Some(Value::One(held)) => *held = grant.aged_as(held),
            Some(value) => *value = Value::One(grant),
        }
        self.set_deadline(until);
        self.signal.due = true;
    }

    /// Gives the lock to one more holder.
    pub(crate) fn add(&mut self, ctx: &Ctx<'_>, grant: Grant, end: Deadline) {
        if self.is_to_tell(ctx) {
            effects::among(ctx, self.key.name(), &grant, end);
        }
        self.store_among(grant, end);
    }

    /// Stores a grant of which a primary told this server, beside the other holders. Nobody is told.
    pub(crate) fn store_among(&mut self, grant: Grant, end: Deadline) {
        let until = self.deadline();
        let Some(value) = self.key.value_mut() else { return self.store(grant, end) };
        let new_until = value.put(grant, end, until);
        self.move_deadline(until, new_until);
        self.signal.due = true;
    }

    /// Changes the grant with this fence, and its lease. Does nothing at all if both are the same already, as after an extension to the
    /// same millisecond.
    pub(crate) fn update(&mut self, ctx: &Ctx<'_>, fence: Fence, change: GrantChange<'_>, end: Deadline) {
        let (name, until) = (self.key.name(), self.deadline());
        let Some(value) = self.key.value_mut() else { return };
        let Some(Held { grant, deadline }) = value.with_fence(fence, || until) else { return };
        let same = grant.is_already(change);
        if same && deadline == end {
            return;
        }
        let alone = value.is_one();
        let new_until = value.update(fence, change, end, until);
        let told = value.with_fence(fence, || new_until).filter(|_| ctx.must_replicate());
        match told {
            Some(_) if alone && same => effects::lease(ctx, name, end),
            Some(held) if alone => effects::alone(ctx, name, held.grant, end),
            Some(held) => effects::among(ctx, name, held.grant, end),
            None => (),
        }
        self.move_deadline(until, new_until);
        self.signal.due = true;
    }

    /// Moves the lease as a primary told, and tells nobody; nothing where the lock is free.
    pub(crate) fn store_lease(&mut self, deadline: Deadline) {
        if self.key.value().is_some() {
            self.set_deadline(deadline);
            self.signal.due = true;
        }
    }

    /// Ends the grant with this fence.
    pub(crate) fn end(&mut self, ctx: &Ctx<'_>, fence: Fence) {
        if self.is_to_tell(ctx) {
            effects::end(ctx, self.key.name(), fence);
        }
        self.remove_one(fence);
    }

    /// Removes the grant that a primary told to remove, and tells nobody.
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

    /// Ends at most `most` grants whose leases were over before `now`, of several. Returns those grants.
    pub(crate) fn end_lapsed(&mut self, ctx: &Ctx<'_>, now: Millis, most: usize) -> Vec<Grant> {
        let lapsed = self.lapsed(now, most);
        let is_all =
            self.key.value().is_none_or(|value| value.lapsed(self.deadline(), now).nth(most).is_none());
        if is_all && self.is_to_tell(ctx) {
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

    /// Removes the grants of which a primary has told that they lapsed. Nobody is told.
    pub(crate) fn remove_lapsed(&mut self, now: Millis) {
        for grant in self.lapsed(now, usize::MAX) {
            self.remove_one(grant.fence());
        }
    }

    /// At most `most` grants whose leases were over before `now`, of several.
    fn lapsed(&self, now: Millis, most: usize) -> Vec<Grant> {
        let until = self.deadline();
        let Some(value) = self.key.value() else { return Vec::new() };
        let fences = value.lapsed(until, now).take(most);
        fences.filter_map(|fence| Some(value.with_fence(fence, || until)?.grant.clone())).collect()
    }

    /// Ends all grants.
    #[inline(always)]
    pub(crate) fn free(&mut self, ctx: &Ctx<'_>) {
        if self.is_to_tell(ctx) {
            effects::free(ctx, self.key.name());
        }
        self.remove();
    }

    /// Removes what a primary told to remove, and tells nobody.
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
