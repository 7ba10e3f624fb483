//! What the server tells about the keyspace: one key touched, a database emptied, two databases swapped.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use super::guard::guard;
use super::{Arg, Ctx};

/// Who is told. The keyspace may be in the middle of a change: take note, and touch nothing.
pub(crate) trait KeyspaceEvents {
    /// Something happened to a key in the selected database: it expired, was evicted, or was the object of a command
    /// that works on any type (`DEL`, `EXPIRE`, `RENAME`, `RESTORE`, ...).
    fn touched(ctx: &Ctx<'_>, event: &CStr, key: Arg<'_>);

    /// A database was emptied, or (`None`) all were.
    fn flushed(db: Option<i32>);

    fn swapped(first: i32, second: i32);

    /// A connection has closed, for whatever reason.
    fn disconnected(client: u64);
}

/// What the table of events holds: a subscriber ready to be registered.
pub(crate) struct EventSpec {
    pub(super) subscribe: fn(*mut raw::RedisModuleCtx) -> bool,
}

impl EventSpec {
    pub(crate) const fn of<E: KeyspaceEvents>() -> Self {
        Self { subscribe: subscribe::<E> }
    }
}

fn subscribe<E: KeyspaceEvents>(ctx: *mut raw::RedisModuleCtx) -> bool {
    let classes =
        raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
    // SAFETY: the server gave us the context for the time of loading.
    let keys = unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(ctx, classes, Some(touched::<E>))) };
    let flush = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_FLUSHDB, dataver: 1 };
    // SAFETY: as above; the callback takes the data of this event, in this version.
    let flush = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, flush, Some(flushed::<E>))) };
    let swap = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_SWAPDB, dataver: 1 };
    // SAFETY: as above.
    let swap = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, swap, Some(swapped::<E>))) };
    let client = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_CLIENT_CHANGE, dataver: 1 };
    // SAFETY: as above.
    let client = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, client, Some(client_changed::<E>))) };
    [keys, flush, swap, client].iter().all(|&status| status == raw::REDISMODULE_OK as c_int)
}

/// # Safety
/// Called by the server, with a context, an event's name and a key that are valid until it returns.
unsafe extern "C" fn touched<E: KeyspaceEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server gave it to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    // SAFETY: the server's text ends in NUL.
    let event = unsafe { CStr::from_ptr(event) };
    // SAFETY: valid until this callback returns.
    let key = unsafe { Arg::new(key) };
    guard(|| E::touched(&ctx, event, key));
    raw::REDISMODULE_OK as c_int
}

/// # Safety
/// Called by the server, with the data of a flush.
unsafe extern "C" fn flushed<E: KeyspaceEvents>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    if subevent != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    // SAFETY: the caller's promise, for the version of the data that `subscribe` names.
    let info = unsafe { &*data.cast::<raw::RedisModuleFlushInfo>() };
    guard(|| E::flushed((info.dbnum >= 0).then_some(info.dbnum)));
}

/// # Safety
/// Called by the server, with the data of a swap.
unsafe extern "C" fn swapped<E: KeyspaceEvents>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    data: *mut c_void,
) {
    // SAFETY: the caller's promise, for the version of the data that `subscribe` names.
    let info = unsafe { &*data.cast::<raw::RedisModuleSwapDbInfo>() };
    guard(|| E::swapped(info.dbnum_first, info.dbnum_second));
}

/// # Safety
/// Called by the server, with the data of a client.
unsafe extern "C" fn client_changed<E: KeyspaceEvents>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    if subevent != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
        return;
    }
    // SAFETY: the caller's promise, for the version of the data that `subscribe` names.
    let info = unsafe { &*data.cast::<raw::RedisModuleClientInfo>() };
    guard(|| E::disconnected(info.id));
}
