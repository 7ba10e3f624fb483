//! How big a world is, and what may happen in it.

use super::owner;
use crate::lock::tests::server::{Conn, Rules};
use crate::lock::{Ask, Millis};

/// An owner, by number.
pub(in crate::lock::tests) type Who = u8;

/// How big a world is, and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub(in crate::lock::tests) struct Size {
    pub(in crate::lock::tests) owners: Who,
    pub(in crate::lock::tests) conns: Conn,
    pub(in crate::lock::tests) leases: &'static [Millis],
    /// When time stops.
    pub(in crate::lock::tests) horizon: Millis,
    pub(in crate::lock::tests) kinds: &'static [Kind],
    /// There are at most so many in each millisecond.
    pub(in crate::lock::tests) grants: i64,
    /// No owner asks for more holds than that.
    pub(in crate::lock::tests) holds: u32,
    pub(in crate::lock::tests) breaks: bool,
    pub(in crate::lock::tests) failover: Option<Failover>,
    pub(in crate::lock::tests) rules: Rules,
}

/// A primary that dies, and its replica.
#[derive(Clone, Copy, Debug)]
pub(in crate::lock::tests) struct Failover {
    pub(in crate::lock::tests) grace: Millis,
    /// For how long the old primary goes on beside its successor.
    pub(in crate::lock::tests) lives_on: Millis,
    /// How many effects can be on their way to the replica, and get lost.
    pub(in crate::lock::tests) lag: usize,
    pub(in crate::lock::tests) clients: Clients,
}

/// How far owners go by what they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lock::tests) enum Clients {
    /// They extend only what they were told to hold, and have not given back; and 0 holds left is the end of it.
    Strict,
    /// They also extend what they do not believe to hold.
    ExtendAnything,
    /// They count their holds themselves, as several threads do of which only one sees the reply.
    CountThemselves,
}

/// How an owner asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::lock::tests) enum Kind {
    Plain,
    Once,
    /// Waits without limit.
    Wait,
    /// Waits for 1 ms.
    WaitBriefly,
    Session,
    WaitWithSession,
}

impl Kind {
    pub(super) fn waits(self) -> bool {
        matches!(self, Self::Wait | Self::WaitBriefly | Self::WaitWithSession)
    }

    pub(super) fn ask(self, who: Who, lease: Millis) -> (Ask<'static>, Option<Millis>) {
        let session = matches!(self, Self::Session | Self::WaitWithSession);
        let ask = Ask { owner: owner(who), lease, max_hold: None, once: self == Self::Once, session };
        let block = match self {
            Self::Plain | Self::Once | Self::Session => None,
            Self::Wait | Self::WaitWithSession => Some(0),
            Self::WaitBriefly => Some(1),
        };
        (ask, block)
    }
}
