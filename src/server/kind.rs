//! What kind of server this is: Redis or Valkey, and where they differ for the module.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

/// The server is Valkey, not Redis.
static VALKEY: AtomicBool = AtomicBool::new(false);

/// The server is Redis 8 or later.
static REDIS_8: AtomicBool = AtomicBool::new(false);

/// Whether the server keeps the answer of an unblocked client until it is done with it, and drops it where the client was
/// sent away in between. Redis sends it at once, or makes it only then.
pub(super) fn keeps_answers() -> bool {
    VALKEY.load(Ordering::Relaxed)
}

/// Whether the server may delete a key when the last millisecond of its TTL begins. Others do when it is over. (In Redis
/// since `activeExpireCycleTryExpire` was tidied up for 8.0: `now < t` keeps the key, where it was `now <= t`.)
pub(super) fn expires_early() -> bool {
    REDIS_8.load(Ordering::Relaxed)
}

/// Finds out what the server is. Which options it takes that Redis' own header does not name: Valkey wants to know that a
/// module can live with a slot that comes in beside the data set in use (`HANDLE_ATOMIC_SLOT_MIGRATION`). Without that,
/// Valkey 9 moves no slot at all.
pub(super) fn options(ctx: *mut raw::RedisModuleCtx) -> c_int {
    const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
    // SAFETY: the server gave us the context for the time of loading.
    let info = unsafe { api!(RedisModule_GetServerInfo(ctx, c"server".as_ptr())) };
    let valkey = field(info, c"valkey_version").is_some();
    VALKEY.store(valkey, Ordering::Relaxed);
    // Previews of 8.0 call themselves 7.9.
    let redis = field(info, c"redis_version").filter(|_| !valkey);
    REDIS_8.store(redis.is_some_and(|version| version >= (7, 9)), Ordering::Relaxed);
    // SAFETY: the server's answer, not used any more.
    unsafe { api!(RedisModule_FreeServerInfo(ctx, info)) };
    // SAFETY: the server wrote the table of functions just before, and nobody writes to it any more.
    match unsafe { raw::RedisModule_GetModuleOptionsAll } {
        // SAFETY: the function takes nothing.
        Some(known) if valkey => unsafe { known() & HANDLE_ATOMIC_SLOT_MIGRATION },
        _ => 0,
    }
}

/// A field that holds a version: its first two numbers.
fn field(info: *mut raw::RedisModuleServerInfoData, name: &CStr) -> Option<(u32, u32)> {
    // SAFETY: the server's answer, not freed yet; the field's name ends in NUL.
    let text = unsafe { api!(RedisModule_ServerInfoGetFieldC(info, name.as_ptr())) };
    if text.is_null() {
        return None;
    }
    // SAFETY: the server's text, which ends in NUL and lives as long as its answer.
    let text = unsafe { CStr::from_ptr(text) }.to_str().ok()?;
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}
