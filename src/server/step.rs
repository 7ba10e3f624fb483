//! Steps. A step is the work of one command or timer on open keys, and stays correct even if other modules change these keys meanwhile.
//! Steps run one at a time.
//!
//! Opening an expired key deletes it, and writing may make a new key. The server tells other modules of both, and these modules may then do
//! anything to any key. When the server returns to us, the value of an open key may be gone. So after such a call, a step does not rely on
//! its earlier knowledge about an open key:
//!
//! - `Step::open_again` opens the keys once more if something else changed keys while the step opened them;
//! - an open key whose value something else removes is lost from then on (`OpenKey`): the key looks absent, and the step does not change
//!   it;
//! - code that grants something new first checks `is_disturbed` (whether something else has changed keys);
//! - no step begins within another step.
//!
//! Before the server frees the value of a lock, it reports that the value leaves the keyspace (see `native_type`). The server also reports
//! expired keys, swapped databases and flushes (see `events`), but it reports a flush only after the values are gone.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use super::open_key;

/// How many times a step opens its keys before it fails.
const TRIES: usize = 3;

static NOW: Now = Now { phase: Cell::new(Phase::Idle), ours: Cell::new(ptr::null()) };

struct Now {
    phase: Cell<Phase>,
    /// The value that the module itself is deleting.
    ours: Cell<*const c_void>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No step runs.
    Idle,
    /// A step runs, and nothing else has changed the keyspace since the step began to open its keys.
    Quiet,
    /// A step runs, and something else has changed the keyspace since the step began to open its keys.
    Disturbed,
}

// SAFETY: as for `ServerCell`: only callbacks use this value, and the server runs callbacks one at a time under its global lock. (Atomics
// would cost one more instruction for each access, and each step makes several accesses.)
unsafe impl Sync for Now {}

/// The proof that a step runs, during which no other step can begin.
pub(crate) struct Step(());

impl Step {
    /// Begins a step. Must be called before the step opens its keys. Returns `None` if a step already runs, because another module called
    /// this module in the middle of a step.
    #[inline(always)]
    pub(crate) fn begin() -> Option<Self> {
        if NOW.phase.get() != Phase::Idle {
            return None;
        }
        NOW.phase.set(Phase::Quiet);
        Some(Self(()))
    }

    /// Opens the keys of a step again, after something else changed keys during the first try. The keys from the first try must not be used
    /// any more. Returns `None` if something else changes keys during each try, and an error if `open` fails.
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

/// Whether something else has changed the keyspace since the running step last began to open its keys.
#[inline(always)]
pub(crate) fn is_disturbed() -> bool {
    NOW.phase.get() == Phase::Disturbed
}

/// Notes that something other than the running step changes the keyspace.
pub(super) fn disturb() {
    if NOW.phase.get() != Phase::Idle {
        NOW.phase.set(Phase::Disturbed);
    }
}

/// Runs `body`, which must delete this value. Meanwhile, `is_ours` is true for the value.
#[inline(always)]
pub(super) fn delete(value: *mut c_void, body: impl FnOnce()) {
    /// Clears `ours`, even if `body` panics, because another value may later have the same address.
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

/// Whether the module itself is deleting this value.
#[inline(always)]
pub(super) fn is_ours(value: *const c_void) -> bool {
    ptr::eq(value, NOW.ours.get())
}

/// Notes that something other than the module is removing a value from the keyspace.
pub(super) fn taken_out(value: *const c_void) {
    disturb();
    open_key::lose(value);
}

/// Notes that the values of a database are gone, or in another database. `None` stands for all databases.
pub(super) fn emptied(db: Option<i32>) {
    disturb();
    open_key::lose_all(db);
}
