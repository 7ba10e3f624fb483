//! A cell for the module's global state.

use std::cell::RefCell;

/// A global value that only callbacks of the server use.
///
/// A `Mutex` would not do, because callbacks nest (deleting a key calls the type's `unlink`): a second lock would hang the server, while a
/// second borrow panics, and the guard turns the panic into an error. A `thread_local!` would not do, because another module may call our
/// commands from its own thread, under the server's lock, and must find the same state.
pub(crate) struct ServerCell<T>(RefCell<T>);

// SAFETY: the server runs callbacks one at a time under its global lock, on whichever thread, and only callbacks call `with`, the only
// access to the state. A type's `free` is the one callback that may run on a background thread, beside others; it gets nothing but the
// value to drop.
unsafe impl<T: Send> Sync for ServerCell<T> {}

impl<T> ServerCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Runs `body` on the state. `body` must not call the server, because a callback may need the state, too.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}
