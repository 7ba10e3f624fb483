//! One message, and one entry in the list of those who are to be told.

use std::num::NonZeroU64;

use super::lock_id::LockId;
use super::queue::RequestId;
use super::waiter::Channel;
use crate::lock::{Fence, Millis, Owner, Slot};

/// What a message tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum MessageKind {
    /// The owner has the lock, and is to claim it.
    Granted(Fence),
    /// The owner has the lock for the lease, in ms, and need not claim it before its work begins. The slot is there if it asked with
    /// `LIMIT`. The number is what the owner said when it asked last.
    Start { fence: Fence, lease: Millis, slot: Option<Slot>, number: NonZeroU64 },
    /// The owner waits no longer, since its time is up.
    Timeout,
    /// The owner waits no longer, or hears nothing more of its grant. If it asks again, it learns why.
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

/// Somebody is to be told something.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(super) enum Notice {
    /// A waiter whose place in its queue has come to its end.
    Waiter(RequestId),
    Message(Message),
    /// The holders of this lock are to be told, one after the other, that somebody waits, if somebody still does.
    Wanted(LockId),
}

/// An answer or a message that is to be sent now.
pub(crate) enum Outgoing<C> {
    /// A client that is blocked.
    Client(C),
    /// A waiter that is notified.
    Place(RequestId),
    Message(Message),
}
