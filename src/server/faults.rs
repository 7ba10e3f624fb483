//! Deliberate faults for tests: in a debug build, a test can name a callback (`LOCK.FAULT`), and the next call of this callback panics.

// The purpose of this file is to panic.
#![allow(clippy::panic)]

use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of the callback that has yet to panic, or an empty name. A mutex protects the name, because some callbacks run on other
/// threads.
static ARMED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Returns the name of the callback that has yet to panic. The caller may read or set the name.
pub(super) fn armed() -> MutexGuard<'static, Vec<u8>> {
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
