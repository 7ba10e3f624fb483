//! One key, opened for the length of a callback.

use redis_module::raw;

use super::{Arg, Ctx, NativeType};

/// The key holds a value of another type.
#[derive(Debug)]
pub(crate) struct WrongType;

/// An open key that holds a value of that type, or nothing; closed when dropped.
///
/// One at a time may be open for writing on one name: that is what makes `value_mut` the only way to its value.
pub(crate) struct Key<'a, T: NativeType> {
    key: *mut raw::RedisModuleKey,
    name: Arg<'a>,
    /// The value in the keyspace; null where the key is absent. Kept, since each question is a call into the server.
    value: *mut T,
}

impl<'a, T: NativeType> Key<'a, T> {
    /// Opens a key for reading. An expired one looks absent.
    pub(crate) fn read(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        Self::open(ctx, name, raw::REDISMODULE_READ)
    }

    /// Opens a key for writing. An expired one is deleted first, with the server's own event and propagation.
    pub(crate) fn write(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        Self::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    /// Opens a key for reading, and leaves no trace: it is not said to have been used, and an expired one looks absent and stays.
    /// (Redis 7.0 knows of the first only, and deletes an expired one.)
    pub(crate) fn peek(ctx: &'a Ctx<'_>, name: Arg<'a>) -> Result<Self, WrongType> {
        const UNSEEN: u32 = raw::REDISMODULE_OPEN_KEY_NOTOUCH | raw::REDISMODULE_OPEN_KEY_NOEFFECTS;
        Self::open(ctx, name, raw::REDISMODULE_READ | UNSEEN)
    }

    fn open(ctx: &'a Ctx<'_>, name: Arg<'a>, mode: u32) -> Result<Self, WrongType> {
        // SAFETY: context and string are valid (see their `new`). The server keeps a reference to the name.
        let key = unsafe { api!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode as i32)) };
        let mut key = Self { key, name, value: std::ptr::null_mut() };
        key.value = key.find()?;
        Ok(key)
    }

    fn find(&self) -> Result<*mut T, WrongType> {
        if self.key.is_null() {
            return Ok(std::ptr::null_mut());
        }
        // SAFETY: the key is open.
        let kind = unsafe { api!(RedisModule_KeyType(self.key)) };
        if kind == raw::REDISMODULE_KEYTYPE_EMPTY as i32 {
            return Ok(std::ptr::null_mut());
        }
        // SAFETY: the key is open. For a value of another kind the server answers null.
        let native = unsafe { api!(RedisModule_ModuleTypeGetType(self.key)) };
        if native.is_null() || native != T::handle().raw() {
            return Err(WrongType);
        }
        // SAFETY: the key is open, and holds a value of our type.
        Ok(unsafe { api!(RedisModule_ModuleTypeGetValue(self.key)) }.cast())
    }

    pub(crate) fn name(&self) -> Arg<'a> {
        self.name
    }

    /// The value; none where the key is absent.
    pub(crate) fn value(&self) -> Option<&T> {
        // SAFETY: null, or what was put into the keyspace as a `Box<T>`; it lives while the key is open and unchanged,
        // which borrowing `self` ensures.
        unsafe { self.value.as_ref() }
    }

    /// The value, to change it; none where the key is absent.
    pub(crate) fn value_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `value`; and no other reference is about, since one key is open at a time on one name.
        unsafe { self.value.as_mut() }
    }

    /// Puts a value there, in place of any other; it has no TTL. Does nothing where the key is not open for writing.
    #[inline(always)]
    pub(crate) fn set_value(&mut self, value: T) {
        let value = Box::into_raw(Box::new(value));
        // SAFETY: the key is open, and the type's `free` turns the pointer back into the box it came from.
        let status =
            unsafe { api!(RedisModule_ModuleTypeSetValue(self.key, T::handle().raw(), value.cast())) };
        if status == raw::REDISMODULE_OK as i32 {
            T::handle().count_made();
            self.value = value;
        } else {
            // SAFETY: the server did not take the value, so it is still ours, from `into_raw` just above.
            drop(unsafe { Box::from_raw(value) });
        }
    }

    /// Deletes the key.
    pub(crate) fn delete(&mut self) {
        self.value = std::ptr::null_mut();
        // SAFETY: the key is open. What `value` lent is gone, since `self` is borrowed mutably.
        unsafe { api!(RedisModule_DeleteKey(self.key)) };
    }

    /// When the key expires, in ms since 1970; none where it does not.
    pub(crate) fn expires_at(&self) -> Option<i64> {
        // Redis 8.6 crashes where a key that is open for writing is absent.
        if self.value.is_null() {
            return None;
        }
        // SAFETY: the key is open.
        let at = unsafe { api!(RedisModule_GetAbsExpire(self.key)) };
        (at != i64::from(raw::REDISMODULE_NO_EXPIRE)).then_some(at)
    }

    /// Sets when the key expires, in ms since 1970, or that it does not.
    pub(crate) fn set_expires_at(&mut self, at: Option<i64>) {
        let at = at.unwrap_or(i64::from(raw::REDISMODULE_NO_EXPIRE));
        // SAFETY: the key is open. A negative time that is not "no expiry" is refused by the server.
        unsafe { api!(RedisModule_SetAbsExpire(self.key, at)) };
    }
}

impl<T: NativeType> Drop for Key<'_, T> {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once. The server takes null, as a key absent for reading is.
        unsafe { api!(RedisModule_CloseKey(self.key)) };
    }
}
