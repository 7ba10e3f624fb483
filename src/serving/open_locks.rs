//! Several locks, open for one step.

use super::open_lock::{Closed, OpenLock};
use crate::error::Error;
use crate::server::{self, Arg, Ctx, Step};
use crate::waiting::LocksAccess;

/// No two of them are the same lock.
pub(super) struct OpenLocks<'a>(Vec<OpenLock<'a>>);

impl<'a> OpenLocks<'a> {
    /// Opens these locks and runs a step on them; as `OpenLock::step`.
    pub(super) fn step<R>(
        ctx: &'a Ctx<'a>,
        keys: &[Arg<'a>],
        body: impl FnOnce(&mut Self) -> Result<R, Error>,
        due: impl FnOnce(&Ctx<'_>),
    ) -> Result<R, Error> {
        let step = Step::begin().ok_or(Error::Nested)?;
        let open = || keys.iter().map(|key| OpenLock::open(ctx, *key, true)).collect::<Result<_, _>>();
        let mut locks: Vec<_> = open()?;
        if server::is_disturbed() {
            locks = step.open_again(open)?.ok_or(Error::Disturbed)?;
        }
        let mut locks = Self(locks);
        let result = body(&mut locks);
        if server::is_disturbed() {
            locks.0.iter_mut().for_each(OpenLock::look_again);
        }
        // All are closed before anybody hears of one.
        let closed: Vec<Closed<'_>> = locks.0.into_iter().map(OpenLock::close).collect();
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

impl<'a> LocksAccess for OpenLocks<'a> {
    const SEVERAL: bool = true;
    type One = OpenLock<'a>;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn lock(&mut self, number: usize) -> Option<&mut OpenLock<'a>> {
        self.0.get_mut(number)
    }
}
