//! The handles and values of open keys. All are in one place, so that `lose` can find and clear them when a key is lost (see `Key`).

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use redis_module::raw;

use super::ServerCell;

/// One open key. If the key is absent, the value is null. If the key is lost, the handle is null, too, because closing the handle would
/// make the server look at a freed value. While an `OpenKey` is not in use, its value is null.
pub(super) struct OpenKey {
    pub(super) key: Cell<*mut raw::RedisModuleKey>,
    pub(super) value: Cell<*mut c_void>,
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
            put_back(self);
        }
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
