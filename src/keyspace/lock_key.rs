//! One lock in the keyspace. Every change goes through here: stored, told to replicas and files, shown to `WATCH`.

use super::{effects, lapses};
use crate::lock::{Deadline, Grant, Held};
use crate::server::{Arg, Ctx, Key, WrongType};

/// A key that holds a lock, or nothing.
pub(crate) struct LockKey<'a>(Key<'a, Grant>);

impl<'a> LockKey<'a> {
    /// Opens a lock for a command that may change it. A lapsed one is deleted first, by the server.
    pub(crate) fn write(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        Ok(Self(Key::write(ctx, name)?))
    }

    /// Opens a lock to look at it.
    pub(crate) fn read(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        Ok(Self(Key::read(ctx, name)?))
    }

    pub(crate) fn name(&self) -> Arg<'a> {
        self.0.name()
    }

    /// The grant and its lease; none where the lock is free.
    pub(crate) fn held(&self) -> Option<Held<'_>> {
        let grant = self.grant()?;
        Some(Held { grant, deadline: self.deadline() })
    }

    /// The end of the lease, which the server has to look up.
    pub(crate) fn deadline(&self) -> Deadline {
        self.0.expires_at().map_or(Deadline::Never, Deadline::At)
    }

    /// The grant; none where the lock is free.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.0.value()
    }

    /// Gives the lock to somebody.
    pub(crate) fn grant_to(&mut self, ctx: &Ctx<'_>, grant: Grant, deadline: Deadline) {
        effects::held(ctx, self.0.name(), &grant, deadline);
        self.store(ctx, grant, deadline);
    }

    /// Stores what a primary told, and tells nobody.
    pub(crate) fn store(&mut self, ctx: &Ctx<'_>, grant: Grant, deadline: Deadline) {
        match self.0.value_mut() {
            Some(value) => *value = grant.aged_as(value),
            None => self.0.set_value(grant),
        }
        self.set_deadline(deadline);
        ctx.signal_modified(self.0.name());
    }

    /// Changes holds and lease of the grant; nothing at all where they are that already.
    pub(crate) fn update(&mut self, ctx: &Ctx<'_>, holds: u32, deadline: Deadline) {
        let name = self.0.name();
        let Some(Held { grant, deadline: old_deadline }) = self.held() else { return };
        if grant.holds() == holds && old_deadline == deadline {
            return;
        }
        if grant.holds() == holds {
            effects::lease(ctx, name, deadline);
        } else if let Some(grant) = self.0.value_mut() {
            grant.set_holds(holds);
            effects::held(ctx, name, grant, deadline);
        }
        if old_deadline != deadline {
            self.set_deadline(deadline);
        }
        ctx.signal_modified(self.0.name());
    }

    /// Moves the lease as a primary told, and tells nobody; nothing where the lock is free.
    pub(crate) fn store_lease(&mut self, ctx: &Ctx<'_>, deadline: Deadline) {
        if self.0.value().is_some() {
            self.set_deadline(deadline);
            ctx.signal_modified(self.0.name());
        }
    }

    /// Ends the grant.
    pub(crate) fn free(&mut self, ctx: &Ctx<'_>) {
        effects::free(ctx, self.0.name());
        self.remove(ctx);
    }

    /// Removes what a primary told to remove, and tells nobody.
    pub(crate) fn remove(&mut self, ctx: &Ctx<'_>) {
        lapses::none_in(|| self.0.delete());
        ctx.signal_modified(self.0.name());
    }

    fn set_deadline(&mut self, deadline: Deadline) {
        self.0.set_expires_at(match deadline {
            Deadline::At(at) => Some(at),
            Deadline::Never => None,
        });
    }
}
