//! Receives the server's events about keys (touched keys, flushed and swapped databases), its role, its settings, its connections and its
//! event loop, and sets timers of its event loop.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use redis_module::raw;

use super::callback::{detached, guard};
use super::key::UNSEEN;
use super::{Arg, Ctx, audience, key};

/// Callbacks for the server's events. An event may come in the middle of a change of keys. So a callback may only note the event, and must
/// not open any key (except in `restored`).
pub(crate) trait KeyspaceEvents {
    /// A key has expired. In a transaction, it may be a key of another database than the selected one.
    fn expired(ctx: &Ctx<'_>, key: Arg<'_>);

    /// A key has been evicted, because memory is short.
    fn evicted(ctx: &Ctx<'_>, key: Arg<'_>);

    /// A command for keys of any type (`EXPIRE`, `PERSIST`, `RENAME`, `RESTORE`, ...) has changed a key of the database `db`. This event
    /// comes only after a call of `listen_to_keys`.
    fn touched(db: i32, key: Arg<'_>);

    /// `RESTORE` has made a key of the selected database. The key is complete, and may be read. This event comes only after a call of
    /// `listen_to_keys`.
    fn restored(ctx: &Ctx<'_>, key: Arg<'_>);

    /// The database `db` was emptied. `None` stands for all databases.
    fn flushed(db: Option<i32>);

    fn swapped(first: i32, second: i32);

    /// The module is loaded, and timers can be started.
    fn loaded(ctx: &Ctx<'_>);

    /// The server's cron runs, about ten times a second (its setting `hz`), whatever the wall clock says. The cron runs again in `again`
    /// ms.
    fn on_cron(ctx: &Ctx<'_>, again: i64);

    /// Some of the server's settings have changed.
    fn configured(ctx: &Ctx<'_>);

    /// This server has become a primary, or a replica if `primary` is false.
    fn role_changed(primary: bool);

    /// A connection closes, for whatever reason. The server still knows the client.
    fn disconnected(ctx: &Ctx<'_>, client: u64);
}

/// The callback for turns of the event loop (see `listen_to_turns`).
pub(crate) trait TurnEvents {
    /// The event loop has slept, and begins another turn. In the turn before, the server has sent the replies that it could send, and closed
    /// the connections that it had to close.
    fn slept();
}

/// A type with callbacks for events, in the table of what the module adds to the server (`Module`).
pub(crate) struct EventSpec {
    pub(super) subscribe: fn(*mut raw::RedisModuleCtx) -> bool,
    pub(super) loaded: fn(&Ctx<'_>),
}

impl EventSpec {
    pub(crate) const fn of<E: KeyspaceEvents>() -> Self {
        Self { subscribe: subscribe::<E>, loaded: E::loaded }
    }
}

fn subscribe<E: KeyspaceEvents>(ctx: *mut raw::RedisModuleCtx) -> bool {
    let class = raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
    // SAFETY: the server gave us the context for the time of loading.
    let keys = unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(ctx, class, Some(gone::<E>))) };
    let flush = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_FLUSHDB, dataver: 1 };
    // SAFETY: the context is valid for the time of loading, and the callback takes the data of this event, in this version.
    let flush = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, flush, Some(flushed::<E>))) };
    let swap = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_SWAPDB, dataver: 1 };
    // SAFETY: the server gave us the context for the time of loading.
    let swap = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, swap, Some(swapped::<E>))) };
    let client = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_CLIENT_CHANGE, dataver: 1 };
    // SAFETY: the server gave us the context for the time of loading.
    let client = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, client, Some(client_changed::<E>))) };
    let role = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, dataver: 1 };
    // SAFETY: the server gave us the context for the time of loading, and the callback does not use the data.
    let role = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, role, Some(role_changed::<E>))) };
    let config = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_CONFIG, dataver: 1 };
    // SAFETY: the server gave us the context for the time of loading.
    let config = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, config, Some(configured::<E>))) };
    let cron = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_CRON_LOOP, dataver: 1 };
    // SAFETY: the context is valid for the time of loading, and the callback takes the data of this event, in this version.
    let cron = unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, cron, Some(on_cron::<E>))) };
    [keys, flush, swap, client, role, config, cron]
        .iter()
        .all(|&status| status == raw::REDISMODULE_OK as c_int)
}

