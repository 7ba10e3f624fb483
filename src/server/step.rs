//! Steps: work on open keys, one step at a time, even if other modules change these keys meanwhile.
//!
//! Opening an expired key deletes it, and writing a key may make a new one. The server tells other modules of both, and they may then do
//! anything to any key: when the server returns to us, the value of an open key may be gone. So what is known of an open key is not trusted
//! after such a call:
//!
//! - `Step::open_again` opens keys once more if something happened while they were opened;
//! - an open key whose value somebody else takes out is lost from that moment on (`OpenKey`): it looks absent, and is not changed;
//! - code that decides something new asks `is_disturbed` first;
//! - no step begins within another step.
//!
//! The server tells the module of each lock that leaves the keyspace before it frees the value (`NativeType`). It also tells of expired
//! keys, swapped databases and flushes (`events`), but of flushes only when the values are gone.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use super::open_key;

/// How often keys are opened before the step fails.
const TRIES: usize = 3;

static NOW: Now = Now { phase: Cell::new(Phase::Idle), ours: Cell::new(ptr::null()) };

struct Now {
    phase: Cell<Phase>,
    /// The value that we are deleting.
    ours: Cell<*const c_void>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No step runs.
    Idle,
    /// A step runs, and since its keys were opened, nobody else has changed the keyspace.
    Quiet,
    /// A step runs, and somebody else has changed the keyspace.
    Disturbed,
}

// SAFETY: as for `ServerCell`: only callbacks touch it, which the server runs one at a time under its global lock. (Atomics would cost
// another instruction for each access, and each step makes several.)
unsafe impl Sync for Now {}

/// The proof that a step runs.
pub(crate) struct Step(());

impl Step {
    /// Begins a step, before it opens keys. Returns `None` if a step runs already, which means that another module called this module in
    /// the middle of a step.
    #[inline(always)]
    pub(crate) fn begin() -> Option<Self> {
        if NOW.phase.get() != Phase::Idle {
            return None;
        }
        NOW.phase.set(Phase::Quiet);
        Some(Self(()))
    }

    /// Opens keys again after the step was disturbed while they were opened. The keys that were opened before must not be used any more.
    /// Returns `None` if the step is disturbed each time.
    #[cold]
    #[inline(never)]
    pub(crate) fn open_again<K, E>(&self, mut open: impl FnMut() -> Result<K, E>) -> Result<Option<K>, E> {
        for _ in 1..TRIES {
            NOW.phase.set(Phase::Quiet);
            let keys = open()?;
            if !is_disturbed() {
                return Ok(Some(keys));
            }
        }
        Ok(None)
    }
}

impl Drop for Step {
    #[inline(always)]
    fn drop(&mut self) {
        NOW.phase.set(Phase::Idle);
    }
}

/// Whether somebody else has changed the keyspace since the keys of the running step were opened.
#[inline(always)]
pub(crate) fn is_disturbed() -> bool {
    NOW.phase.get() == Phase::Disturbed
}

/// Notes that somebody changes the keyspace.
pub(super) fn disturb() {
    if NOW.phase.get() != Phase::Idle {
        NOW.phase.set(Phase::Disturbed);
    }
}

/// Runs `body`, which deletes this value.
#[inline(always)]
pub(super) fn delete(value: *mut c_void, body: impl FnOnce()) {
    /// Clears `ours`, even if `body` panics: another value may get this address next.
    struct Clear;
    impl Drop for Clear {
        #[inline(always)]
        fn drop(&mut self) {
            NOW.ours.set(ptr::null());
        }
    }
    NOW.ours.set(value);
    let _clear = Clear;
    body();
}

/// Whether this is the value that we are deleting.
#[inline(always)]
pub(super) fn is_ours(value: *const c_void) -> bool {
    ptr::eq(value, NOW.ours.get())
}

/// Notes that somebody else is taking a value out of the keyspace.
pub(super) fn taken_out(value: *const c_void) {
    disturb();
    open_key::lose(value);
}

/// Notes that the values of a database are gone, or in another database; `None`: of all databases.
pub(super) fn emptied(db: Option<i32>) {
    disturb();
    open_key::lose_all(db);
}
