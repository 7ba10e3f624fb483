//! Keeps panics out of the server: one that crossed the C boundary would end the process.

use std::cell::RefCell;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use super::LogLevel;
use super::log::log;

thread_local! {
    /// What the last panic of this thread said, and where.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of a callback; `None` where it panicked. The log then has the callback's name, and what the panic said.
///
/// The state that the body touched is seen again after a panic, which is why callbacks mutate last.
pub(super) fn guard<R>(callback: &'static CStr, body: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(debug_assertions)]
        super::faults::strike(callback);
        body()
    }));
    // To report it needs the server too; where it has no log, nobody can be told.
    result.map_err(|_| catch_unwind(AssertUnwindSafe(|| report(callback)))).ok()
}

/// Has panics noted down for the log of the server, whose standard error often goes nowhere. From before the first callback
/// on, but not before the server's allocator is there.
pub(super) fn note_panics() {
    set_hook(Box::new(|panic| SAID.set(panic.to_string())));
}

#[cold]
fn report(callback: &CStr) {
    let said = SAID.take().replace('\n', " ");
    let line = format!("internal error in {}: {said}", callback.to_string_lossy());
    log(std::ptr::null_mut(), LogLevel::Warning, &line);
}
