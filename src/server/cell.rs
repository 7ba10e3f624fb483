//! The module's own state in memory.

use std::cell::RefCell;

/// A global that only callbacks of the server touch.
///
/// Not a `Mutex`: callbacks nest (deleting a key calls the type's `unlink`), and a second lock would hang the server,
/// where a second borrow is a panic that the guard turns into an error. Not a `thread_local!`: another module may
/// call our commands from its own thread, under the server's lock, and must find the same state.
pub(crate) struct ServerCell<T>(RefCell<T>);

// SAFETY: the server runs callbacks one at a time under its global lock, whichever the thread, and the state is
// reached through `with` only, which callbacks alone call. The one callback that may run beside others, on a
// background thread, is a type's `free`; `NativeType` gives it nothing but the value to drop.
unsafe impl<T: Send> Sync for ServerCell<T> {}

impl<T> ServerCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Runs `body` on the state. It must not call back into the server: what the server calls in turn may need
    /// the state too.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}
