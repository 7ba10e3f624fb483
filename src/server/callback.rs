//! What a callback needs: its context, through which it asks the server, replies to the client, and replicates; a guard that keeps panics
//! away from the server (a panic that crossed the C boundary would end the process); a cell for the module's global state; and the log.

use std::cell::{RefCell, RefMut};
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use redis_module::raw;

use super::{Arg, OwnString};

/// The context of a running callback.
pub(crate) struct Ctx<'a> {
    ctx: *mut raw::RedisModuleCtx,
    life: PhantomData<&'a ()>,
}

/// The flags of a context in which effects (commands that carry changes) may arrive from a primary or a file.
pub(super) const EFFECTS: u32 = raw::REDISMODULE_CTX_FLAGS_REPLICATED
    | raw::REDISMODULE_CTX_FLAGS_LOADING
    | raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING;

/// Whether it is certain that nobody receives what this server replicates (see `audience`).
pub(super) static NOBODY: AtomicBool = AtomicBool::new(false);

impl Ctx<'_> {
    /// # Safety
    /// The context is the context of the running callback.
    pub(super) unsafe fn new(ctx: *mut raw::RedisModuleCtx) -> Self {
        Self { ctx, life: PhantomData }
    }

    pub(super) fn raw(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    pub(crate) fn reply_array(&self, len: usize) {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_ReplyWithArray(self.ctx, len as i64)) };
    }

    /// Begins a map of this many pairs, which is a flat array in RESP2.
    pub(crate) fn reply_map(&self, pairs: usize) {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_ReplyWithMap(self.ctx, pairs as i64)) };
    }

    pub(crate) fn reply_integer(&self, value: i64) {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_ReplyWithLongLong(self.ctx, value)) };
    }

    pub(crate) fn reply_bytes(&self, bytes: &[u8]) {
        // SAFETY: the context is valid (see `new`), and the server copies `len` bytes before it returns.
        unsafe { api!(RedisModule_ReplyWithStringBuffer(self.ctx, bytes.as_ptr().cast(), bytes.len())) };
    }

    /// Replies with a status, such as `OK`.
    pub(crate) fn reply_status(&self, text: &CStr) {
        // SAFETY: the context is valid (see `new`), and the server copies the text before it returns.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.ctx, text.as_ptr())) };
    }

    /// Replies with null where a single value would be.
    pub(crate) fn reply_null(&self) {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_ReplyWithNull(self.ctx)) };
    }

    /// Replies with null where an array would be.
    pub(crate) fn reply_null_array(&self) {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_ReplyWithNullArray(self.ctx)) };
    }

    /// Replies with an error: its code, a space, its text.
    pub(crate) fn reply_error(&self, error: &CStr) {
        // SAFETY: the context is valid (see `new`), and the server copies the text, and never uses the text as a format.
        unsafe { api!(RedisModule_ReplyWithError(self.ctx, error.as_ptr())) };
    }

    /// Replies with an error whose text was put together at run time. A NUL would end the text early, so each NUL becomes a space.
    pub(crate) fn reply_error_text(&self, text: &str) {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        self.reply_error(&text);
    }

    /// Tells clients that `WATCH` or cache this key that the key has changed.
    pub(crate) fn signal_modified(&self, key: Arg<'_>) {
        // SAFETY: context and string are valid (see their `new`).
        unsafe { api!(RedisModule_SignalModifiedKey(self.ctx, key.raw())) };
    }

    /// Publishes a keyspace event of the class `module`.
    pub(crate) fn notify(&self, event: &CStr, key: Arg<'_>) {
        let class = raw::REDISMODULE_NOTIFY_MODULE;
        // SAFETY: context and string are valid (see their `new`), and the server copies the event's name.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.ctx, class, event.as_ptr(), key.raw())) };
    }

    /// Whether an effect has to be replicated. If nobody listens, this function makes the server count the running command as a change of
    /// the data set (for `save` points), and the caller has nothing more to do.
    pub(crate) fn must_replicate(&self) -> bool {
        let listens = !NOBODY.load(Ordering::Relaxed);
        if !listens {
            // Replicating the request does no harm, because nobody receives it. The server counts the replicated request as a change of the
            // data set, and the module API has no other cheap call that makes the server do so.
            self.replicate_verbatim();
        }
        listens
    }

    /// Sends the running command unchanged to the replicas and the append-only file.
    pub(crate) fn replicate_verbatim(&self) {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_ReplicateVerbatim(self.ctx)) };
    }

    /// Sends `command key` to the replicas and the append-only file. Returns whether the server accepted the command.
    pub(crate) fn replicate_key(&self, command: &CStr, key: Arg<'_>) -> bool {
        // SAFETY: context and string are valid (see their `new`), and the format says that a server string follows.
        let status =
            unsafe { api!(RedisModule_Replicate(self.ctx, command.as_ptr(), c"s".as_ptr(), key.raw())) };
        status == raw::REDISMODULE_OK as i32
    }

    /// Sends `command key bytes` to the replicas and the append-only file. Returns whether the server accepted the command.
    pub(crate) fn replicate_bytes(&self, command: &CStr, key: Arg<'_>, bytes: &[u8]) -> bool {
        // SAFETY: context and string are valid (see their `new`), and the format says that a server string and a buffer with its length (a
        // `usize`) follow.
        let status = unsafe {
            api!(RedisModule_Replicate(
                self.ctx,
                command.as_ptr(),
                c"sb".as_ptr(),
                key.raw(),
                bytes.as_ptr(),
                bytes.len(),
            ))
        };
        status == raw::REDISMODULE_OK as i32
    }

    pub(crate) fn db(&self) -> i32 {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_GetSelectedDb(self.ctx)) }
    }

    /// Selects a database for the rest of this callback. Returns whether a database with this number exists.
    pub(crate) fn select_db(&self, db: i32) -> bool {
        // SAFETY: the context is valid (see `new`).
        let status = unsafe { api!(RedisModule_SelectDb(self.ctx, db)) };
        status == raw::REDISMODULE_OK as i32
    }

    /// Runs `body` with this database selected, and then selects the earlier database again. Returns `None` if there is no such database.
    pub(crate) fn in_db<R>(&self, db: i32, body: impl FnOnce() -> R) -> Option<R> {
        struct Back<'a>(&'a Ctx<'a>, i32);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.select_db(self.1);
            }
        }
        let _back = Back(self, self.db());
        self.select_db(db).then(body)
    }

    /// Whether the server calls the command only to ask for the positions of its keys.
    pub(super) fn asks_for_keys(&self) -> bool {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.ctx)) != 0 }
    }

    /// Tells the server that the argument at this place is a key, and how the command uses the key.
    pub(super) fn tell_key(&self, place: usize, access: u32) {
        let Ok(place) = i32::try_from(place) else { return };
        // SAFETY: the context is valid (see `new`), and the server asks for keys.
        unsafe { api!(RedisModule_KeyAtPosWithFlags(self.ctx, place, access.cast_signed())) };
    }

    pub(crate) fn client_id(&self) -> u64 {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_GetClientId(self.ctx)) }
    }

    /// Returns the flags of the context: the kind of client that runs the command, and the state of the server.
    pub(super) fn flags(&self) -> u32 {
        // SAFETY: the context is valid (see `new`).
        unsafe { api!(RedisModule_GetContextFlags(self.ctx)) }.cast_unsigned()
    }

    /// Whether the client may be blocked. A client may not be blocked in a transaction, a script or a function, on a connection for which
    /// the server forbids blocking, or on a replica, which hands no lock over. Commands from a primary or a file may not be blocked either.
    pub(crate) fn may_block(&self) -> bool {
        const NO_WAITING: u32 = raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA
            | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING
            | raw::REDISMODULE_CTX_FLAGS_SLAVE
            | EFFECTS;
        self.flags() & NO_WAITING == 0
    }

    /// Whether a script or a function runs the command.
    pub(crate) fn is_script(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_LUA != 0
    }

    pub(crate) fn is_replica(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_SLAVE != 0
    }

    pub(crate) fn is_cluster(&self) -> bool {
        /// Whether the server is part of a cluster, which does not change while the server runs.
        static CLUSTER: OnceLock<bool> = OnceLock::new();
        *CLUSTER.get_or_init(|| self.flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0)
    }

    /// Whether the data set must not change now, because clients are paused or a replica is about to take over.
    pub(crate) fn must_keep_still(&self) -> bool {
        // SAFETY: the function takes nothing.
        unsafe { api!(RedisModule_AvoidReplicaTraffic()) != 0 }
    }

    /// Runs `body` with a server's string that has these bytes.
    pub(crate) fn with_string<R>(&self, bytes: &[u8], body: impl FnOnce(Arg<'_>) -> R) -> R {
        body(OwnString::new(bytes).arg())
    }

    /// Whether the running command comes from this server's primary or from its own append-only file. (`ASYNC_LOADING` is not among the
    /// flags, because a replica that loads a data set beside the present one serves clients meanwhile, and effects arrive only afterwards.)
    pub(crate) fn applies_effects(&self) -> bool {
        const SENDERS: u32 = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        self.flags() & SENDERS != 0
    }

    /// Writes a line to the server's log. The line may have any characters.
    pub(crate) fn log(&self, level: LogLevel, line: &str) {
        log(self.ctx, level, line);
    }
}

