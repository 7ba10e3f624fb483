//! One key, opened for the length of a callback.

use std::marker::PhantomData;

use redis_module::raw;

use super::open_key::OpenKey;
use super::{Arg, Ctx, NativeType, step};

/// The key holds a value of another type.
#[derive(Debug)]
pub(crate) struct WrongType;

/// An open key that holds a value of that type, or nothing; closed when dropped.
///
/// One at a time may be open for writing on one name: that is what makes `value_mut` the only way to its value.
///
/// Where somebody else has taken the value out of the keyspace meanwhile, the key is lost: it looks absent, and nothing is done to it.
pub(crate) struct Key<'a, T: NativeType> {
    name: Arg<'a>,
    /// The handle, null where the key is lost; and the value in the keyspace, null where the key is absent or lost. The value is
    /// kept, since each question is a call into the server.
    open: &'static OpenKey,
    holds: PhantomData<T>,
}

impl<'a, T: NativeType> Key<'a, T> {
    /// Opens a key for reading. An expired one looks absent.
    pub(crate) fn read(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        Self::open(ctx, name, raw::REDISMODULE_READ, false)
    }

    /// Opens a key for writing. An expired one is deleted first, with the server's own event and propagation. `only`: no other is
    /// opened so while this one is open.
    #[inline(always)]
    pub(crate) fn write(ctx: &'a Ctx<'_>, name: Arg<'a>, only: bool) -> Result<Self, WrongType> {
        Self::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE, only)
    }

    /// Opens a key for reading, and leaves no trace: it is not said to have been used, and an expired one looks absent and stays.
    /// (Redis 7.0 knows of the first only, and deletes an expired one.)
    pub(crate) fn peek(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        const UNSEEN: u32 = raw::REDISMODULE_OPEN_KEY_NOTOUCH | raw::REDISMODULE_OPEN_KEY_NOEFFECTS;
        Self::open(ctx, name, raw::REDISMODULE_READ | UNSEEN, false)
    }

    #[inline(always)]
    fn open(ctx: &'a Ctx<'_>, name: Arg<'a>, mode: u32, only: bool) -> Result<Self, WrongType> {
        // SAFETY: context and string are valid (see their `new`). The server keeps a reference to the name.
        let key = unsafe { api!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode as i32)) };
        // For writing there always is a handle.
        let may_be_null = mode & raw::REDISMODULE_WRITE == 0;
        match Self::find(key, may_be_null) {
            Ok(value) => Ok(Self { name, open: OpenKey::take(only, key, value.cast()), holds: PhantomData }),
            Err(wrong) => {
                // SAFETY: opened just above, and closed once.
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
        // SAFETY: the key is open. For a value of another kind the server answers null.
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

    /// Whether somebody else has taken the value out of the keyspace. (A key absent for reading looks so too.)
    #[inline(always)]
    pub(crate) fn is_lost(&self) -> bool {
        self.open.key.get().is_null()
    }

    #[inline(always)]
    fn raw_value(&self) -> *mut T {
        self.open.value.get().cast()
    }

    /// The value; none where the key is absent.
    #[inline(always)]
    pub(crate) fn value(&self) -> Option<&T> {
        // SAFETY: null, or what was put into the keyspace as a `Box<T>`. It is there still, since that is emptied before the server
        // frees a value; and while it is lent nothing is called in which somebody could take it out.
        unsafe { self.raw_value().as_ref() }
    }

    /// The value, to change it; none where the key is absent.
    #[inline(always)]
    pub(crate) fn value_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `value`; and no other reference is about, since one key is open at a time on one name.
        unsafe { self.raw_value().as_mut() }
    }

    /// Puts a value there where the key is absent; it has no TTL. Does nothing where the key is lost, or not open for writing.
    #[inline(always)]
    pub(crate) fn set_value(&mut self, value: T) {
        if self.is_lost() {
            return;
        }
        let value = Box::into_raw(Box::new(value));
        // Before the server has it: it tells others of the new key, and they may take it out at once.
        self.open.value.set(value.cast());
        // SAFETY: the key is open, and the type's `free` turns the pointer back into the box it came from.
        let status = unsafe {
            api!(RedisModule_ModuleTypeSetValue(self.open.key.get(), T::handle().raw(), value.cast()))
        };
        if status == raw::REDISMODULE_OK as i32 {
            T::handle().count_made();
        } else {
            self.open.value.set(std::ptr::null_mut());
            // SAFETY: the server did not take the value, so it is still ours, from `into_raw` just above.
            drop(unsafe { Box::from_raw(value) });
        }
    }

    /// Deletes the key.
    #[inline(always)]
    pub(crate) fn delete(&mut self) {
        let value = self.open.value.replace(std::ptr::null_mut());
        if !value.is_null() {
            let key = self.open.key.get();
            // SAFETY: the key is open. What `value` lent is gone, since `self` is borrowed mutably.
            step::delete(value, || unsafe { _ = api!(RedisModule_DeleteKey(key)) });
        }
    }

    /// When the key expires, in ms since 1970; none where it does not.
    pub(crate) fn expires_at(&self) -> Option<i64> {
        // Redis 8.6 crashes where a key that is open for writing is absent.
        if self.raw_value().is_null() {
            return None;
        }
        // SAFETY: the key is open, since it has a value.
        let at = unsafe { api!(RedisModule_GetAbsExpire(self.open.key.get())) };
        (at != i64::from(raw::REDISMODULE_NO_EXPIRE)).then_some(at)
    }

    /// Sets when the key expires, in ms since 1970, or that it does not.
    pub(crate) fn set_expires_at(&mut self, at: Option<i64>) {
        if self.raw_value().is_null() {
            return;
        }
        let at = at.unwrap_or(i64::from(raw::REDISMODULE_NO_EXPIRE));
        // SAFETY: the key is open, since it has a value. A negative time that is not "no expiry" is refused by the server.
        unsafe { api!(RedisModule_SetAbsExpire(self.open.key.get(), at)) };
    }
}

impl<T: NativeType> Drop for Key<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once. The server takes null, as a key absent for reading is, and as one that is lost.
        unsafe { api!(RedisModule_CloseKey(self.open.key.get())) };
        self.open.give_back();
    }
}
