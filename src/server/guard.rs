//! Keeps panics away from the server, because a panic that crossed the C boundary would end the process.

use std::cell::RefCell;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use super::LogLevel;
use super::log::log;

thread_local! {
    /// The message of this thread's last panic, and its place in the source.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of a callback. If the body panics, returns `None`, and logs the callback's name and the panic's message.
///
/// Later callbacks see the state that a panic left behind, so a callback should change state last.
pub(super) fn guard<R>(callback: &'static CStr, body: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(debug_assertions)]
        super::faults::strike(callback);
        body()
    }));
    // The report may panic, too, because a fuzzer has no server with a log. Then nothing can report the panic.
    result.map_err(|_| catch_unwind(AssertUnwindSafe(|| report(callback)))).ok()
}

/// Keeps the messages of panics for the server's log, because the server's standard error often goes nowhere. Must be called before the
/// first callback, but after the module got the server's allocator.
pub(super) fn note_panics() {
    set_hook(Box::new(|panic| LAST_PANIC.set(panic.to_string())));
}

#[cold]
fn report(callback: &CStr) {
    let message = LAST_PANIC.take().replace('\n', " ");
    let line = format!("internal error in {}: {message}", callback.to_string_lossy());
    log(std::ptr::null_mut(), LogLevel::Warning, &line);
}
