//! Messages, and the list of who is to be told.

use std::num::NonZeroU64;

use super::lock_id::LockId;
use super::queue::RequestId;
use super::waiter::Channel;
use crate::lock::{Fence, Millis, Owner, Slot};

/// What a message tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum MessageKind {
    /// The owner has been granted the lock, and is to claim the grant.
    Granted(Fence),
    /// The owner has been granted the lock for `lease`, in ms, and need not claim the grant before its work begins. The slot is set if the
    /// owner asked with `LIMIT`. `number` is what the owner passed with its last request.
    Start { fence: Fence, lease: Millis, slot: Option<Slot>, number: NonZeroU64 },
    /// The owner's wait has ended, since its time is up.
    Timeout,
    /// The owner's wait has ended, or it hears nothing more of its grant. If the owner asks again, it learns why.
    Gone,
    /// The owner's grant has ended, and not by its own release.
    Lost(Fence),
    /// Somebody waits for the owner's lock.
    Wanted(Fence),
}

#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Message {
    pub(crate) channel: Channel,
    pub(crate) kind: MessageKind,
    pub(crate) owner: Owner<'static>,
}

/// An entry in the list of who is to be told.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) enum Notice {
    /// A waiter that has left its queue, and is to be told its answer.
    Waiter(RequestId),
    Message(Message),
    /// The holders of this lock, which are to be told, one after the other, that somebody waits, if somebody still does.
    Wanted(LockId),
}

/// An answer or a message that is to be sent now.
pub(crate) enum Outgoing<C> {
    /// The answer to a blocked client.
    Client(C),
    /// The answer to a place, which is a message.
    Place(RequestId),
    Message(Message),
}
