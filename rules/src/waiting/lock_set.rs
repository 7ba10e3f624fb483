//! The locks of a request as a set, so that each rule is written only once, for one lock and for several.

use std::convert::Infallible;

use super::access::{Environment, LockAccess};
use super::table::{LockRef, WaitTable};

/// The locks of a request, whose keys a command or a timer has opened for one step. A single lock (`LockAccess`) also counts as a set.
pub trait LocksAccess {
    /// Whether the set comes from a command for several locks, even if it names only one.
    const SEVERAL: bool;

    type One: LockAccess;

    /// One value for each lock, in the order of the locks. For a single lock this is the value itself, to avoid a list.
    type Each<T>;

    /// Runs `body` on each lock, until `body` fails.
    fn try_each<T, E>(
        &mut self,
        body: impl FnMut(&mut Self::One) -> Result<T, E>,
    ) -> Result<Self::Each<T>, E>;

    /// Runs `body` on each lock and its value in `each`, until `body` fails.
    fn try_with<T, U, E>(
        &mut self,
        each: &Self::Each<T>,
        body: impl FnMut(&mut Self::One, &T) -> Result<U, E>,
    ) -> Result<Self::Each<U>, E>;

    fn all<T>(each: &Self::Each<T>) -> &[T];

    /// Returns the lock with this number, from 0.
    fn lock(&mut self, number: usize) -> &mut Self::One;

    #[inline(always)]
    fn each<T>(&mut self, mut body: impl FnMut(&mut Self::One) -> T) -> Self::Each<T> {
        let Ok(each) = self.try_each(|lock| Ok::<T, Infallible>(body(lock)));
        each
    }

    #[inline(always)]
    fn with<T, U>(
        &mut self,
        each: &Self::Each<T>,
        mut body: impl FnMut(&mut Self::One, &T) -> U,
    ) -> Self::Each<U> {
        let Ok(each) = self.try_with(each, |lock, of_it| Ok::<U, Infallible>(body(lock, of_it)));
        each
    }

    /// Returns the first lock, for work that concerns all locks.
    #[inline(always)]
    fn first(&mut self) -> &mut Self::One {
        self.lock(0)
    }

    /// Runs `body` on the table, with the names of all these locks.
    fn here_all<R>(
        &mut self,
        body: impl FnOnce(&mut WaitTable<<Self::One as Environment>::Client>, &[LockRef<'_>]) -> R,
    ) -> R {
        let names = self.each(|lock| (lock.db(), lock.key()));
        let names = Self::all(&names).iter();
        let all: Vec<LockRef<'_>> = names.map(|(db, key)| LockRef { db: *db, key: key.as_ref() }).collect();
        self.first().table(|table| body(table, &all))
    }
}

impl<S: LockAccess> LocksAccess for S {
    const SEVERAL: bool = false;
    type One = S;
    type Each<T> = T;

    #[inline(always)]
    fn try_each<T, E>(&mut self, mut body: impl FnMut(&mut S) -> Result<T, E>) -> Result<T, E> {
        body(self)
    }

    #[inline(always)]
    fn try_with<T, U, E>(
        &mut self,
        each: &T,
        mut body: impl FnMut(&mut S, &T) -> Result<U, E>,
    ) -> Result<U, E> {
        body(self, each)
    }

    #[inline(always)]
    fn each<T>(&mut self, mut body: impl FnMut(&mut S) -> T) -> T {
        body(self)
    }

    #[inline(always)]
    fn with<T, U>(&mut self, each: &T, mut body: impl FnMut(&mut S, &T) -> U) -> U {
        body(self, each)
    }

    #[inline(always)]
    fn all<T>(each: &T) -> &[T] {
        std::slice::from_ref(each)
    }

    #[inline(always)]
    fn lock(&mut self, number: usize) -> &mut S {
        debug_assert_eq!(number, 0, "there is one lock");
        self
    }

    fn here_all<R>(&mut self, body: impl FnOnce(&mut WaitTable<S::Client>, &[LockRef<'_>]) -> R) -> R {
        self.here(|table, at| body(table, &[at]))
    }
}
