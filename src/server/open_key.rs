//! The handles and values of open keys, in one place, so that they can be taken away from a key that is lost.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use redis_module::raw;

use super::ServerCell;

/// One open key. The value is null if the key is absent. Handle and value are null if the key is lost, since the server looks at the value
/// when a handle is closed. An `OpenKey` that is not in use has no value.
pub(super) struct OpenKey {
    pub(super) key: Cell<*mut raw::RedisModuleKey>,
    pub(super) value: Cell<*mut c_void>,
}

// SAFETY: as for `ServerCell`: only callbacks touch it, which the server runs one at a time under its global lock.
unsafe impl Sync for OpenKey {}

/// For the first key that a step opens for writing. Most steps open no other.
static ONLY: OpenKey = OpenKey::new();

/// For all further keys. As many are made as keys are ever open at a time, and they are used again.
struct More {
    all: Vec<&'static OpenKey>,
    free: Vec<&'static OpenKey>,
}

/// The handles of lost keys, some 100 bytes each, which can't be closed. They are kept so that a search for leaks finds them reachable.
static LEFT: ServerCell<Vec<usize>> = ServerCell::new(Vec::new());

static MORE: ServerCell<More> = ServerCell::new(More { all: Vec::new(), free: Vec::new() });

impl OpenKey {
    const fn new() -> Self {
        Self { key: Cell::new(ptr::null_mut()), value: Cell::new(ptr::null_mut()) }
    }

    /// Returns an `OpenKey` in use for this key and its value, which may be null.
    #[inline(always)]
    pub(super) fn take(only: bool, key: *mut raw::RedisModuleKey, value: *mut c_void) -> &'static Self {
        let open = if only { &ONLY } else { another() };
        open.key.set(key);
        open.value.set(value);
        open
    }

    /// Ends the use of this `OpenKey`.
    #[inline(always)]
    pub(super) fn give_back(&'static self) {
        self.value.set(ptr::null_mut());
        if !ptr::eq(self, &ONLY) {
            one_less(self);
        }
    }

    /// Gives up the handle without closing it.
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
fn one_less(open: &'static OpenKey) {
    MORE.with(|more| more.free.push(open));
}

/// Marks the open key with this value as lost, if there is one.
pub(super) fn lose(value: *const c_void) {
    lose_where(|open| ptr::eq(open.value.get(), value));
}

/// Marks the open keys with values in this database as lost; `None`: in all databases.
pub(super) fn lose_all(db: Option<i32>) {
    lose_where(|open| {
        // SAFETY: a handle with a value is open; the server does not look at the value for this call.
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
