//! The kind of server: Redis or Valkey, and the differences that matter to the module.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use redis_module::raw;

use super::Ctx;
use super::section::Section;

/// Whether the server is Valkey.
static VALKEY: AtomicBool = AtomicBool::new(false);

/// The version of Redis, as a [`number`]; 0 if the server is Valkey.
static REDIS: AtomicU32 = AtomicU32::new(0);

/// Whether the server keeps the reply to an unblocked client until the server is done with the client, and drops the reply if the client
/// was sent away in between. Valkey does this. Redis sends the reply at once, or asks the module for the reply only when Redis is done with
/// the client.
pub(super) fn keeps_replies() -> bool {
    VALKEY.load(Ordering::Relaxed)
}

/// Whether the server may delete a key when the last millisecond of its TTL begins, instead of when this millisecond ends. (Redis may do
/// this since 8.0: for a key that expires at `t`, `activeExpireCycleTryExpire` keeps the key while `now < t`. Before 8.0, it keeps the key
/// while `now <= t`.)
pub(super) fn expires_early() -> bool {
    // Previews of 8.0 have the version 7.9.
    REDIS.load(Ordering::Relaxed) >= number((7, 9))
}

/// How the server finds the keys of a command if their places are not fixed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GetKeys {
    /// The server uses the description of the command.
    Described,
    /// In a cluster, the server calls the command itself to ask for the command's keys.
    Asked,
    /// In a cluster, one of the server's I/O threads would call the command to ask for its keys, and the server would crash.
    Unsafe,
}

/// Returns how this server finds the keys of a command whose keys have no fixed places. Without a cluster, the server uses the description
/// of the command. In a cluster, Valkey, and Redis before 8.5, call the command to ask for its keys, before they redirect a client. (Redis
/// 8.6 does not. 8.2 and 8.4 were not tried, and are taken to do so.) In Valkey 8 and later, and in Redis after 8.0, I/O threads make this
/// call.
pub(super) fn get_keys(ctx: &Ctx<'_>) -> GetKeys {
    let redis = REDIS.load(Ordering::Relaxed);
    if !ctx.is_cluster() || redis >= number((8, 5)) {
        return GetKeys::Described;
    }
    let old = (1..number((8, 1))).contains(&redis);
    // If the command `CONFIG` was renamed, the setting is unknown, and the server counts as one with I/O threads.
    let alone = || ctx.setting(c"io-threads").is_some_and(|threads| threads == "1");
    if old || alone() { GetKeys::Asked } else { GetKeys::Unsafe }
}

/// Finds out the kind of server. Returns the module options that Redis's header (`redismodule.h`) lacks. `HANDLE_ATOMIC_SLOT_MIGRATION`
/// tells Valkey that the module can handle a hash slot that is imported beside the present data set. Without this option, Valkey 9 moves no
/// hash slot at all.
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

/// Returns the first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

/// Returns a version as one number, so that versions can be compared.
fn number((major, minor): (u32, u32)) -> u32 {
    major.saturating_mul(1000).saturating_add(minor)
}
