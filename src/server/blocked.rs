//! Clients that wait: blocked in a command until the module answers them, their time is up, or they go away.
//!
//! A client is blocked on a key, not plainly, since the server then sends it away by itself when this server is
//! demoted (`-UNBLOCKED`) or loses the key's slot (`-MOVED`), and `CLIENT UNBLOCK` works. It is woken by hand, one
//! chosen client at a time, never by the key becoming "ready", which would ask every waiter in turn.

use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;
use std::ptr::NonNull;

use redis_module::raw;

use super::guard::guard;
use super::{Ctx, kind};

// A client's number travels as a pointer.
const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// Is told what becomes of blocked clients. Each client has a number, chosen by whoever blocked it.
pub(crate) trait BlockedEvents {
    /// The client was unblocked by `Blocked::unblock`, or an operator sends it away as if its time were up
    /// (`CLIENT UNBLOCK ... TIMEOUT`): answer it now.
    fn answer(ctx: &Ctx<'_>, number: NonZeroU64);

    /// The client went away, or the server has sent it away with an error of its own. No answer can reach it.
    fn departed(number: NonZeroU64);

    /// The server is done with this client. `gone` tells that it was before it came to this: the connection closed, or the
    /// server sent it away.
    fn ended(ctx: &Ctx<'_>, number: NonZeroU64, gone: bool);

    /// The last word on this client, after `ended`, also where that panicked: its handle is invalid from now on.
    fn freed(number: NonZeroU64);
}

/// A blocked client; valid until `BlockedEvents::freed` with its number.
#[derive(Clone, Copy)]
pub(crate) struct Blocked(NonNull<raw::RedisModuleBlockedClient>);

// SAFETY: a pointer that only callbacks use, and they run one at a time under the server's lock.
unsafe impl Send for Blocked {}

impl Blocked {
    /// Blocks the client of the running command on a key of that name until it is unblocked.
    ///
    /// `None` where the server refuses. Callers ask `Ctx::may_block` first: inside a transaction the server would
    /// send an error and leak the handle.
    pub(crate) fn new<E: BlockedEvents>(ctx: &Ctx<'_>, key: &[u8], number: NonZeroU64) -> Option<Self> {
        // SAFETY: the context is valid; the server copies the bytes into a string that is ours.
        let mut key = unsafe { api!(RedisModule_CreateString(ctx.raw(), key.as_ptr().cast(), key.len())) };
        // SAFETY: context and string are valid, and the server takes its own reference to the string. The private data
        // is a number in the place of a pointer, never followed.
        let client = unsafe {
            api!(RedisModule_BlockClientOnKeys(
                ctx.raw(),
                Some(key_ready),
                Some(answer::<E>),
                Some(freed::<E>),
                0,
                &raw mut key,
                1,
                std::ptr::without_provenance_mut(number.get() as usize),
            ))
        };
        // SAFETY: ours, and not used any more.
        unsafe { api!(RedisModule_FreeString(ctx.raw(), key)) };
        let client = NonNull::new(client)?;
        // SAFETY: the handle was just made.
        unsafe { api!(RedisModule_SetDisconnectCallback(client.as_ptr(), Some(departed::<E>))) };
        Some(Self(client))
    }

    /// Has the client answered through `BlockedEvents::answer`: before this returns or, on other servers, before the
    /// event loop sleeps. Does nothing for one that is gone.
    pub(crate) fn unblock(self) {
        // SAFETY: the handle is valid until `freed`, which is when its owner forgets it.
        unsafe { api!(RedisModule_UnblockClient(self.0.as_ptr(), std::ptr::null_mut())) };
    }
}

fn number(private: *mut c_void) -> Option<NonZeroU64> {
    NonZeroU64::new(private.addr() as u64)
}

/// The number of the client that a callback is about.
///
/// # Safety
/// The context is the one that the server gave to the callback which is running.
unsafe fn number_in(ctx: *mut raw::RedisModuleCtx) -> Option<NonZeroU64> {
    // SAFETY: the caller's promise.
    number(unsafe { api!(RedisModule_GetBlockedClientPrivateData(ctx)) })
}

/// The key that the client is blocked on was written: the client is not served by that.
unsafe extern "C" fn key_ready(
    _ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // Does nothing, but tests see that it is called: each write to the key would cost such a call for each waiter.
    guard(c"key-ready", || ());
    raw::REDISMODULE_ERR as c_int
}

/// # Safety
/// Called by the server for a client that `new` blocked.
unsafe extern "C" fn answer<E: BlockedEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    let answered = guard(c"reply", || {
        // SAFETY: the server gave it to this callback.
        let number = unsafe { number_in(ctx) };
        // SAFETY: as above.
        let ctx = unsafe { Ctx::new(ctx) };
        number.map(|number| E::answer(&ctx, number))
    });
    if answered.is_none() {
        guard(c"error-reply", || {
            // SAFETY: as above.
            let ctx = unsafe { Ctx::new(ctx) };
            ctx.reply_error(c"ERR internal error");
        });
        // What it was to be told it has not been told.
        // SAFETY: as above.
        guard(c"disconnect", || unsafe { number_in(ctx) }.map(E::departed));
    }
    raw::REDISMODULE_OK as c_int
}

/// # Safety
/// Called by the server for a client that `new` blocked.
unsafe extern "C" fn departed<E: BlockedEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _client: *mut raw::RedisModuleBlockedClient,
) {
    // SAFETY: the server gave the context to this callback.
    guard(c"disconnect", || unsafe { number_in(ctx) }.map(E::departed));
}

/// # Safety
/// Called by the server for a client that `new` blocked.
unsafe extern "C" fn freed<E: BlockedEvents>(ctx: *mut raw::RedisModuleCtx, private: *mut c_void) {
    guard(c"unblock", || {
        // SAFETY: the server gave the context to this callback.
        let gone = unsafe { api!(RedisModule_BlockedClientDisconnected(ctx)) } != 0;
        // SAFETY: as above.
        let ctx = unsafe { Ctx::new(ctx) };
        number(private).map(|number| E::ended(&ctx, number, gone))
    });
    guard(c"free-client", || number(private).map(E::freed));
}

/// Whether an answer that the server was given for a client, which it is done with by now, has reached it for certain.
/// `unblocked` tells that it was given because of `Blocked::unblock`.
pub(crate) fn answer_arrived(client: u64, unblocked: bool) -> bool {
    client_exists(client) && !(unblocked && kind::keeps_answers())
}

/// Whether a connection with that id is open.
pub(crate) fn client_exists(id: u64) -> bool {
    // SAFETY: the server takes null where nothing but the answer is asked.
    let status = unsafe { api!(RedisModule_GetClientInfoById(std::ptr::null_mut(), id)) };
    status == raw::REDISMODULE_OK as c_int
}
