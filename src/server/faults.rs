//! `LOCK.FAULT [callback]`, which only debug builds have, for tests.
//!
//! Makes a callback of the module panic at its next call, before the callback does anything. The argument is the name of the callback:
//! `lock.release`, `reply`, `due-work`, `rdb-save`, ... Replies with the name of the callback that has yet to panic, or with an empty text
//! if no callback has to.

// The purpose of this file is to panic.
#![allow(clippy::panic)]

use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Arg, Args, Argument, Command, Ctx, Definition, ErrorReply, KeyUse, Keys};

/// The name of the callback that has yet to panic, or an empty name. A mutex protects the name, because some callbacks run on other
/// threads.
static ARMED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Returns the name of the callback that has yet to panic. The caller may read or set the name.
fn armed() -> MutexGuard<'static, Vec<u8>> {
    ARMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Panics, once, if the test has asked for a panic in this callback.
pub(super) fn strike(callback: &CStr) {
    let mut armed = armed();
    if *armed == callback.to_bytes() {
        armed.clear();
        drop(armed);
        panic!("a fault that was asked for");
    }
}

pub(crate) struct Fault;

/// The error type of a command that never fails.
pub(crate) enum Never {}

impl ErrorReply for Never {
    fn send(&self, _ctx: &Ctx<'_>) {}
}

impl Command for Fault {
    const DEFINITION: Definition = Definition {
        name: c"lock.fault",
        summary: c"Has the next callback of that name panic, for tests.",
        complexity: c"O(1)",
        since: c"0.1.0",
        flags: c"admin",
        acl: &[c"admin", c"dangerous"],
        tips: c"",
        key: KeyUse { keys: Keys::First, tells: false, change: None },
        arguments: &[Argument::text(c"callback").optional()],
    };
    type Error = Never;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Never> {
        let mut armed = armed();
        if let Some(callback) = args.get(1).map(Arg::bytes) {
            *armed = callback.to_vec();
        }
        ctx.reply_bytes(&armed);
        Ok(())
    }
}
