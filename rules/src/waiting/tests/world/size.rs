//! The size of a world, and what may happen in it.

use std::num::NonZeroU64;

use super::super::server::{Conn, Rules};
use super::owner;
use crate::lock::{AcquireRequest, Millis, Room, Slot, SlotRequest};
use crate::waiting::{Channel, Confirm, WaitOptions};

/// The number of an owner.
pub(crate) type Who = u8;

/// The size of a world, and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) owners: Who,
    pub(crate) conns: Conn,
    pub(crate) leases: &'static [Millis],
    /// The time at which the clock of the world stops.
    pub(crate) horizon: Millis,
    pub(crate) kinds: &'static [Kind],
    /// The most grants in each millisecond.
    pub(crate) grants: i64,
    /// The most holds that an owner asks for.
    pub(crate) holds: u32,
    pub(crate) breaks: bool,
    pub(crate) happens: Happens,
    pub(crate) failover: Option<Failover>,
    /// The option `SYNC` of every request, if owners use `SYNC`.
    pub(crate) confirm: Option<Confirm>,
    pub(crate) rules: Rules,
}

/// What else may happen to a server and its clients.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Happens {
    /// Whether an operator sends waiters away.
    pub(crate) unblocks: bool,
    /// Whether the server finds out only later that a client is gone.
    pub(crate) vanishes: bool,
    /// Whether the server has to close connections, and does so at the end of a turn.
    pub(crate) dooms: bool,
    /// Whether the server refuses due work.
    pub(crate) refusals: bool,
    /// Whether the server may freeze although work is due.
    pub(crate) freezes: bool,
    /// Whether the lock's hash slot is moving to the server, so that commands for due work do not find the lock.
    pub(crate) arrives: bool,
    /// Whether an operator shortens the lease.
    pub(crate) cuts: bool,
    /// Whether subscribers come and go.
    pub(crate) unheard: bool,
    /// Whether the server is demoted, and promoted again before it has done anything else.
    pub(crate) flips: bool,
}

/// A primary that dies, and its replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failover {
    /// For how many ms the old primary lives on beside its successor.
    pub(crate) lives_on: Millis,
    /// Whether the old primary was away when it was replaced. If so, `lives_on` counts from its return.
    pub(crate) away: bool,
    /// The most effects that can be on their way to the replica, and get lost.
    pub(crate) lag: usize,
    pub(crate) clients: Clients,
}

/// How strictly owners keep to the rules for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Clients extend only grants that they were told of. If 0 holds are left, they don't hold the lock. They ignore later answers about a
    /// grant that they have released.
    Strict,
    /// Clients reuse their names, and accept grants that they get back in this way.
    ReuseNames,
    /// Clients also extend grants that they don't believe they hold.
    ExtendAnything,
    /// Clients count their holds themselves, like several threads of which only one sees the reply.
    CountThemselves,
}

/// How an owner asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Plain,
    Once,
    /// The client waits without limit.
    Wait,
    /// The client waits for 1 ms.
    WaitBriefly,
    WaitOnce,
    Session,
    WaitWithSession,
    /// The client waits without limit with a place, and claims the grant by asking again.
    Place,
    /// This is `Place` with `START`: the message starts the work, and nothing is left to claim.
    PlaceToStart,
    /// The client waits for 1 ms with a place, and claims the grant by asking again.
    PlaceBriefly,
    /// The client asks with `SHARED`.
    Read,
    ReadOnce,
    WaitToRead,
    ReadWithSession,
    WaitToReadWithSession,
    PlaceToRead,
    /// The client asks with `LIMIT 2`, and waits without limit.
    WaitForPair,
    /// This is `WaitForPair` with `SLOT 2`.
    WaitForSecond,
    /// The client does not acquire, but extends, and waits for replicas.
    Extension,
}

impl Kind {
    pub(super) fn waits(self) -> bool {
        !self.notified() && self.timeout().is_some()
    }

    /// Returns how long the client waits, in ms; 0: without limit; `None`: not at all.
    fn timeout(self) -> Option<Millis> {
        match self {
            Self::Plain | Self::Once | Self::Session | Self::Extension => None,
            Self::Read | Self::ReadOnce | Self::ReadWithSession => None,
            Self::Wait | Self::WaitOnce | Self::WaitWithSession | Self::Place | Self::PlaceToStart => Some(0),
            Self::WaitToRead | Self::WaitToReadWithSession | Self::PlaceToRead | Self::WaitForPair => Some(0),
            Self::WaitForSecond => Some(0),
            Self::WaitBriefly | Self::PlaceBriefly => Some(1),
        }
    }

    pub(super) fn room(self) -> Room {
        match self {
            Self::Read | Self::ReadOnce | Self::WaitToRead | Self::PlaceToRead => Room::ANY,
            Self::ReadWithSession | Self::WaitToReadWithSession => Room::ANY,
            Self::WaitForPair | Self::WaitForSecond => Room::limit(2).unwrap_or(Room::ONE),
            _ => Room::ONE,
        }
    }

    pub(super) fn slot(self) -> Option<SlotRequest> {
        match self {
            Self::WaitForPair => Some(SlotRequest::Least),
            Self::WaitForSecond => Slot::new(2).map(SlotRequest::This),
            _ => None,
        }
    }

    pub(crate) fn session(self) -> bool {
        use Kind::{ReadWithSession, Session, WaitToReadWithSession, WaitWithSession};
        matches!(self, Session | WaitWithSession | ReadWithSession | WaitToReadWithSession)
    }

    /// Whether the owner is told by messages (`NOTIFY`).
    pub(crate) fn notified(self) -> bool {
        matches!(self, Self::Place | Self::PlaceToStart | Self::PlaceBriefly | Self::PlaceToRead)
    }

    pub(super) fn once(self) -> bool {
        self.notified() || matches!(self, Self::Once | Self::WaitOnce | Self::ReadOnce)
    }

    pub(crate) fn ask(
        self,
        who: Who,
        lease: Millis,
        confirm: Option<Confirm>,
    ) -> (AcquireRequest<'static>, WaitOptions) {
        let (once, session, room, slot) = (self.once(), self.session(), self.room(), self.slot());
        let ask = AcquireRequest { owner: owner(who), lease, extras: None, once, session, room, slot };
        let start = (self == Self::PlaceToStart).then_some(NonZeroU64::MIN);
        let channel = self.notified().then(|| Channel { address: [who].into(), wanted: true, start });
        (ask, WaitOptions { timeout: self.timeout(), channel, detect: false, confirm })
    }
}
