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
    /// It has the lock, and is to claim it.
    Granted(Fence),
    /// It has the lock for that long, in ms, and need not claim it before its work begins. The slot, if it asked with `LIMIT`; and the number that
    /// it said when it asked last.
    Start { fence: Fence, lease: Millis, slot: Option<Slot>, number: NonZeroU64 },
    /// It waits no longer: its time is up.
    Timeout,
    /// It waits no longer, or its holder hears nothing more: asking again tells why.
    Gone,
    /// Its grant has ended, and not by its own release.
    Lost(Fence),
    /// Somebody waits for its lock.
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
    /// The holders of that lock are to be told that somebody waits, if that is still so: one after the other.
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