/// Subscribes to the events that `KeyspaceEvents::touched` and `restored` report. Returns whether the server accepted the subscription,
/// which can't be ended.
pub(crate) fn listen_to_keys<E: KeyspaceEvents>(ctx: &Ctx<'_>) -> bool {
    let class = raw::REDISMODULE_NOTIFY_GENERIC;
    // SAFETY: the context is valid (see `Ctx::new`).
    let status = unsafe { api!(RedisModule_SubscribeToKeyspaceEvents(ctx.raw(), class, Some(touched::<E>))) };
    status == raw::REDISMODULE_OK as c_int
}

/// Begins or ends the subscription to the event that `TurnEvents::slept` reports. Each of these events costs the server over a thousand
/// instructions, whatever the callback does, so the module subscribes only while it needs them. A subscription must not end while the server
/// reports any event, so only a timer may end it.
pub(crate) fn listen_to_turns<E: TurnEvents>(on: bool) {
    let event = raw::RedisModuleEvent { id: raw::REDISMODULE_EVENT_EVENTLOOP, dataver: 1 };
    let callback: raw::RedisModuleEventCallback = if on { Some(looped::<E>) } else { None };
    // SAFETY: the context is valid as long as the module is loaded, and the callback does not use the data.
    unsafe { api!(RedisModule_SubscribeToServerEvent(detached(), event, callback)) };
}

/// # Safety
/// Only the server calls this function, with a context and a key that are valid until it returns.
unsafe extern "C" fn gone<E: KeyspaceEvents>(
    ctx: *mut raw::RedisModuleCtx,
    class: c_int,
    _event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    // SAFETY: the key is valid until this callback returns.
    let key = unsafe { Arg::new(key) };
    key::disturb();
    if class == raw::REDISMODULE_NOTIFY_EVICTED {
        guard(c"evicted-event", || E::evicted(&ctx, key));
    } else {
        guard(c"expired-event", || E::expired(&ctx, key));
    }
    raw::REDISMODULE_OK as c_int
}

/// The database from which `MOVE` is moving a key.
static MOVED_FROM: AtomicI32 = AtomicI32::new(0);

/// # Safety
/// Only the server calls this function, with a context, an event's name and a key that are valid until it returns.
unsafe extern "C" fn touched<E: KeyspaceEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    // SAFETY: the server's text ends in NUL.
    let event = unsafe { CStr::from_ptr(event) };
    // SAFETY: the key is valid until this callback returns.
    let key = unsafe { Arg::new(key) };
    guard(c"key-event", || {
        let from = MOVED_FROM.load(Ordering::Relaxed);
        // In a transaction, Valkey 9 returns the client's own database here, instead of that to which `MOVE` has moved the key.
        let moved_to = || if event == c"move_to" && ctx.db() == from { db_of(&ctx, key) } else { None };
        E::touched(moved_to().unwrap_or_else(|| ctx.db()), key);
        if event == c"restore" {
            E::restored(&ctx, key);
        }
        // Valkey without the fix valkey-io/valkey#4024 runs this callback with the client that sent the command, and leaves this client in
        // the database of the last event. After a `MOVE`, this is the database that the key has moved to, so this code selects the client's
        // own database again.
        if event == c"move_from" {
            MOVED_FROM.store(ctx.db(), Ordering::Relaxed);
        } else if event == c"move_to" {
            ctx.select_db(from);
        }
    });
    raw::REDISMODULE_OK as c_int
}

/// Returns the database in which the context finds this key, if the key exists. Opens the key without a trace, because the server is in the
/// middle of a change.
fn db_of(ctx: &Ctx<'_>, key: Arg<'_>) -> Option<i32> {
    // SAFETY: context and key are valid (see `Ctx::new` and `Arg::new`).
    let open =
        unsafe { api!(RedisModule_OpenKey(ctx.raw(), key.raw(), (raw::REDISMODULE_READ | UNSEEN) as c_int)) };
    if open.is_null() {
        return None;
    }
    // SAFETY: the handle is open.
    let db = unsafe { api!(RedisModule_GetDbIdFromModuleKey(open)) };
    // SAFETY: the handle is open, and nobody uses it afterwards.
    unsafe { api!(RedisModule_CloseKey(open)) };
    Some(db)
}

/// # Safety
/// Only the server calls this function, with the data of a flush.
unsafe extern "C" fn flushed<E: KeyspaceEvents>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    if subevent != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    // SAFETY: the caller promises the data, in the version that `subscribe` names.
    let info = unsafe { &*data.cast::<raw::RedisModuleFlushInfo>() };
    let db = (info.dbnum >= 0).then_some(info.dbnum);
    key::emptied(db);
    guard(c"flush-event", || E::flushed(db));
}

