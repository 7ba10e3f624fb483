//! Replies that more than one place gives.

use crate::lock::{Fence, Millis};
use crate::server::Ctx;

/// Tells the owner of its grant; the lease in ms.
pub(crate) fn reply_grant(ctx: &Ctx<'_>, owner: &[u8], fence: Fence, holds: u32, lease: Millis) {
    ctx.reply_array(4);
    ctx.reply_bytes(owner);
    ctx.reply_integer(fence.get().cast_signed());
    ctx.reply_integer(holds.into());
    ctx.reply_integer(lease);
}
