//! Settings, which `CONFIG SET`, the configuration file or arguments of `loadmodule` change.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::raw;

use super::callback::guard;

/// A setting whose value is an integer. The server checks that the value is in the setting's range.
pub(crate) struct NumericConfig {
    /// The name without the module's name, which the server puts in front.
    pub(super) name: &'static CStr,
    pub(super) default: i64,
    pub(super) min: i64,
    pub(super) max: i64,
    value: AtomicI64,
}

impl NumericConfig {
    pub(crate) const fn new(name: &'static CStr, default: i64, min: i64, max: i64) -> Self {
        Self { name, default, min, max, value: AtomicI64::new(default) }
    }

    pub(crate) fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Registers the setting with this default, which must be in the setting's range. Returns whether the server accepted the setting.
    pub(super) fn register(&'static self, ctx: *mut raw::RedisModuleCtx, default: i64) -> bool {
        self.value.store(default, Ordering::Relaxed);
        // SAFETY: the server gave us the context for the time of loading, and copies the name. The server passes the pointer unchanged to
        // the two callbacks, which use it only as a shared reference to the setting. The setting is `'static`.
        let status = unsafe {
            api!(RedisModule_RegisterNumericConfig(
                ctx,
                self.name.as_ptr(),
                default,
                raw::REDISMODULE_CONFIG_DEFAULT,
                self.min,
                self.max,
                Some(get),
                Some(set),
                None,
                std::ptr::from_ref(self).cast_mut().cast(),
            ))
        };
        status == raw::REDISMODULE_OK as i32
    }
}

/// # Safety
/// `setting` is the pointer that `register` gave.
unsafe extern "C" fn get(_name: *const c_char, setting: *mut c_void) -> c_longlong {
    // SAFETY: the caller promises that `register` gave this pointer.
    let setting = unsafe { &*setting.cast::<NumericConfig>() };
    // No `guard` keeps a panic away from the server here, because nothing can panic, and no return value could stand for an error.
    setting.get()
}

/// # Safety
/// `setting` is the pointer that `register` gave, and a pointer to a string can be written to `error`.
unsafe extern "C" fn set(
    _name: *const c_char,
    value: c_longlong,
    setting: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the caller promises that `register` gave this pointer.
    let setting = unsafe { &*setting.cast::<NumericConfig>() };
    if guard(c"config-set", || setting.value.store(value, Ordering::Relaxed)).is_some() {
        return raw::REDISMODULE_OK as i32;
    }
    const TEXT: &[u8] = b"internal error";
    guard(c"error-reply", || {
        // SAFETY: the server takes a null context, and copies the bytes.
        let text =
            unsafe { api!(RedisModule_CreateString(std::ptr::null_mut(), TEXT.as_ptr().cast(), TEXT.len())) };
        // SAFETY: the caller promises that `error` can be written to, and the server frees the string.
        unsafe { *error = text };
    });
    raw::REDISMODULE_ERR as i32
}
