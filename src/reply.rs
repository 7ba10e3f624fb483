//! Replies that more than one place gives.

use crate::lock::{Got, Millis};
use crate::server::Ctx;

/// Tells the owner of its grant; the lease in ms.
pub(crate) fn reply_grant(ctx: &Ctx<'_>, owner: &[u8], got: Got, lease: Millis) {
    ctx.reply_array(4);
    ctx.reply_bytes(owner);
    ctx.reply_integer(got.fence.get().cast_signed());
    ctx.reply_integer(got.holds.into());
    ctx.reply_integer(lease);
}

/// Tells the owner of its grants of several locks, in order; the lease that ends first in ms.
pub(crate) fn reply_grants(ctx: &Ctx<'_>, owner: &[u8], all: &[Got], lease: Millis) {
    ctx.reply_array(4);
    ctx.reply_bytes(owner);
    ctx.reply_array(all.len());
    for got in all {
        ctx.reply_integer(got.fence.get().cast_signed());
    }
    ctx.reply_array(all.len());
    for got in all {
        ctx.reply_integer(got.holds.into());
    }
    ctx.reply_integer(lease);
}
