//! What all callbacks need: a guard that keeps panics away from the server (a panic that crossed the C boundary would end the process), a
//! cell for the module's global state, and the server's log.

use std::cell::{RefCell, RefMut};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};

use redis_module::raw;

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

/// The level of a line in the server's log.
#[derive(Clone, Copy)]
pub(crate) enum LogLevel {
    Verbose,
    Notice,
    Warning,
}

/// Writes a line to the server's log. Control characters, which would end or break the line, are escaped.
pub(super) fn log(ctx: *mut raw::RedisModuleCtx, level: LogLevel, line: &str) {
    let level = match level {
        LogLevel::Verbose => c"verbose",
        LogLevel::Notice => c"notice",
        LogLevel::Warning => c"warning",
    };
    let mut text = String::with_capacity(line.len() + 1);
    // Nearly all lines need no escape, and take this fast path. Work on a line is often in vain, because the server's `loglevel` keeps most
    // lines out of the log.
    if line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        text.push_str(line);
    } else {
        for character in line.chars() {
            match character {
                control if control.is_control() => text.extend(control.escape_default()),
                other => text.push(other),
            }
        }
    }
    text.push('\0');
    // SAFETY: the server takes a null context or a valid one. Level, format and text end in NUL, and the format takes one string. The text
    // has no other NUL, because control characters are escaped.
    unsafe { api!(RedisModule_Log(ctx, level.as_ptr(), c"%s".as_ptr(), text.as_ptr())) };
}

/// A global value that only callbacks, which the server runs, use.
///
/// A `Mutex` would not do, because callbacks nest (deleting a key calls the type's `unlink`). A second lock by the same thread would hang
/// the server, while a second borrow of a `RefCell` panics, and `guard` turns the panic into an error. A `thread_local!` would not do,
/// because another module may call our commands from its own thread, under the server's lock, and must find the same state.
pub(crate) struct ServerCell<T>(RefCell<T>);

// SAFETY: the server runs callbacks one at a time under its global lock, on whichever thread, and only callbacks call `with` and `lend`, the
// only access to the state. Only a type's `free` may run on a background thread at the same time as other callbacks, but `free` only drops a
// value, and calls neither.
unsafe impl<T: Send> Sync for ServerCell<T> {}

impl<T> ServerCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Lends the state. Until it is given back, the server must not be called, as in `with`.
    pub(crate) fn lend(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }

    /// Runs `body` on the state. `body` must not call the server, because the server may then run a callback that needs the state, too.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}
