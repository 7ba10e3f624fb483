//! One step on open keys at a time, and what others do to those keys meanwhile.
//!
//! A key that has expired is deleted when it is opened, one that is written may be new, and the server tells other modules of both.
//! Those may do anything then, to any key: the value of an open one may be gone when the server returns to us. So nothing that is
//! known of an open key is trusted over that:
//!
//! - `Step::open_again` opens keys once more where something happened as they were opened;
//! - an open key whose value somebody else takes out is lost from that moment on (`OpenKey`): it looks absent, and nothing is done to it;
//! - whoever decides something new asks `is_disturbed` first;
//! - nobody begins a step within another one.
//!
//! The server tells the module of each lock that leaves the keyspace before it frees the value (`NativeType`). It also tells the module of
//! what expires, of databases that are swapped, and of a flush (`events`), but of that only when the values are gone.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use super::open_key;

/// How often keys are opened in vain.
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
    /// A step runs, and nothing has happened in the keyspace since its keys were opened that is not our doing.
    Quiet,
    /// A step runs, and something has.
    Disturbed,
}

// SAFETY: as `ServerCell`: only callbacks touch it, which the server runs one at a time under its global lock. (Not atomics: each
// step asks several times, and one that is asked costs another instruction.)
unsafe impl Sync for Now {}

/// The proof that a step runs.
pub(crate) struct Step(());

impl Step {
    /// Begins a step, before it opens keys. `None` if a step runs already: then another module calls this one in its midst.
    #[inline(always)]
    pub(crate) fn begin() -> Option<Self> {
        if NOW.phase.get() != Phase::Idle {
            return None;
        }
        NOW.phase.set(Phase::Quiet);
        Some(Self(()))
    }

    /// Opens keys again, where the step was disturbed as they were opened: the earlier ones are no more to be looked at. None where
    /// that happens each time.
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

/// Whether something has happened that is not our doing since the keys of the running step were opened.
#[inline(always)]
pub(crate) fn is_disturbed() -> bool {
    NOW.phase.get() == Phase::Disturbed
}

/// Something happens in the keyspace.
pub(super) fn disturb() {
    if NOW.phase.get() != Phase::Idle {
        NOW.phase.set(Phase::Disturbed);
    }
}

/// Deletes a value.
#[inline(always)]
pub(super) fn delete(value: *mut c_void, body: impl FnOnce()) {
    /// Whatever comes of the body: the address may be another value's next.
    struct End;
    impl Drop for End {
        #[inline(always)]
        fn drop(&mut self) {
            NOW.ours.set(ptr::null());
        }
    }
    NOW.ours.set(value);
    let _end = End;
    body();
}

/// Whether we are deleting that value.
#[inline(always)]
pub(super) fn is_ours(value: *const c_void) -> bool {
    ptr::eq(value, NOW.ours.get())
}

/// Somebody else is taking a value out of the keyspace.
pub(super) fn taken_out(value: *const c_void) {
    disturb();
    open_key::lose(value);
}

/// What a database held is elsewhere now, or nowhere; `None`: of all databases.
pub(super) fn emptied(db: Option<i32>) {
    disturb();
    open_key::lose_all(db);
}
