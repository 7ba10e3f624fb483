//! The kind of server: Redis or Valkey, and the differences that matter to the module; and what its `INFO` says.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use redis_module::raw;

use super::Ctx;
use super::clock::EXPIRES_EARLY;

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
    let redis = redis.map_or(0, number);
    REDIS.store(redis, Ordering::Relaxed);
    // Previews of 8.0 have the version 7.9.
    EXPIRES_EARLY.store(redis >= number((7, 9)), Ordering::Relaxed);
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

/// A section of the server's `INFO`.
pub(super) struct Section<'a> {
    ctx: &'a Ctx<'a>,
    fields: *mut raw::RedisModuleServerInfoData,
}

impl<'a> Section<'a> {
    pub(super) fn read(ctx: &'a Ctx<'a>, name: &CStr) -> Self {
        // SAFETY: the context is valid (see its `new`), and the name ends in NUL.
        let fields = unsafe { api!(RedisModule_GetServerInfo(ctx.raw(), name.as_ptr())) };
        Self { ctx, fields }
    }

    /// Returns the value of a field; `None` if the section does not have the field.
    pub(super) fn field(&self, name: &CStr) -> Option<&str> {
        // SAFETY: the section is the server's, and lives until `drop`, and the name ends in NUL.
        let text = unsafe { api!(RedisModule_ServerInfoGetFieldC(self.fields, name.as_ptr())) };
        if text.is_null() {
            return None;
        }
        // SAFETY: the text is the server's, ends in NUL, and lives as long as the section, which `self` keeps.
        unsafe { CStr::from_ptr(text) }.to_str().ok()
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is valid (see its `new`), and the section is ours, and everything that borrows from it has ended before.
        unsafe { api!(RedisModule_FreeServerInfo(self.ctx.raw(), self.fields)) };
    }
}

impl Ctx<'_> {
    /// Returns the server's setting `maxmemory-policy`, which says which keys the server removes when memory is short.
    pub(crate) fn maxmemory_policy(&self) -> String {
        Section::read(self, c"memory").field(c"maxmemory_policy").unwrap_or_default().into()
    }
}
