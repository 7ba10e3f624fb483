//! The module's own state in memory.

use std::cell::RefCell;

/// A global value that only callbacks of the server use.
///
/// It is not a `Mutex`, since callbacks nest (deleting a key calls the type's `unlink`): a second lock would hang the server, while a
/// second borrow is a panic, which the guard turns into an error. It is not a `thread_local!`, since another module may call our commands
/// from its own thread, under the server's lock, and must find the same state.
pub(crate) struct ServerCell<T>(RefCell<T>);

// SAFETY: the server runs callbacks one at a time under its global lock, on whichever thread, and only callbacks call `with`, the only way
// to the state. The one callback that may run beside others, on a background thread, is a type's `free`; `NativeType` gives it nothing but
// the value to drop.
unsafe impl<T: Send> Sync for ServerCell<T> {}

impl<T> ServerCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Runs `body` on the state. `body` must not call the server, since a callback may need the state too.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}
