//! Faults on purpose, in a build of its own for tests (`--features faults`): `LOCK.FAULT [callback]`.
//!
//! With a name, the next callback of that name panics before it does anything: `lock.release`, `reply`, `alarms`, `rdb-save`, ...
//! Each answers with the fault that has not struck yet, or nothing.

// What this is for.
#![allow(clippy::panic)]

use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use super::{Arg, Args, Argument, Command, Ctx, Definition, ErrorReply, KeyUse};

/// The name of the callback that is to panic; empty: none. Some callbacks have threads of their own.
static ARMED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Panics, once, where that callback is to.
pub(super) fn strike(callback: &CStr) {
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    if *armed == callback.to_bytes() {
        armed.clear();
        drop(armed);
        panic!("a fault that was asked for");
    }
}

pub(crate) struct Fault;

/// It refuses nothing.
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
        key: KeyUse { tells: false, change: None },
        arguments: &[Argument::text(c"callback").optional()],
    };
    type Error = Never;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Never> {
        let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(callback) = args.get(1).map(Arg::bytes) {
            *armed = callback.to_vec();
        }
        ctx.reply_bytes(&armed);
        Ok(())
    }
}
