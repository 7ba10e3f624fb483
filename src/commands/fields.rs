//! Writes the fields of maps in replies.

use crate::server::Ctx;
use crate::serving;
use rules::lock::{Owner, Room};
use rules::waiting::WaiterInfo;

pub(super) fn field(ctx: &Ctx<'_>, name: &str, value: &[u8]) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_bytes(value);
}

pub(super) fn count(ctx: &Ctx<'_>, name: &str, value: i64) {
    ctx.reply_bytes(name.as_bytes());
    ctx.reply_integer(value);
}

/// The number of fields that `waiter` writes.
pub(super) const WAITER: usize = 9;

/// Writes an owner's name, or an empty text if the user may not write to the key, because whoever knows the name can release the lock.
pub(super) fn owner(ctx: &Ctx<'_>, name: &str, owner: &Owner<'_>, may_write: bool) {
    let text = owner.text();
    field(ctx, name, if may_write { text.as_ref() } else { b"" });
}

pub(super) fn waiter(ctx: &Ctx<'_>, waiter: &WaiterInfo, may_write: bool) {
    owner(ctx, "owner", &waiter.owner, may_write);
    client(ctx, Some(waiter.connection), waiter.address.as_deref(), may_write);
    count(ctx, "waited-ms", waiter.waited);
    count(ctx, "timeout-ms", waiter.timeout);
    field(ctx, "waits-by", if waiter.address.is_some() { b"notify" } else { b"block" });
    mode(ctx, waiter.room);
    field(ctx, "label", &waiter.label);
}

/// Writes the fields `mode` and `limit`, which say how many holders a grant or a request allows.
pub(super) fn mode(ctx: &Ctx<'_>, room: Room) {
    field(ctx, "mode", if room.is_exclusive() { b"exclusive" } else { b"shared" });
    count(ctx, "limit", room.most().unwrap_or(0).into());
}

/// Writes the id of a client, or 0 if there is none, and what the client says of itself.
pub(super) fn client(ctx: &Ctx<'_>, client: Option<u64>, address: Option<&[u8]>, may_write: bool) {
    count(ctx, "client-id", client.unwrap_or(0).cast_signed());
    field(ctx, "client-name", &serving::client_name(ctx, client, address, may_write));
}
