//! What kind of server this is: Redis or Valkey, and where they differ for the module.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::Ctx;
use super::section::Section;

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
pub(super) fn options(ctx: &Ctx<'_>) -> c_int {
    const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
    let server = Section::read(ctx, c"server");
    let valkey = server.field(c"valkey_version").is_some();
    VALKEY.store(valkey, Ordering::Relaxed);
    // Previews of 8.0 call themselves 7.9.
    let redis = server.field(c"redis_version").and_then(version).filter(|_| !valkey);
    REDIS_8.store(redis.is_some_and(|version| version >= (7, 9)), Ordering::Relaxed);
    // SAFETY: the server wrote the table of functions just before, and nobody writes to it any more.
    match unsafe { raw::RedisModule_GetModuleOptionsAll } {
        // SAFETY: the function takes nothing.
        Some(known) if valkey => unsafe { known() & HANDLE_ATOMIC_SLOT_MIGRATION },
        _ => 0,
    }
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}
