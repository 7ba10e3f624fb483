//! Where open keys have their handles and values, so that those can be taken away from them.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use redis_module::raw;

use super::ServerCell;

/// One open key. Null is what there is not: a value where the key is absent; no handle either where the key is lost, since the
/// server looks at the value when a handle is closed. One in which no key is has no value.
pub(super) struct OpenKey {
    pub(super) key: Cell<*mut raw::RedisModuleKey>,
    pub(super) value: Cell<*mut c_void>,
}

// SAFETY: as `ServerCell`: only callbacks touch it, which the server runs one at a time under its global lock.
unsafe impl Sync for OpenKey {}

/// The handle for the first key that a step opens for writing. Most steps open no other.
static ONLY: OpenKey = OpenKey::new();

/// The handles for all further keys. As many are made as keys are ever open at a time, and they are used again.
struct More {
    all: Vec<&'static OpenKey>,
    free: Vec<&'static OpenKey>,
}

/// The handles of lost keys, some 100 bytes each, which can't be closed; where they are, for those who look for leaks.
static LEFT: ServerCell<Vec<usize>> = ServerCell::new(Vec::new());

static MORE: ServerCell<More> = ServerCell::new(More { all: Vec::new(), free: Vec::new() });

impl OpenKey {
    const fn new() -> Self {
        Self { key: Cell::new(ptr::null_mut()), value: Cell::new(ptr::null_mut()) }
    }

    /// One for a key that has been opened, and holds that value or none.
    #[inline(always)]
    pub(super) fn take(only: bool, key: *mut raw::RedisModuleKey, value: *mut c_void) -> &'static Self {
        let open = if only { &ONLY } else { another() };
        open.key.set(key);
        open.value.set(value);
        open
    }

    /// Gives it back; it is not to be used any more.
    #[inline(always)]
    pub(super) fn give_back(&'static self) {
        self.value.set(ptr::null_mut());
        if !ptr::eq(self, &ONLY) {
            one_less(self);
        }
    }

    /// The handle is left.
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

/// The key that has that value, if any, is lost.
pub(super) fn lose(value: *const c_void) {
    lose_where(|open| ptr::eq(open.value.get(), value));
}

/// The keys that have a value in a database are lost, or (`None`) all that have one.
pub(super) fn lose_all(db: Option<i32>) {
    lose_where(|open| {
        // SAFETY: a handle with a value is open; the server does not look at the value for that.
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
