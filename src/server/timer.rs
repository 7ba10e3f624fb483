//! Timers of the server's event loop.

use std::ffi::{CStr, c_void};

use redis_module::raw;

use super::guard::guard;
use super::{Ctx, detached};

/// What a timer does when its time has come.
pub(crate) trait TimerTask: Sized {
    const NAME: &'static CStr;

    fn run(ctx: &Ctx<'_>);

    /// `run` panicked, and may have set no timer: without one, nothing would ever run again.
    fn run_again() {
        Timer::after::<Self>(AFTER_PANIC);
    }
}

/// How long, in ms, to wait before a timer that panicked fires again: the cause may be there still.
pub(crate) const AFTER_PANIC: i64 = 100;

/// The longest delay in ms, a day: the server multiplies without a check, and one that wraps stops all its timers.
const LONGEST: i64 = 86_400_000;

/// A timer that has not fired yet.
pub(crate) struct Timer(raw::RedisModuleTimerID);

impl Timer {
    /// A timer that fires in that many ms, or in a day if that is less: with 0, once the commands that have already arrived are done and
    /// before their replies are sent. Dropping it does not stop it.
    pub(crate) fn after<A: TimerTask>(delay: i64) -> Self {
        // SAFETY: the context is valid as long as the module is loaded. The timer carries no data.
        let id = unsafe {
            api!(RedisModule_CreateTimer(
                detached::context(),
                delay.clamp(0, LONGEST),
                Some(run::<A>),
                std::ptr::null_mut()
            ))
        };
        Self(id)
    }

    /// Stops it. Not to be called while it fires.
    pub(crate) fn stop(self) {
        // SAFETY: the context is valid as long as the module is loaded; a timer that the server does not know is an
        // error that it answers. No data is asked back.
        unsafe { api!(RedisModule_StopTimer(detached::context(), self.0, std::ptr::null_mut())) };
    }
}

/// # Safety
/// Called by the server, with a context that is valid until it returns.
unsafe extern "C" fn run<A: TimerTask>(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the server gave it to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    if guard(A::NAME, || A::run(&ctx)).is_none() {
        guard(A::NAME, A::run_again);
    }
}
