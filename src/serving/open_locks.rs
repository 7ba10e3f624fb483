//! The locks that a command names, open for one step.

use super::open_lock::{Closed, OpenLock};
use crate::error::Error;
use crate::server::{self, Arg, Ctx, Step};
use crate::waiting::LocksAccess;

/// The argument of a command: one key, or several.
pub(crate) trait LockNames<'a>: Copy {
    type Locks: LocksAccess<One = OpenLock<'a>>;

    /// Opens these locks. `again`: earlier ones may still be open.
    fn open(self, ctx: &'a Ctx<'a>, again: bool) -> Result<Self::Locks, Error>;

    fn close(locks: Self::Locks) -> impl IntoIterator<Item = Closed<'a>>;

    /// Opens these locks and runs a step on them. Afterwards others are told what the step has done. Then `due` runs, if something may have
    /// fallen due.
    fn step<R>(
        self,
        ctx: &'a Ctx<'a>,
        body: impl FnOnce(&mut Self::Locks) -> Result<R, Error>,
        due: impl FnOnce(&Ctx<'_>),
    ) -> Result<R, Error> {
        let step = Step::begin().ok_or(Error::Nested)?;
        let mut locks = self.open(ctx, false)?;
        if server::is_disturbed() {
            // This assignment also closes the locks that were open before.
            locks = step.open_again(|| self.open(ctx, true))?.ok_or(Error::Disturbed)?;
        }
        let result = body(&mut locks);
        if server::is_disturbed() {
            locks.each(OpenLock::recheck_soon);
        }
        // All locks are closed before the events of any lock are published.
        let closed = Self::close(locks);
        drop(step);
        let mut lent = false;
        for closed in closed {
            lent |= closed.publish(ctx);
        }
        if lent {
            due(ctx);
        }
        result
    }
}

impl<'a> LockNames<'a> for Arg<'a> {
    type Locks = OpenLock<'a>;

    #[inline(always)]
    fn open(self, ctx: &'a Ctx<'a>, again: bool) -> Result<OpenLock<'a>, Error> {
        OpenLock::open(ctx, self, again)
    }

    #[inline(always)]
    fn close(lock: OpenLock<'a>) -> impl IntoIterator<Item = Closed<'a>> {
        Some(lock.close())
    }
}

/// Several locks, of which no two are the same.
pub(crate) struct OpenLocks<'a> {
    first: OpenLock<'a>,
    others: Vec<OpenLock<'a>>,
}

impl<'a> OpenLocks<'a> {
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpenLock<'a>> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

impl<'a> LockNames<'a> for &[Arg<'a>] {
    type Locks = OpenLocks<'a>;

    fn open(self, ctx: &'a Ctx<'a>, _again: bool) -> Result<OpenLocks<'a>, Error> {
        let (first, others) = self.split_first().ok_or(Error::Syntax)?;
        let open = |key: &Arg<'a>| OpenLock::open(ctx, *key, true);
        Ok(OpenLocks { first: open(first)?, others: others.iter().map(open).collect::<Result<_, _>>()? })
    }

    fn close(locks: OpenLocks<'a>) -> impl IntoIterator<Item = Closed<'a>> {
        let all = std::iter::once(locks.first).chain(locks.others);
        all.map(OpenLock::close).collect::<Vec<_>>()
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
