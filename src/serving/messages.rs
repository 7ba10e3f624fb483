//! Makes and publishes messages such as `granted FENCE OWNER`. The owner comes last, because its name may have any bytes.

use std::sync::Arc;

use crate::lock::Slot;
use crate::server::Ctx;
use crate::stats;
use crate::waiting::{Message, MessageKind};

/// Returns the address for messages to a user: the user's name, a NUL, and the channel's name.
pub(super) fn address(user: &[u8], channel: &[u8]) -> Arc<[u8]> {
    [user, b"\0", channel].concat().into()
}

/// Splits an address at its first NUL. The user's name has none, because servers refuse such names.
fn user_and_channel(address: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = address.splitn(2, |&byte| byte == 0);
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// Publishes a message, unless its user has lost the right to the channel. Returns whether somebody may have received the message. In a
/// cluster, this is so for every published message, because this server knows only its own subscribers.
pub(super) fn publish(ctx: &Ctx<'_>, message: &Message) -> bool {
    let (user, channel) = user_and_channel(&message.channel.address);
    let may = ctx.user_may_publish(user, channel);
    let heard = may && (ctx.publish(channel, &text(message)) > 0 || ctx.is_cluster());
    stats::MESSAGES.count();
    if !heard {
        stats::MESSAGES_UNHEARD.count();
    }
    heard
}

fn text(message: &Message) -> Vec<u8> {
    let kind = match message.kind {
        MessageKind::Granted(fence) => format!("granted {} ", fence.get()),
        MessageKind::Start { fence, lease, slot, number } => {
            format!("start {} {lease} {} {number} ", fence.get(), slot.map_or(0, Slot::get))
        }
        MessageKind::Lost(fence) => format!("lost {} ", fence.get()),
        MessageKind::Wanted(fence) => format!("wanted {} ", fence.get()),
        MessageKind::Timeout => "timeout ".to_string(),
        MessageKind::Gone => "gone ".to_string(),
    };
    [kind.as_bytes(), message.owner.text().as_ref()].concat()
}
