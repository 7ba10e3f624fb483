//! Replies that several commands give.

use crate::server::Ctx;
use rules::lock::{Got, Millis, Slot};

/// Replies with a grant, and the length of its lease in ms. If the owner asked with `LIMIT`, the slot (the number of its permit) comes
/// last.
pub(crate) fn reply_grant(ctx: &Ctx<'_>, owner: &[u8], got: Got, lease: Millis) {
    ctx.reply_array(if got.slot.is_some() { 5 } else { 4 });
    ctx.reply_bytes(owner);
    ctx.reply_integer(got.fence.get().cast_signed());
    ctx.reply_integer(got.holds.into());
    ctx.reply_integer(lease);
    if let Some(slot) = got.slot {
        ctx.reply_integer(slot.get().into());
    }
}

/// Replies with the grants of several locks, in the order of the keys, and with the length in ms of the lease that ends first.
pub(crate) fn reply_grants(ctx: &Ctx<'_>, owner: &[u8], all: &[Got], lease: Millis) {
    let slots: Vec<Slot> = all.iter().filter_map(|got| got.slot).collect();
    ctx.reply_array(if slots.is_empty() { 4 } else { 5 });
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
    if !slots.is_empty() {
        ctx.reply_array(slots.len());
        slots.iter().for_each(|slot| ctx.reply_integer(slot.get().into()));
    }
}
