//! Timers of the server's event loop.

use std::ffi::{CStr, c_void};

use redis_module::raw;

use super::Ctx;
use super::context::detached;
use super::guard::guard;

/// The work of a timer.
pub(crate) trait TimerTask: Sized {
    const NAME: &'static CStr;

    fn run(ctx: &Ctx<'_>);

    /// After a panic of `run`, sets the timer again, because otherwise the task might never run again.
    fn run_again() {
        Timer::after::<Self>(AFTER_PANIC);
    }
}

/// The time in ms after which a timer whose task panicked fires again. The pause is long, because the cause of the panic may still be
/// there.
pub(crate) const AFTER_PANIC: i64 = 100;

/// The longest delay of a timer in ms: a day. The server multiplies the delay without a check, and an overflow would stop all its timers.
const LONGEST: i64 = 86_400_000;

/// A timer that has not fired yet.
pub(crate) struct Timer(raw::RedisModuleTimerID);

impl Timer {
    /// Sets a timer that fires after this many ms, but after a day at most. After 0 ms, the timer fires when the commands that have already
    /// arrived are done, before their replies are sent. Dropping the value does not stop the timer.
    pub(crate) fn after<A: TimerTask>(delay: i64) -> Self {
        // SAFETY: the context is valid as long as the module is loaded. The timer carries no data.
        let id = unsafe {
            api!(RedisModule_CreateTimer(
                detached(),
                delay.clamp(0, LONGEST),
                Some(run::<A>),
                std::ptr::null_mut()
            ))
        };
        Self(id)
    }

    /// Stops the timer. This method must not be called while the timer fires.
    pub(crate) fn stop(self) {
        // SAFETY: the context is valid as long as the module is loaded. The server returns an error for a timer that it does not know.
        unsafe { api!(RedisModule_StopTimer(detached(), self.0, std::ptr::null_mut())) };
    }
}

/// # Safety
/// Only the server calls this function, with a context that is valid until it returns.
unsafe extern "C" fn run<A: TimerTask>(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    fire::<A>(&ctx);
}

/// Runs the task, as its timer would. After a panic, sets the timer again.
pub(crate) fn fire<A: TimerTask>(ctx: &Ctx<'_>) {
    if guard(A::NAME, || A::run(ctx)).is_none() {
        guard(A::NAME, A::run_again);
    }
}
