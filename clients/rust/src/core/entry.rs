//! The state of one acquire.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Error;
use super::NO_LEASE;
use super::promise::Promise;
use super::request::Request;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    #[default]
    Waiting,
    Held,
    Lost,
    Leaving,
    Over,
}

/// The purpose of a command that has been sent.
pub(super) enum Sent {
    Ask,
    Doubt,
    Renew,
    Extend(Promise<Result<Duration, Error>>),
    Release,
    Leave,
    ReleaseUnknown,
}

/// What a holder knows of its grant.
#[derive(Clone)]
pub(crate) struct Granted {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) owner: Vec<u8>,
    pub(crate) fences: Vec<u64>,
    pub(crate) slot: Option<u64>,
    pub(crate) lost: Promise<Error>,
}

/// What a `start` message says about a grant.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) fence: u64,
    /// How long the grant lasts unclaimed.
    pub(super) lasts: Duration,
    pub(super) slot: Option<u64>,
    /// The number of the request that the message answers.
    pub(super) number: u32,
}

pub(crate) type Acquired = Promise<Result<Granted, Error>>;
pub(super) type Extension = (Option<Duration>, Promise<Result<Duration, Error>>);

/// One acquire: the wait, the grant, and its end.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) request: Request,
    pub(super) state: State,
    /// The command that has been sent and not answered, and when it was sent.
    pub(super) sent: Option<(Sent, Instant)>,
    /// When something is to be done: to ask again, to renew the lease, or to send a release again.
    pub(super) due: Option<Instant>,
    pub(super) acquired: Acquired,
    pub(super) lost: Promise<Error>,
    pub(super) parted: Promise<Result<(), Error>>,
    /// The guard or the wait was dropped, so nobody will ask for the end of this acquire.
    pub(super) dropped: bool,

    /// When the lock was asked for, then when it was granted; and how long it was held.
    pub(super) since: Option<Instant>,
    pub(super) held: Option<Duration>,

    // The wait
    pub(super) end: Option<Instant>,
    pub(super) woken: bool,
    pub(super) tries: u32,
    pub(super) trouble: Option<redis::RedisError>,
    /// `place`: it may have a place in the queue. `unsure`: an answer was lost, so it may hold the lock.
    pub(super) place: bool,
    pub(super) unsure: bool,
    /// Why the wait is over, and when to report that at the latest.
    pub(super) why: Option<(Error, Instant)>,
    pub(super) heard_lost: Vec<u64>,

    /// When the lock was last asked for, and whether a message may start the work.
    pub(super) asked: Option<Instant>,
    pub(super) starts: bool,
    /// A `start` message that came before the answer to the command.
    pub(super) told: Option<Told>,

    // The grant
    /// Whether the work began at a `start` message, and the claim is still to come.
    pub(super) unclaimed: bool,
    /// The latest end of the lease, whatever a pending answer says: another acquire in the same grant has set a shorter one.
    pub(super) at_most: Option<Instant>,
    pub(super) fences: Vec<u64>,
    pub(super) slot: Option<u64>,
    pub(super) lease: Duration,
    pub(super) until: Option<Instant>,
    /// The lease that the last answer gave, and whether it was less than asked for or than before: then the maximum age cuts it.
    pub(super) given: Duration,
    pub(super) aged: bool,
    pub(super) doubted: bool,
    /// Why the lock was lost.
    pub(super) error: Option<Error>,
    pub(super) extensions: VecDeque<Extension>,

    // The end
    /// Whether others of the same owner had the grant, or waited for it, when this one left.
    pub(super) used: bool,
    /// The fences of a grant that another acquire of this owner released while this one waited.
    pub(super) left: Vec<u64>,
    /// Whether the release has been sent before.
    pub(super) again: bool,
    pub(super) give_up: Option<Instant>,
}

impl Entry {
    pub(super) fn new(request: Request, state: State) -> Self {
        let lease = request.lease.unwrap_or(NO_LEASE);
        let trouble = Some((redis::ErrorKind::Io, "no answer from the server").into()); // until another error comes
        Self { lease, request, state, trouble, ..Self::default() }
    }

    pub(super) fn lasted(&self, now: Instant) -> Duration {
        self.since.map(|since| now.saturating_duration_since(since)).unwrap_or_default()
    }

    pub(super) fn once(&self) -> bool {
        self.request.wait == Some(Duration::ZERO)
    }

    /// The lease that a pending extension sets.
    pub(super) fn sets(&self) -> Option<Duration> {
        let extends = matches!(self.sent, Some((Sent::Renew | Sent::Extend(_), _)));
        extends.then(|| self.request.lease.unwrap_or(self.lease))
    }

    /// When the clock has to look at this acquire.
    pub(super) fn look(&self) -> Option<Instant> {
        let due = self.due.filter(|_| self.sent.is_none());
        let other = match self.state {
            State::Waiting => self.end,
            State::Held => self.until,
            State::Leaving => self.why.as_ref().map(|(_, at)| *at),
            State::Lost | State::Over => return None,
        };
        due.into_iter().chain(other).min()
    }
}
