//! Keeps panics out of the server: a panic that crossed the C boundary would end the process.

use std::cell::RefCell;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use super::LogLevel;
use super::log::log;

thread_local! {
    /// The message and the place in the source of this thread's last panic.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of a callback. Returns `None` if the body panicked; the log then has the callback's name and the panic's message.
///
/// Later callbacks see the state that a panic left behind, so callbacks change state last.
pub(super) fn guard<R>(callback: &'static CStr, body: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(debug_assertions)]
        super::faults::strike(callback);
        body()
    }));
    // The report needs the server too. If the server has no log, the panic can't be reported.
    result.map_err(|_| catch_unwind(AssertUnwindSafe(|| report(callback)))).ok()
}

/// Keeps the messages of panics for the server's log, since the server's standard error often goes nowhere. Called before the first
/// callback, but not before the server's allocator is there.
pub(super) fn note_panics() {
    set_hook(Box::new(|panic| SAID.set(panic.to_string())));
}

#[cold]
fn report(callback: &CStr) {
    let said = SAID.take().replace('\n', " ");
    let line = format!("internal error in {}: {said}", callback.to_string_lossy());
    log(std::ptr::null_mut(), LogLevel::Warning, &line);
}
