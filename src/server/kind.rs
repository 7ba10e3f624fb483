//! What kind of server this is: Redis or Valkey, and where they differ for the module.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use redis_module::raw;

use super::Ctx;
use super::section::Section;

/// The server is Valkey, not Redis.
static VALKEY: AtomicBool = AtomicBool::new(false);

/// The version of Redis, as a [`number`]; 0: it is Valkey.
static REDIS: AtomicU32 = AtomicU32::new(0);

/// Whether the server keeps the answer of an unblocked client until it is done with it, and drops it where the client was
/// sent away in between. Redis sends it at once, or makes it only then.
pub(super) fn keeps_answers() -> bool {
    VALKEY.load(Ordering::Relaxed)
}

/// Whether the server may delete a key when the last millisecond of its TTL begins. Others do when it is over. (In Redis
/// since `activeExpireCycleTryExpire` was tidied up for 8.0: `now < t` keeps the key, where it was `now <= t`.)
pub(super) fn expires_early() -> bool {
    // Previews of 8.0 call themselves 7.9.
    REDIS.load(Ordering::Relaxed) >= number((7, 9))
}

/// How the server learns where the keys of a command are that have no fixed places.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The server finds the keys by the description of the command.
    Described,
    /// A cluster has the command itself asked.
    Asked,
    /// The server looks the keys up on a thread that reads for clients, which must call no module: the server would crash.
    Unsafe,
}

/// Only clusters have to ask, before they redirect a client: Valkey, and Redis until it went by the description (seen in 8.6; not
/// looked at: 8.2 and 8.4). Since Valkey 8, and after Redis 8.0, threads that read for clients do that.
pub(super) fn lookup(ctx: &Ctx<'_>) -> Lookup {
    let redis = REDIS.load(Ordering::Relaxed);
    if !ctx.is_cluster() || redis >= number((8, 5)) {
        return Lookup::Described;
    }
    let old = (1..number((8, 1))).contains(&redis);
    // A server whose CONFIG is renamed does not tell.
    let alone = || ctx.setting(c"io-threads").is_some_and(|threads| threads == "1");
    if old || alone() { Lookup::Asked } else { Lookup::Unsafe }
}

/// Finds out what the server is. Which options it takes that Redis' own header does not name: Valkey wants to know that a
/// module can live with a slot that comes in beside the data set in use (`HANDLE_ATOMIC_SLOT_MIGRATION`). Without that,
/// Valkey 9 moves no slot at all.
pub(super) fn options(ctx: &Ctx<'_>) -> c_int {
    const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
    let server = Section::read(ctx, c"server");
    let valkey = server.field(c"valkey_version").is_some();
    VALKEY.store(valkey, Ordering::Relaxed);
    let redis = server.field(c"redis_version").and_then(version).filter(|_| !valkey);
    REDIS.store(redis.map_or(0, number), Ordering::Relaxed);
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

/// A version as one number. Numbers are in the order of the versions.
fn number((major, minor): (u32, u32)) -> u32 {
    major.saturating_mul(1000).saturating_add(minor)
}