/// # Safety
/// Only the server calls this function, with a context that is valid until it returns.
unsafe extern "C" fn configured<E: KeyspaceEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    _data: *mut c_void,
) {
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    guard(c"config-event", || E::configured(&ctx));
}

/// # Safety
/// Only the server calls this function, with a context that is valid until it returns, and the data of a run of its cron.
unsafe extern "C" fn on_cron<E: KeyspaceEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    data: *mut c_void,
) {
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    // SAFETY: the caller promises the data, in the version that `subscribe` names.
    let info = unsafe { &*data.cast::<raw::RedisModuleCronLoopInfo>() };
    guard(c"cron-event", || E::on_cron(&ctx, 1000 / i64::from(info.hz.max(1))));
    audience::on_cron(&ctx);
}

/// # Safety
/// Only the server calls this function, with the data of a swap.
unsafe extern "C" fn swapped<E: KeyspaceEvents>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _subevent: u64,
    data: *mut c_void,
) {
    // SAFETY: the caller promises the data, in the version that `subscribe` names.
    let info = unsafe { &*data.cast::<raw::RedisModuleSwapDbInfo>() };
    key::emptied(Some(info.dbnum_first));
    key::emptied(Some(info.dbnum_second));
    guard(c"swap-event", || E::swapped(info.dbnum_first, info.dbnum_second));
}

/// # Safety
/// Only the server calls this function, with the data of a client.
unsafe extern "C" fn client_changed<E: KeyspaceEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    if subevent != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
        return;
    }
    // SAFETY: the caller promises the data, in the version that `subscribe` names.
    let info = unsafe { &*data.cast::<raw::RedisModuleClientInfo>() };
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    guard(c"client-event", || E::disconnected(&ctx, info.id));
}

/// # Safety
/// Only the server calls this function, with a context that is valid until it returns.
unsafe extern "C" fn looped<E: TurnEvents>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    if subevent == raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP {
        guard(c"loop-event", E::slept);
    }
}

/// # Safety
/// Only the server calls this function.
unsafe extern "C" fn role_changed<E: KeyspaceEvents>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _data: *mut c_void,
) {
    audience::begin();
    guard(c"role-event", || {
        E::role_changed(subevent == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER);
    });
}

/// The work of a timer.
pub(crate) trait TimerTask: Sized {
    const NAME: &'static CStr;

    fn run(ctx: &Ctx<'_>);

    /// After a panic of `run`, sets the timer again, because otherwise the task might never run again.
    fn run_again() {
        Timer::after::<Self>(AFTER_PANIC);
    }
}

/// The time in ms after which a timer whose task panicked fires again. The pause is long, because the cause of the panic may still be
/// there.
pub(crate) const AFTER_PANIC: i64 = 100;

/// The longest delay of a timer in ms: a day. The server multiplies the delay without a check, and an overflow would stop all its timers.
const LONGEST: i64 = 86_400_000;

/// A timer that has not fired yet.
pub(crate) struct Timer(raw::RedisModuleTimerID);

impl Timer {
    /// Sets a timer that fires after this many ms, but after a day at most. After 0 ms, the timer fires when the commands that have already
    /// arrived are done, before their replies are sent. Dropping the value does not stop the timer.
    pub(crate) fn after<A: TimerTask>(delay: i64) -> Self {
        // SAFETY: the context is valid as long as the module is loaded. The timer carries no data.
        let id = unsafe {
            api!(RedisModule_CreateTimer(
                detached(),
                delay.clamp(0, LONGEST),
                Some(run::<A>),
                std::ptr::null_mut()
            ))
        };
        Self(id)
    }

    /// Stops the timer. This method must not be called while the timer fires.
    pub(crate) fn stop(self) {
        // SAFETY: the context is valid as long as the module is loaded. The server returns an error for a timer that it does not know.
        unsafe { api!(RedisModule_StopTimer(detached(), self.0, std::ptr::null_mut())) };
    }
}

/// # Safety
/// Only the server calls this function, with a context that is valid until it returns.
unsafe extern "C" fn run<A: TimerTask>(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the server gave the context to this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    fire::<A>(&ctx);
}

/// Runs the task, as its timer would. After a panic, sets the timer again.
pub(crate) fn fire<A: TimerTask>(ctx: &Ctx<'_>) {
    if guard(A::NAME, || A::run(ctx)).is_none() {
        guard(A::NAME, A::run_again);
    }
}