/// The module's own context, for calls to the server (such as starting a timer) from code that has no callback's context.
static DETACHED: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(std::ptr::null_mut());

/// Gets the module's own context from the server, once, when the module is loaded.
pub(super) fn open_detached(ctx: *mut raw::RedisModuleCtx) {
    // SAFETY: the server gave us the context for the time of loading, and the new context lives as long as the module.
    let own = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx)) };
    DETACHED.store(own, Ordering::Relaxed);
}

/// Returns the module's own context, which can't be used to reply or replicate.
pub(super) fn detached() -> *mut raw::RedisModuleCtx {
    DETACHED.load(Ordering::Relaxed)
}

thread_local! {
    /// The message of this thread's last panic, and its place in the source.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of a callback. If the body panics, returns `None`, and logs the callback's name and the panic's message.
///
/// Later callbacks see the state that a panic left behind, so a callback should change state last.
pub(super) fn guard<R>(callback: &'static CStr, body: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(debug_assertions)]
        super::faults::strike(callback);
        body()
    }));
    // The report may panic, too, because a fuzzer has no server with a log. Then nothing can report the panic.
    result.map_err(|_| catch_unwind(AssertUnwindSafe(|| report(callback)))).ok()
}

/// Keeps the messages of panics for the server's log, because the server's standard error often goes nowhere. Must be called before the
/// first callback, but after the module got the server's allocator.
pub(super) fn note_panics() {
    set_hook(Box::new(|panic| LAST_PANIC.set(panic.to_string())));
}

