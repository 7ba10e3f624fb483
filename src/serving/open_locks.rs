//! One or several locks that a command names, open for one step (see `open_lock`).

use super::open_lock::{Closed, OpenLock};
use crate::error::Error;
use crate::server::{self, Arg, Ctx, Step};
use rules::waiting::LocksAccess;

/// The keys that a command names: one key, or several.
pub(crate) trait LockNames<'a> {
    type Locks: LocksAccess<One = OpenLock<'a>>;

    /// Opens the locks, runs the step `body` on them, and publishes the step's events. Then runs `due`, at least if work may be due.
    fn step<R>(
        self,
        ctx: &'a Ctx<'a>,
        body: impl FnOnce(&mut Self::Locks) -> Result<R, Error>,
        due: impl FnOnce(&Ctx<'_>),
    ) -> Result<R, Error>;
}

impl<'a> LockNames<'a> for Arg<'a> {
    type Locks = OpenLock<'a>;

    #[inline(always)]
    fn step<R>(
        self,
        ctx: &'a Ctx<'a>,
        body: impl FnOnce(&mut OpenLock<'a>) -> Result<R, Error>,
        due: impl FnOnce(&Ctx<'_>),
    ) -> Result<R, Error> {
        OpenLock::step(ctx, self, body, due)
    }
}

/// Several different locks that are open for one step.
pub(crate) struct OpenLocks<'a> {
    first: OpenLock<'a>,
    others: Vec<OpenLock<'a>>,
}

impl<'a> OpenLocks<'a> {
    fn open(ctx: &'a Ctx<'a>, keys: &[Arg<'a>]) -> Result<Self, Error> {
        let (first, others) = keys.split_first().ok_or(Error::TooFewKeys)?;
        let open = |key: &Arg<'a>| OpenLock::open(ctx, *key, true);
        Ok(Self { first: open(first)?, others: others.iter().map(open).collect::<Result<_, _>>()? })
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpenLock<'a>> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

impl<'a> LockNames<'a> for &[Arg<'a>] {
    type Locks = OpenLocks<'a>;

    fn step<R>(
        self,
        ctx: &'a Ctx<'a>,
        body: impl FnOnce(&mut OpenLocks<'a>) -> Result<R, Error>,
        due: impl FnOnce(&Ctx<'_>),
    ) -> Result<R, Error> {
        let step = Step::begin().ok_or(Error::Nested)?;
        let mut locks = OpenLocks::open(ctx, self)?;
        if server::is_disturbed() {
            locks = step.open_again(|| OpenLocks::open(ctx, self))?.ok_or(Error::Disturbed)?;
        }
        let result = body(&mut locks);
        if server::is_disturbed() {
            locks.iter_mut().for_each(OpenLock::recheck_soon);
        }
        // All locks are closed before any event is published, because other modules may change keys when they hear of an event.
        let all = std::iter::once(locks.first).chain(locks.others);
        let closed: Vec<Closed<'_>> = all.map(OpenLock::close).collect();
        drop(step);
        closed.into_iter().for_each(|closed| _ = closed.publish(ctx));
        due(ctx);
        result
    }
}

impl<'a> LocksAccess for OpenLocks<'a> {
    const SEVERAL: bool = true;
    type One = OpenLock<'a>;
    type Each<T> = Vec<T>;

    fn try_each<T, E>(&mut self, body: impl FnMut(&mut OpenLock<'a>) -> Result<T, E>) -> Result<Vec<T>, E> {
        self.iter_mut().map(body).collect()
    }

    fn try_with<T, U, E>(
        &mut self,
        each: &Vec<T>,
        mut body: impl FnMut(&mut OpenLock<'a>, &T) -> Result<U, E>,
    ) -> Result<Vec<U>, E> {
        debug_assert_eq!(each.len(), 1 + self.others.len());
        self.iter_mut().zip(each).map(|(lock, of_it)| body(lock, of_it)).collect()
    }

    fn all<T>(each: &Vec<T>) -> &[T] {
        each
    }

    fn lock(&mut self, number: usize) -> &mut OpenLock<'a> {
        debug_assert!(number <= self.others.len(), "there are fewer locks");
        let other = number.checked_sub(1).and_then(|number| self.others.get_mut(number));
        other.unwrap_or(&mut self.first)
    }
}
