//! Messages to waiters and holders.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::lock::{Fence, Millis, Owner, Slot};

/// The channel for messages to a client, and which messages the client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub struct Channel {
    /// Where messages go. Only `Host::publish` reads it.
    pub address: Arc<[u8]>,
    /// Whether the client, while it holds the lock, is also told that somebody waits.
    pub wanted: bool,
    /// The number that the client gave its request (`START`), and that the message repeats. If there is one, the client's work begins when
    /// the message arrives, and needs no claim first.
    pub start: Option<NonZeroU64>,
}

/// What a message tells the owner to whom it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub enum MessageKind {
    /// The owner has been granted the lock, and has to claim the grant.
    Granted(Fence),
    /// The owner has been granted the lock for `lease`, in ms, and need not claim the grant before its work begins. `slot` is the number of
    /// the owner's permit, if the owner asked with `LIMIT`. `number` is what the owner passed with its last request.
    Start { fence: Fence, lease: Millis, slot: Option<Slot>, number: NonZeroU64 },
    /// The owner's wait has ended, because its time is up.
    Timeout,
    /// The owner's wait has ended, or the owner gets no more messages about its grant. If the owner asks again, it learns why.
    Gone,
    /// The owner's grant has ended, but the owner has not released it.
    Lost(Fence),
    /// Somebody waits for the owner's lock.
    Wanted(Fence),
}

#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub struct Message {
    pub channel: Channel,
    pub kind: MessageKind,
    pub owner: Owner<'static>,
}

impl Message {
    /// Returns the message as its channel has it, such as `granted FENCE OWNER`. The owner comes last, because its name may have any bytes.
    pub fn text(&self) -> Vec<u8> {
        let kind = match self.kind {
            MessageKind::Granted(fence) => format!("granted {} ", fence.get()),
            MessageKind::Start { fence, lease, slot, number } => {
                format!("start {} {lease} {} {number} ", fence.get(), slot.map_or(0, Slot::get))
            }
            MessageKind::Lost(fence) => format!("lost {} ", fence.get()),
            MessageKind::Wanted(fence) => format!("wanted {} ", fence.get()),
            MessageKind::Timeout => "timeout ".to_string(),
            MessageKind::Gone => "gone ".to_string(),
        };
        [kind.as_bytes(), self.owner.text().as_ref()].concat()
    }
}
