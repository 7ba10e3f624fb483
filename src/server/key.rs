//! Keys that are open during a callback, and steps. A step is the work of one command or timer on open keys, and stays correct even if other
//! modules change these keys meanwhile. Steps run one at a time.
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
use std::marker::PhantomData;
use std::ptr;

use redis_module::raw;

use super::{Arg, Ctx, NativeType, ServerCell};

/// The error for a key that has a value of another type.
#[derive(Debug)]
pub(crate) struct WrongType;

/// An open key that has a value of type `T`, or does not exist. Dropping this value closes the key.
///
/// The caller must not open two `Key`s with the same name for writing at the same time. So nothing else refers to the value while
/// `value_mut` lends it.
///
/// If something else removes the value from the keyspace while the key is open, the key is lost. A lost key looks absent, and its methods
/// change nothing.
pub(crate) struct Key<'a, T: NativeType> {
    name: Arg<'a>,
    /// The handle, which is null if the key is lost (or absent and open for reading), and the value in the keyspace, which is null if the
    /// key is absent or lost. The value is kept here to save calls to the server.
    open: &'static OpenKey,
    holds: PhantomData<T>,
}

/// Flags for opening a key without a trace: the server does not count this as a use of the key, and an expired key looks absent but stays.
/// (Redis 7.0 knows only the first of the two flags, and deletes an expired key.)
pub(super) const UNSEEN: u32 = raw::REDISMODULE_OPEN_KEY_NOTOUCH | raw::REDISMODULE_OPEN_KEY_NOEFFECTS;

impl<'a, T: NativeType> Key<'a, T> {
    /// Opens a key for reading. An expired key looks absent, and on a primary, the server first deletes it, with an event and replication.
    pub(crate) fn read(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        Self::open(ctx, name, raw::REDISMODULE_READ, false)
    }

    /// Opens a key for writing. If the key has expired, the server first deletes it, with an event and replication. `only` saves some time,
    /// but may be true for at most one of the keys that are open at the same time.
    #[inline(always)]
    pub(crate) fn write(ctx: &'a Ctx<'_>, name: Arg<'a>, only: bool) -> Result<Self, WrongType> {
        Self::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE, only)
    }

    /// Opens a key for reading without a trace (see `UNSEEN`).
    pub(crate) fn peek(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        Self::open(ctx, name, raw::REDISMODULE_READ | UNSEEN, false)
    }

    #[inline(always)]
    fn open(ctx: &'a Ctx<'_>, name: Arg<'a>, mode: u32, only: bool) -> Result<Self, WrongType> {
        // SAFETY: context and string are valid (see their `new`). The server keeps a reference to the name.
        let key = unsafe { api!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode as i32)) };
        // If a key is opened for writing, the server always returns a handle.
        let is_absent = mode & raw::REDISMODULE_WRITE == 0 && key.is_null()
            // SAFETY: the key is open.
            || unsafe { api!(RedisModule_KeyType(key)) } == raw::REDISMODULE_KEYTYPE_EMPTY as i32;
        let value = if is_absent {
            ptr::null_mut()
        } else {
            // SAFETY: the key is open. If the value is not of a module's type, the server returns null.
            let native = unsafe { api!(RedisModule_ModuleTypeGetType(key)) };
            if native.is_null() || native != T::handle().raw() {
                // SAFETY: the key was opened just above, and is closed only here.
                unsafe { api!(RedisModule_CloseKey(key)) };
                return Err(WrongType);
            }
            // SAFETY: the key is open, and holds a value of our type.
            unsafe { api!(RedisModule_ModuleTypeGetValue(key)) }
        };
        Ok(Self { name, open: OpenKey::take(only, key, value), holds: PhantomData })
    }

    pub(crate) fn name(&self) -> Arg<'a> {
        self.name
    }

    /// Whether the key is lost: something else has removed the value from the keyspace. (Also true for an absent key that is open for
    /// reading.)
    #[inline(always)]
    pub(crate) fn is_lost(&self) -> bool {
        self.open.key.get().is_null()
    }

    #[inline(always)]
    fn raw_value(&self) -> *mut T {
        self.open.value.get().cast()
    }

    /// Returns the value; `None` if the key is absent.
    #[inline(always)]
    pub(crate) fn value(&self) -> Option<&T> {
        // SAFETY: the pointer is null, or points to a value that was put into the keyspace as a `Box<T>`. The value is still there, because
        // the pointer is cleared before the server frees the value, and while the value is lent, nothing is called that could remove it.
        unsafe { self.raw_value().as_ref() }
    }

    /// Returns the value, to change it; `None` if the key is absent.
    #[inline(always)]
    pub(crate) fn value_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `value`, and there is no other reference, because only one key with this name is open for writing.
        unsafe { self.raw_value().as_mut() }
    }

    /// Sets the value of an absent key, without a TTL. Does nothing if the key is lost, or not open for writing.
    #[inline(always)]
    pub(crate) fn set_value(&mut self, value: T) {
        if self.is_lost() {
            return;
        }
        let value = Box::into_raw(Box::new(value));
        // The pointer is stored in `open` before the call, because during the call the server tells other modules of the new key, and these
        // modules may remove the value at once.
        self.open.value.set(value.cast());
        // SAFETY: the key is open, and the type's `free` turns the pointer back into the box that it came from.
        let status = unsafe {
            api!(RedisModule_ModuleTypeSetValue(self.open.key.get(), T::handle().raw(), value.cast()))
        };
        if status == raw::REDISMODULE_OK as i32 {
            T::handle().count_made();
        } else {
            self.open.value.set(ptr::null_mut());
            // SAFETY: the server refused the value, so the value still belongs to us, and comes from `into_raw` just above.
            drop(unsafe { Box::from_raw(value) });
        }
    }

    #[inline(always)]
    pub(crate) fn delete(&mut self) {
        let value = self.open.value.replace(ptr::null_mut());
        if !value.is_null() {
            let key = self.open.key.get();
            // SAFETY: the key is open. No reference from `value` is left, because `self` is borrowed mutably.
            delete(value, || unsafe { _ = api!(RedisModule_DeleteKey(key)) });
        }
    }

    /// Returns when the key expires, in ms since 1970; `None` if it does not expire, or is absent.
    pub(crate) fn expires_at(&self) -> Option<i64> {
        // Redis 8.6 crashes when asked for the TTL of an absent key that is open for writing.
        if self.raw_value().is_null() {
            return None;
        }
        // SAFETY: the key is open, because it has a value.
        let at = unsafe { api!(RedisModule_GetAbsExpire(self.open.key.get())) };
        (at != i64::from(raw::REDISMODULE_NO_EXPIRE)).then_some(at)
    }

    /// Sets when the key expires, in ms since 1970; `None` means never. Does nothing if the key is absent.
    pub(crate) fn set_expires_at(&mut self, at: Option<i64>) {
        if self.raw_value().is_null() {
            return;
        }
        let at = at.unwrap_or(i64::from(raw::REDISMODULE_NO_EXPIRE));
        // SAFETY: the key is open, because it has a value. The server refuses a negative time other than "no expiry".
        unsafe { api!(RedisModule_SetAbsExpire(self.open.key.get(), at)) };
    }
}

