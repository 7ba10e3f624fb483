//! Blocked clients: the server sends such a client no reply to its command until the module, an operator or the server itself unblocks the
//! client.
//!
//! Each client is blocked on a key, so that a server that loses the key's hash slot sends the client away (`-MOVED`). A server that is
//! demoted sends away all blocked clients (`-UNBLOCKED`), and `CLIENT UNBLOCK` works, too. The module unblocks one chosen client at a time.
//! The module does not signal the key as ready, because the server would then call the module for every client that is blocked on the key.

use std::ffi::{c_int, c_void};
use std::num::NonZeroU64;
use std::ptr::NonNull;

use redis_module::raw;

use super::callback::guard;
use super::{Ctx, kind};

// The server keeps a client's number (see `BlockedEvents`) where it expects a pointer, so both must have the same size.
const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// Callbacks for blocked clients. Each client has a number, which the caller of `BlockedClient::new` chose.
pub(crate) trait BlockedEvents {
    /// Replies to a client that `BlockedClient::unblock` has unblocked, or that an operator has unblocked as if the client's time were up
    /// (`CLIENT UNBLOCK ... TIMEOUT`).
    fn reply(ctx: &Ctx<'_>, number: NonZeroU64);

    /// The client disconnected, the server has sent it away with an error, or `reply` panicked. So the client can't learn its answer any
    /// more.
    fn departed(number: NonZeroU64);

    /// The server is done with this client. `gone` is true if the client had disconnected, or been sent away, before.
    fn finished(ctx: &Ctx<'_>, number: NonZeroU64, gone: bool);

    /// The last callback for a client, which follows `finished` even if `finished` panicked. The client's handle is invalid from now on.
    fn freed(number: NonZeroU64);
}

/// The handle of a blocked client. The handle is valid until `BlockedEvents::freed` is called with the client's number.
#[derive(Clone, Copy)]
pub(crate) struct BlockedClient(NonNull<raw::RedisModuleBlockedClient>);

// SAFETY: only callbacks use the pointer, and callbacks run one at a time under the server's lock.
unsafe impl Send for BlockedClient {}

impl BlockedClient {
    /// Blocks the client of the running command on a key of this name until the client is unblocked. Returns `None` if the server refuses
    /// to block the client.
    ///
    /// The caller must check `Ctx::may_block` first, because inside a transaction, the server would send an error and leak the handle.
    pub(crate) fn new<E: BlockedEvents>(ctx: &Ctx<'_>, key: &[u8], number: NonZeroU64) -> Option<Self> {
        // SAFETY: the context is valid, and the server copies the bytes into a string that is ours.
        let mut key = unsafe { api!(RedisModule_CreateString(ctx.raw(), key.as_ptr().cast(), key.len())) };
        // SAFETY: context and string are valid, and the server takes its own reference to the string. The private data is a number in the
        // place of a pointer, and nobody dereferences it.
        let client = unsafe {
            api!(RedisModule_BlockClientOnKeys(
                ctx.raw(),
                Some(key_ready),
                Some(reply::<E>),
                Some(freed::<E>),
                0,
                &raw mut key,
                1,
                std::ptr::without_provenance_mut(number.get() as usize),
            ))
        };
        // SAFETY: the string is ours, and not used any more.
        unsafe { api!(RedisModule_FreeString(ctx.raw(), key)) };
        let client = NonNull::new(client)?;
        // SAFETY: the handle was just made.
        unsafe { api!(RedisModule_SetDisconnectCallback(client.as_ptr(), Some(departed::<E>))) };
        Some(Self(client))
    }

    /// Makes the server call `BlockedEvents::reply` for the client, before this function returns or, on some servers, before the event loop
    /// sleeps. Does nothing for a client that is gone.
    pub(crate) fn unblock(self) {
        // SAFETY: the handle is valid until `freed` is called, and whoever keeps the handle drops it at that call.
        unsafe { api!(RedisModule_UnblockClient(self.0.as_ptr(), std::ptr::null_mut())) };
    }
}

fn number(private: *mut c_void) -> Option<NonZeroU64> {
    NonZeroU64::new(private.addr() as u64)
}

/// Returns the number of the blocked client for which the server runs a callback.
///
/// # Safety
/// The context is the context of the running callback.
unsafe fn number_in(ctx: *mut raw::RedisModuleCtx) -> Option<NonZeroU64> {
    // SAFETY: the caller promises the context of the running callback.
    number(unsafe { api!(RedisModule_GetBlockedClientPrivateData(ctx)) })
}

/// The server calls this function when somebody writes to the key on which a client is blocked. The result says that the client stays
/// blocked.
unsafe extern "C" fn key_ready(
    _ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // This guard has an empty body. By the guard's name, tests notice calls of this function. The tests check which commands write to the
    // key, because each write costs one call for each waiter.
    guard(c"key-ready", || ());
    raw::REDISMODULE_ERR as c_int
}

/// # Safety
/// Only the server calls this function, for a client that `new` blocked.
unsafe extern "C" fn reply<E: BlockedEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    let replied = guard(c"reply", || {
        // SAFETY: the server gave the context to this callback.
        let number = unsafe { number_in(ctx) };
        // SAFETY: the server gave the context to this callback.
        let ctx = unsafe { Ctx::new(ctx) };
        number.map(|number| E::reply(&ctx, number))
    });
    if replied.is_none() {
        guard(c"error-reply", || {
            // SAFETY: the server gave the context to this callback.
            let ctx = unsafe { Ctx::new(ctx) };
            ctx.reply_error(c"ERR internal error");
        });
        // The reply panicked, so the client does not know of its grant, and counts as gone. SAFETY: the server gave the context to this
        // callback.
        guard(c"disconnect", || unsafe { number_in(ctx) }.map(E::departed));
    }
    raw::REDISMODULE_OK as c_int
}

/// # Safety
/// Only the server calls this function, for a client that `new` blocked.
unsafe extern "C" fn departed<E: BlockedEvents>(
    ctx: *mut raw::RedisModuleCtx,
    _client: *mut raw::RedisModuleBlockedClient,
) {
    // SAFETY: the server gave the context to this callback.
    guard(c"disconnect", || unsafe { number_in(ctx) }.map(E::departed));
}

/// # Safety
/// Only the server calls this function, for a client that `new` blocked.
unsafe extern "C" fn freed<E: BlockedEvents>(ctx: *mut raw::RedisModuleCtx, private: *mut c_void) {
    guard(c"unblock", || {
        // SAFETY: the server gave the context to this callback.
        let gone = unsafe { api!(RedisModule_BlockedClientDisconnected(ctx)) } != 0;
        // SAFETY: the server gave the context to this callback.
        let ctx = unsafe { Ctx::new(ctx) };
        number(private).map(|number| E::finished(&ctx, number, gone))
    });
    guard(c"free-client", || number(private).map(E::freed));
}

/// Whether the reply to a blocked client was certainly sent, on a connection that is still open. The server must be done with the blocked
/// client. `unblocked` must be true if `BlockedClient::unblock` caused the reply.
pub(crate) fn reply_arrived(client: u64, unblocked: bool) -> bool {
    client_exists(client) && !(unblocked && kind::keeps_replies())
}

/// Whether a connection with this id is open.
pub(crate) fn client_exists(id: u64) -> bool {
    // SAFETY: the server takes a null pointer if only the status is asked for.
    let status = unsafe { api!(RedisModule_GetClientInfoById(std::ptr::null_mut(), id)) };
    status == raw::REDISMODULE_OK as c_int
}
