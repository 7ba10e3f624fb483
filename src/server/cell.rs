//! A cell for the module's global state.

use std::cell::{RefCell, RefMut};

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