#[cold]
fn report(callback: &CStr) {
    let message = LAST_PANIC.take().replace('\n', " ");
    let line = format!("internal error in {}: {message}", callback.to_string_lossy());
    log(std::ptr::null_mut(), LogLevel::Warning, &line);
}

/// The level of a line in the server's log.
#[derive(Clone, Copy)]
pub(crate) enum LogLevel {
    Verbose,
    Notice,
    Warning,
}

/// Writes a line to the server's log. Control characters, which would end or break the line, are escaped.
pub(super) fn log(ctx: *mut raw::RedisModuleCtx, level: LogLevel, line: &str) {
    let level = match level {
        LogLevel::Verbose => c"verbose",
        LogLevel::Notice => c"notice",
        LogLevel::Warning => c"warning",
    };
    let mut text = String::with_capacity(line.len() + 1);
    // Nearly all lines need no escape, and take this fast path. Work on a line is often in vain, because the server's `loglevel` keeps most
    // lines out of the log.
    if line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        text.push_str(line);
    } else {
        for character in line.chars() {
            match character {
                control if control.is_control() => text.extend(control.escape_default()),
                other => text.push(other),
            }
        }
    }
    text.push('\0');
    // SAFETY: the server takes a null context or a valid one. Level, format and text end in NUL, and the format takes one string. The text
    // has no other NUL, because control characters are escaped.
    unsafe { api!(RedisModule_Log(ctx, level.as_ptr(), c"%s".as_ptr(), text.as_ptr())) };
}

/// A global value that only callbacks, which the server runs, use.
///
/// A `Mutex` would not do, because callbacks nest (deleting a key calls the type's `unlink`). A second lock by the same thread would hang
/// the server, while a second borrow of a `RefCell` panics, and `guard` turns the panic into an error. A `thread_local!` would not do,
/// because another module may call our commands from its own thread, under the server's lock, and must find the same state.
pub(crate) struct ServerCell<T>(RefCell<T>);

// SAFETY: the server runs callbacks one at a time under its global lock, on whichever thread, and only callbacks call `with` and `lend`, the
// only access to the state. Only a type's `free` may run on a background thread at the same time as other callbacks, but `free` only drops a
// value, and calls neither.
unsafe impl<T: Send> Sync for ServerCell<T> {}

impl<T> ServerCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Lends the state. Until it is given back, the server must not be called, as in `with`.
    pub(crate) fn lend(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }

    /// Runs `body` on the state. `body` must not call the server, because the server may then run a callback that needs the state, too.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}
