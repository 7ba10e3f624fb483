//! Several locks, open for one step.

use super::desk::{Closed, Desk};
use crate::error::Error;
use crate::server::{self, Arg, Ctx, Step};
use crate::waiting::Sites;

/// No two of them are the same lock.
pub(super) struct Desks<'a>(Vec<Desk<'a>>);

impl<'a> Desks<'a> {
    /// Opens these locks and runs a step on them; as `Desk::step`.
    pub(super) fn step<R>(
        ctx: &'a Ctx<'a>,
        keys: &[Arg<'a>],
        body: impl FnOnce(&mut Self) -> Result<R, Error>,
        due: impl FnOnce(&Ctx<'_>),
    ) -> Result<R, Error> {
        let step = Step::begin().ok_or(Error::Nested)?;
        let open = || keys.iter().map(|key| Desk::open(ctx, *key, true)).collect::<Result<_, _>>();
        let mut desks: Vec<_> = open()?;
        if server::is_disturbed() {
            desks = step.open_again(open)?.ok_or(Error::Disturbed)?;
        }
        let mut desks = Self(desks);
        let result = body(&mut desks);
        if server::is_disturbed() {
            desks.0.iter_mut().for_each(Desk::look_again);
        }
        // All are closed before anybody hears of one.
        let closed: Vec<Closed<'_>> = desks.0.into_iter().map(Desk::close).collect();
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

impl<'a> Sites for Desks<'a> {
    const SEVERAL: bool = true;
    type One = Desk<'a>;

    fn count(&self) -> usize {
        self.0.len()
    }

    fn lock(&mut self, number: usize) -> Option<&mut Desk<'a>> {
        self.0.get_mut(number)
    }
}
