//! How big a world is, and what may happen in it.

use std::num::NonZeroU64;

use super::owner;
use crate::lock::{AcquireRequest, Millis, Room, Slot, SlotRequest};
use crate::waiting::tests::server::{Conn, Rules};
use crate::waiting::{Channel, Confirm, WaitOptions};

/// An owner, by number.
pub(in crate::waiting::tests) type Who = u8;

/// How big a world is, and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub(in crate::waiting::tests) struct Size {
    pub(in crate::waiting::tests) owners: Who,
    pub(in crate::waiting::tests) conns: Conn,
    pub(in crate::waiting::tests) leases: &'static [Millis],
    /// When time stops.
    pub(in crate::waiting::tests) horizon: Millis,
    pub(in crate::waiting::tests) kinds: &'static [Kind],
    /// The most grants in each millisecond.
    pub(in crate::waiting::tests) grants: i64,
    /// The most holds that an owner asks for.
    pub(in crate::waiting::tests) holds: u32,
    pub(in crate::waiting::tests) breaks: bool,
    pub(in crate::waiting::tests) happens: Happens,
    pub(in crate::waiting::tests) failover: Option<Failover>,
    /// The confirmation by replicas for which owners ask with every request.
    pub(in crate::waiting::tests) confirm: Option<Confirm>,
    pub(in crate::waiting::tests) rules: Rules,
}

/// What else a server does to the module.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::waiting::tests) struct Happens {
    /// Whether an operator sends waiters away.
    pub(in crate::waiting::tests) unblocks: bool,
    /// Whether the server finds out only later that a client is gone.
    pub(in crate::waiting::tests) vanishes: bool,
    /// Whether the server refuses work that falls due.
    pub(in crate::waiting::tests) refusals: bool,
    /// Whether the server stands still though work is due.
    pub(in crate::waiting::tests) freezes: bool,
    /// Whether the lock's slot is moving to the server, so that due work does not find the lock.
    pub(in crate::waiting::tests) arrives: bool,
    /// Whether an operator cuts the lease short.
    pub(in crate::waiting::tests) cuts: bool,
    /// Whether subscribers come and go.
    pub(in crate::waiting::tests) unheard: bool,
    /// Whether the server is demoted, and promoted again before it has done anything else.
    pub(in crate::waiting::tests) flips: bool,
}

/// A primary that dies, and its replica.
#[derive(Clone, Copy, Debug)]
pub(in crate::waiting::tests) struct Failover {
    /// How long the old primary lives on beside its successor, in ms.
    pub(in crate::waiting::tests) lives_on: Millis,
    /// Whether the old primary was away when it was replaced. In that case `lives_on` counts from its return.
    pub(in crate::waiting::tests) away: bool,
    /// How many effects can be on their way to the replica, and can get lost.
    pub(in crate::waiting::tests) lag: usize,
    pub(in crate::waiting::tests) clients: Clients,
}

/// How strictly owners go by what they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::waiting::tests) enum Clients {
    /// Clients extend only grants that they were told of. With 0 holds left, they don't hold the lock. A grant that they have released is
    /// not theirs, whatever they are told of it later.
    Strict,
    /// Clients use their names again, and accept grants that they get back in this way.
    ReuseNames,
    /// Clients also extend grants that they don't believe to hold.
    ExtendAnything,
    /// Clients count their holds themselves, as several threads do of which only one sees the reply.
    CountThemselves,
}

/// How an owner asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::waiting::tests) enum Kind {
    Plain,
    Once,
    /// Waits without limit.
    Wait,
    /// Waits for 1 ms.
    WaitBriefly,
    WaitOnce,
    Session,
    WaitWithSession,
    /// Waits without limit with a place in the queue, and asks again to claim the grant.
    Place,
    /// `Place` whose message starts the work, so that nothing is left to claim.
    PlaceToStart,
    /// Waits for 1 ms with a place, and asks again to claim the grant.
    PlaceBriefly,
    /// With room for any number of holders.
    Read,
    ReadOnce,
    WaitToRead,
    ReadWithSession,
    WaitToReadWithSession,
    PlaceToRead,
    /// With room for two holders; waits without limit.
    WaitForPair,
    /// `WaitForPair` that asks for the slot 2.
    WaitForSecond,
    /// No acquire, but an extension that waits for replicas.
    Extension,
}

impl Kind {
    pub(super) fn waits(self) -> bool {
        !self.notified() && self.timeout().is_some()
    }

    /// How long the client waits; 0: without limit.
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

    pub(super) fn session(self) -> bool {
        use Kind::{ReadWithSession, Session, WaitToReadWithSession, WaitWithSession};
        matches!(self, Session | WaitWithSession | ReadWithSession | WaitToReadWithSession)
    }

    /// Whether the owner is told by messages.
    pub(super) fn notified(self) -> bool {
        matches!(self, Self::Place | Self::PlaceToStart | Self::PlaceBriefly | Self::PlaceToRead)
    }

    pub(super) fn once(self) -> bool {
        self.notified() || matches!(self, Self::Once | Self::WaitOnce | Self::ReadOnce)
    }

    pub(super) fn ask(
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