impl<T: NativeType> Drop for Key<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: we opened the key, and close it once. The handle is null if the key is lost, or absent and open for reading. The server
        // accepts a null handle.
        unsafe { api!(RedisModule_CloseKey(self.open.key.get())) };
        self.open.value.set(ptr::null_mut());
        if !ptr::eq(self.open, &ONLY) {
            put_back(self.open);
        }
    }
}

/// The handle and the value of one open key. They are not in the `Key` itself, so that `lose` can find and clear them when the key is lost
/// (see `Key`). If the key is absent, the value is null. If the key is lost, the handle is null, too, because closing the handle would make
/// the server look at a freed value. While an `OpenKey` is not in use, its value is null.
struct OpenKey {
    key: Cell<*mut raw::RedisModuleKey>,
    value: Cell<*mut c_void>,
}

// SAFETY: as for `ServerCell`: only callbacks use an `OpenKey`, and the server runs callbacks one at a time under its global lock.
unsafe impl Sync for OpenKey {}

/// The `OpenKey` for the only key of a step (the work of one command or timer) that opens one key for writing, as most steps do.
static ONLY: OpenKey = OpenKey::new();

/// The `OpenKey`s for all other keys. Each `OpenKey` is reused, so there are never more of them than keys were open at the same time.
struct More {
    all: Vec<&'static OpenKey>,
    free: Vec<&'static OpenKey>,
}

/// The handles of lost keys, about 100 bytes each. The handles can't be closed, but are kept here so that leak checkers do not report them.
static LEFT: ServerCell<Vec<usize>> = ServerCell::new(Vec::new());

static MORE: ServerCell<More> = ServerCell::new(More { all: Vec::new(), free: Vec::new() });

impl OpenKey {
    const fn new() -> Self {
        Self { key: Cell::new(ptr::null_mut()), value: Cell::new(ptr::null_mut()) }
    }

    /// Returns an unused `OpenKey`, with this key and its value, which may be null.
    #[inline(always)]
    fn take(only: bool, key: *mut raw::RedisModuleKey, value: *mut c_void) -> &'static Self {
        let open = if only { &ONLY } else { another() };
        open.key.set(key);
        open.value.set(value);
        open
    }

    /// Marks the key as lost, and gives up its handle without closing it.
    fn lose(&self) {
        let key = self.key.replace(ptr::null_mut());
        self.value.set(ptr::null_mut());
        LEFT.with(|left| left.push(key.expose_provenance()));
    }
}

#[cold]
#[inline(never)]
fn another() -> &'static OpenKey {
    MORE.with(|more| {
        more.free.pop().unwrap_or_else(|| {
            let new: &'static OpenKey = Box::leak(Box::new(OpenKey::new()));
            more.all.push(new);
            new
        })
    })
}

#[inline(never)]
fn put_back(open: &'static OpenKey) {
    MORE.with(|more| more.free.push(open));
}

/// Marks the open key with this value as lost, if there is such a key.
pub(super) fn lose(value: *const c_void) {
    lose_where(|open| ptr::eq(open.value.get(), value));
}

/// Marks all open keys with values in this database as lost, or, if `db` is `None`, in all databases.
pub(super) fn lose_all(db: Option<i32>) {
    lose_where(|open| {
        // SAFETY: a handle with a value is open, and the server does not look at the value for this call.
        let of = || unsafe { api!(RedisModule_GetDbIdFromModuleKey(open.key.get())) };
        !open.value.get().is_null() && db.is_none_or(|db| of() == db)
    });
}

fn lose_where(is_lost: impl Fn(&OpenKey) -> bool) {
    let lose = |open: &OpenKey| {
        if is_lost(open) {
            open.lose();
        }
    };
    lose(&ONLY);
    MORE.with(|more| {
        if more.free.len() < more.all.len() {
            more.all.iter().for_each(|open| lose(open));
        }
    });
}

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
fn delete(value: *mut c_void, body: impl FnOnce()) {
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
    lose(value);
}

/// Notes that the values of a database are gone, or in another database. `None` stands for all databases.
pub(super) fn emptied(db: Option<i32>) {
    disturb();
    lose_all(db);
}
