//! A key that is open during a callback.

use std::marker::PhantomData;

use redis_module::raw;

use super::open_key::OpenKey;
use super::{Arg, Ctx, NativeType, step};

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
        let may_be_null = mode & raw::REDISMODULE_WRITE == 0;
        match Self::find(key, may_be_null) {
            Ok(value) => Ok(Self { name, open: OpenKey::take(only, key, value.cast()), holds: PhantomData }),
            Err(wrong) => {
                // SAFETY: the key was opened just above, and is closed only here.
                unsafe { api!(RedisModule_CloseKey(key)) };
                Err(wrong)
            }
        }
    }

    #[inline(always)]
    fn find(key: *mut raw::RedisModuleKey, may_be_null: bool) -> Result<*mut T, WrongType> {
        if may_be_null && key.is_null() {
            return Ok(std::ptr::null_mut());
        }
        // SAFETY: the key is open.
        let kind = unsafe { api!(RedisModule_KeyType(key)) };
        if kind == raw::REDISMODULE_KEYTYPE_EMPTY as i32 {
            return Ok(std::ptr::null_mut());
        }
        // SAFETY: the key is open. If the value is not of a module's type, the server returns null.
        let native = unsafe { api!(RedisModule_ModuleTypeGetType(key)) };
        if native.is_null() || native != T::handle().raw() {
            return Err(WrongType);
        }
        // SAFETY: the key is open, and holds a value of our type.
        Ok(unsafe { api!(RedisModule_ModuleTypeGetValue(key)) }.cast())
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
            self.open.value.set(std::ptr::null_mut());
            // SAFETY: the server refused the value, so the value still belongs to us, and comes from `into_raw` just above.
            drop(unsafe { Box::from_raw(value) });
        }
    }

    #[inline(always)]
    pub(crate) fn delete(&mut self) {
        let value = self.open.value.replace(std::ptr::null_mut());
        if !value.is_null() {
            let key = self.open.key.get();
            // SAFETY: the key is open. No reference from `value` is left, because `self` is borrowed mutably.
            step::delete(value, || unsafe { _ = api!(RedisModule_DeleteKey(key)) });
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
        self.open.give_back();
    }
}
