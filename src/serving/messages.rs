//! What is published, in words: `granted FENCE OWNER` and the like. The owner stands last, since it may hold any byte.

use crate::server::Ctx;
use crate::stats;
use crate::waiting::{Message, Word};

/// Publishes a message; whether somebody may have heard it. In a cluster this server knows its own subscribers only.
pub(super) fn publish(ctx: &Ctx<'_>, message: &Message) -> bool {
    let receivers = ctx.publish(&message.channel, &text(message));
    stats::MESSAGES.count();
    let heard = receivers > 0 || ctx.is_cluster();
    if !heard {
        stats::MESSAGES_UNHEARD.count();
    }
    heard
}

fn text(message: &Message) -> Vec<u8> {
    let word = match message.word {
        Word::Granted(fence) => format!("granted {} ", fence.get()),
        Word::Lost(fence) => format!("lost {} ", fence.get()),
        Word::Wanted(fence) => format!("wanted {} ", fence.get()),
        Word::Timeout => "timeout ".to_string(),
        Word::Gone => "gone ".to_string(),
    };
    [word.as_bytes(), message.owner.text().as_ref()].concat()
}
