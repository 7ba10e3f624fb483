//! One lock in the keyspace. This file makes every change of a lock: it stores the change, replicates it, and signals it to clients that
//! `WATCH` the key. If something else has removed the key while it was open, this file stores and replicates nothing.

use std::ffi::CStr;

use crate::server::{Arg, Ctx, Key, LogLevel, WrongType};
use rules::encoding::{number_of, state};
use rules::lock::{Deadline, Fence, Grant, Millis, Value};
use rules::waiting::{Effect, Grants};

/// The command that carries effects. Other commands would not do, because an operator may have renamed `DEL` or `PEXPIREAT`.
pub(crate) const APPLY: &CStr = c"lock.apply";

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

    /// Takes the grants out for a step. Until `put_back`, nothing else may use the key.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<Value> {
        self.key.value_mut().map(Value::take)
    }

    /// Puts the grants back that a step took: as they are now, or those that have ended, as long as the key is there.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, grants: &mut Grants) {
        if let Some(value) = self.key.value_mut()
            && let Some(left) = grants.value.take().or_else(|| grants.ended.take())
        {
            *value = left;
        }
    }

    /// Puts the grants back of a key that was there, and stays. Replicates and stores what the step has done to it. The server tells no
    /// other module of this. When the step began, the TTL ended at `from`.
    pub(crate) fn write_back(
        &mut self,
        ctx: &Ctx<'_>,
        grants: &mut Grants,
        from: Deadline,
        effects: &[Effect],
    ) {
        let (stays, until) = (grants.value.is_some(), grants.until);
        self.put_back(grants);
        if stays && grants.value.is_none() {
            self.replicate(ctx, self.key.value(), until, effects);
            self.signal.due |= effects.iter().any(is_change);
            self.move_deadline(from, until);
        }
    }

    /// Makes a key that was not there, or deletes one whose last grant has ended; replicates this first. Other modules are told, and may do
    /// anything.
    pub(crate) fn make_or_delete(&mut self, ctx: &Ctx<'_>, grants: &mut Grants, effects: &[Effect]) {
        let (is_freed, until) = (effects.contains(&Effect::Free), grants.until);
        if self.key.is_lost() || grants.value.is_none() && !is_freed {
            return;
        }
        self.replicate(ctx, grants.value.as_ref(), until, effects);
        self.signal.due = true;
        match grants.value.take() {
            Some(value) => {
                self.key.set_value(value);
                self.set_deadline(until);
            }
            None => self.key.delete(),
        }
    }

    /// Replicates what a step has done to the lock, which has this value by now.
    fn replicate(&self, ctx: &Ctx<'_>, value: Option<&Value>, until: Deadline, effects: &[Effect]) {
        let name = self.key.name();
        for effect in effects.iter().filter(|effect| is_change(effect)) {
            let held = |fence: &Fence| value.and_then(|value| value.with_fence(*fence, || until));
            let of = match effect {
                Effect::Alone(fence) | Effect::Lease(fence) | Effect::Among(fence) => held(fence),
                _ => None,
            };
            // Of a grant that has ended since, the end was noted, too.
            let is_over =
                of.is_none() && !matches!(effect, Effect::Ended(_) | Effect::Lapsed(_) | Effect::Free);
            if is_over || !ctx.must_replicate() {
                continue;
            }
            match (effect, of) {
                (Effect::Lease(_), Some(held)) if value.is_some_and(Value::is_one) => {
                    send(ctx, name, itoa::Buffer::new().format(number_of(held.deadline)).as_bytes());
                }
                (Effect::Alone(_), Some(held)) => send(ctx, name, &state(held.grant, held.deadline, true)),
                (_, Some(held)) => send(ctx, name, &state(held.grant, held.deadline, false)),
                (Effect::Ended(fence), None) => send(ctx, name, format!("~{}", fence.get()).as_bytes()),
                (Effect::Lapsed(now), None) => send(ctx, name, format!("<{now}").as_bytes()),
                _ => check(ctx, ctx.replicate_key(APPLY, name)),
            }
        }
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
            send(ctx, self.key.name(), &state(&grant, until, true));
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

    /// Adds `grant` beside the other grants, and replicates nothing. `LOCK.APPLY` calls this method.
    pub(crate) fn store_among(&mut self, grant: Grant, deadline: Deadline) {
        let until = self.deadline();
        let Some(value) = self.key.value_mut() else { return self.store(grant, deadline) };
        let new_until = value.put(grant, deadline, until);
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

    /// Ends the grants whose leases ended before `now`, as `LOCK.APPLY` says, and replicates nothing.
    pub(crate) fn remove_lapsed(&mut self, now: Millis) {
        let until = self.deadline();
        let lapsed = self.key.value().into_iter().flat_map(|value| value.lapsed(until, now));
        let lapsed: Vec<Fence> = lapsed.collect();
        lapsed.into_iter().for_each(|fence| self.remove_one(fence));
    }

    /// Ends all grants, and replicates the change.
    #[inline(always)]
    pub(crate) fn free(&mut self, ctx: &Ctx<'_>) {
        if self.must_replicate(ctx) {
            check(ctx, ctx.replicate_key(APPLY, self.key.name()));
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

fn is_change(effect: &Effect) -> bool {
    !matches!(effect, Effect::Event(_) | Effect::Lapse(..))
}

/// Replicates what happens to a lock, as `rules::encoding` writes it.
#[inline(always)]
fn send(ctx: &Ctx<'_>, key: Arg<'_>, state: &[u8]) {
    check(ctx, ctx.replicate_bytes(APPLY, key, state));
}

/// Warns if the server did not replicate an effect. An operator must know, because the replicas now differ, and the module can't repair
/// them.
fn check(ctx: &Ctx<'_>, sent: bool) {
    if !sent {
        ctx.log(LogLevel::Warning, "an effect could not be replicated: was LOCK.APPLY renamed?");
    }
}
