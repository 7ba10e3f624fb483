//! Deliberate faults for tests: in a debug build, a callback panics if its name has been set here.

// To panic is the purpose of this file.
#![allow(clippy::panic)]

use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of the callback that is to panic; empty: none. It is a mutex, since some callbacks run on other threads.
static ARMED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The name of the callback that is to panic next, to be read or set.
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
