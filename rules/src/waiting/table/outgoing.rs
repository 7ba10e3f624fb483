//! Messages, and the list of waiters and holders that have to be told something.

use std::num::NonZeroU64;

use super::lock_id::LockId;
use super::queue::RequestId;
use super::waiter::Channel;
use crate::lock::{Fence, Millis, Owner, Slot};

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

/// An entry in the list of waiters and holders that have to be told something.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) enum Notice {
    /// A waiter that has left its queue, and has to be told its answer.
    Waiter(RequestId),
    Message(Message),
    /// The holders of this lock. The module tells them, one after the other, that somebody waits, unless nobody waits any more.
    Wanted(LockId),
}

impl Notice {
    pub(super) fn waiter(&self) -> Option<RequestId> {
        match self {
            Self::Waiter(request) => Some(*request),
            _ => None,
        }
    }
}

/// An answer or a message that has to be sent now.
pub(crate) enum Outgoing<C> {
    /// The answer to a blocked client.
    Client(C),
    /// The answer to a waiter that is not blocked (a place): a message.
    Place(RequestId),
    Message(Message),
}
