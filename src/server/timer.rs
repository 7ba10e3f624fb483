//! Timers of the server's event loop.

use std::ffi::{CStr, c_void};

use redis_module::raw;

use super::guard::guard;
use super::{Ctx, detached};

/// The work of a timer.
pub(crate) trait TimerTask: Sized {
    const NAME: &'static CStr;

    fn run(ctx: &Ctx<'_>);

    /// Called if `run` panicked. Sets the timer again, since otherwise the task might never run again.
    fn run_again() {
        Timer::after::<Self>(AFTER_PANIC);
    }
}

/// How long, in ms, to wait before a timer whose task panicked fires again. The cause may still be there.
pub(crate) const AFTER_PANIC: i64 = 100;

/// The longest delay in ms, a day. The server multiplies the delay without a check, and an overflow would stop all its timers.
const LONGEST: i64 = 86_400_000;

/// A timer that has not fired yet.
pub(crate) struct Timer(raw::RedisModuleTimerID);

impl Timer {
    /// Sets a timer that fires after this many ms, but after a day at most. With 0, the timer fires when the commands that have already
    /// arrived are done, before their replies are sent. Dropping the value does not stop the timer.
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

    /// Stops the timer. Must not be called while it fires.
    pub(crate) fn stop(self) {
        // SAFETY: the context is valid as long as the module is loaded. The server returns an error for a timer that it does not know. No
        // data is asked for.
        unsafe { api!(RedisModule_StopTimer(detached::context(), self.0, std::ptr::null_mut())) };
    }
}

/// # Safety
/// Called by the server, with a context that is valid until it returns.
unsafe extern "C" fn run<A: TimerTask>(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    fire::<A>(&ctx);
}

/// Does what a timer does when its time has come.
pub(crate) fn fire<A: TimerTask>(ctx: &Ctx<'_>) {
    if guard(A::NAME, || A::run(ctx)).is_none() {
        guard(A::NAME, A::run_again);
    }
}
