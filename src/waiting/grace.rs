//! `lock.failover-grace`: the time in which nothing new is granted, after a start, a promotion or a freeze.
//!
//! Replication is asynchronous, so a grant may be lost when its primary is lost. Without a grace, the new primary would give the lock to
//! another owner within the first owner's lease; so it first lets that lease run out. A primary that was frozen needs a grace, too: in the
//! meantime another server may have granted locks that this server believes to be free.
//!
//! A heartbeat tells whether the process was frozen. It notes the time since boot, which goes on while the process does not, and the time
//! for which this thread ran. A command that keeps the server busy for seconds runs; a process that is stopped, or stuck in a page fault or
//! a disk write, does not. Each new grant checks this too, since after a freeze everything is due at once, and the heartbeat may not come
//! first.
//!
//! A primary that was away for more than a second, frozen or busy, may have been replaced without knowing it yet. The server does not know
//! it either, since its count of good replicas is as old as the last run of its cron. An old primary may live on for as long as the grace
//! exceeds the longest lease. In that time no lease is made longer, and a primary that was busy grants nothing new, either.

use super::access::GraceLeft;
use crate::lock::Millis;

/// How often, in ms, to check whether the grace is over, if a free lock has a queue. The setting may change meanwhile.
pub(super) const LOOK_AGAIN: Millis = 100;

/// How long, in ms, until the server has counted its good replicas again: it does so once a second.
const REPLICAS_COUNTED: Millis = 1100;

/// A process was away if it was frozen, or did not check the time, for more than this many ms.
pub(super) const AWAY: Millis = 1000;

/// A moment on two clocks that nobody sets, in ms.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Moment {
    /// Milliseconds since the machine was booted, including the time for which it slept.
    pub(crate) since_boot: Millis,
    /// The milliseconds for which the calling thread has run.
    pub(crate) ran: Millis,
}

impl Moment {
    /// How many ms since `earlier` the thread did not run.
    fn frozen(self, earlier: Self) -> Millis {
        (self.since_boot - earlier.since_boot) - (self.ran - earlier.ran)
    }
}

/// The settings that decide how long a grace lasts, in ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraceLength {
    /// `lock.failover-grace`; 0: there is none.
    pub(crate) grants: Millis,
    /// `lock.max-lease`, if it sets a limit.
    pub(crate) longest_lease: Option<Millis>,
}

/// When this server began to serve, and when it last came back from being away.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Grace {
    /// When the time was last noted.
    beat: Option<Moment>,
    /// When this server began to serve in its present role, in ms since boot: at a start, a promotion or the end of a freeze.
    since: Millis,
    /// When this server came back from being away, in ms since boot.
    back: Option<Millis>,
}

impl Grace {
    pub(crate) const fn new() -> Self {
        Self { beat: None, since: 0, back: None }
    }

    /// Notes that this server begins to serve: it has been started or promoted.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.beat(now);
        self.since = now.since_boot;
    }

    /// Notes the time, and whether the process has been away since the time was last noted.
    pub(crate) fn beat(&mut self, now: Moment) {
        if let Some(last) = self.beat {
            if now.since_boot - last.since_boot > AWAY {
                self.back = Some(now.since_boot);
            }
            if now.frozen(last) > AWAY {
                self.since = now.since_boot;
            }
        }
        self.beat = Some(now);
    }

    /// For how long nothing new is granted, and for how long no lease is made longer.
    pub(crate) fn left(&mut self, now: Moment, length: GraceLength) -> GraceLeft {
        self.beat(now);
        // If no longest lease is set, nobody knows how long an old primary may live on.
        let lives_on = length.longest_lease.map_or(0, |lease| length.grants - lease);
        let leases = self.back.map_or(0, |back| (back.saturating_add(lives_on) - now.since_boot).max(0));
        let grants = (self.since.saturating_add(length.grants) - now.since_boot).max(leases);
        GraceLeft { grants: grants.max(0), leases }
    }

    /// For how long, in ms, the server may still count lost replicas as good, because it was away.
    pub(crate) fn replicas_uncounted(&mut self, now: Moment) -> Millis {
        self.beat(now);
        self.back.map_or(0, |back| (back.saturating_add(REPLICAS_COUNTED) - now.since_boot).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: GraceLength = GraceLength { grants: 10_000, longest_lease: Some(7_000) };

    /// A server that has served for an hour is frozen for `frozen` ms, is then busy for `busy` ms, and has been back for `later` ms.
    /// Returns for how long it makes no grants, for how long it makes no lease longer, and for how long it does not count replicas.
    fn left(frozen: Millis, busy: Millis, later: Millis) -> (Millis, Millis, Millis) {
        let mut grace = Grace::new();
        grace.begin(Moment { since_boot: 0, ran: 0 });
        let now = |ms| Moment { since_boot: ms, ran: ms };
        (0..=3_600_000).step_by(250).for_each(|ms| grace.beat(now(ms)));
        let back = Moment { since_boot: 3_600_000 + frozen + busy, ran: 3_600_000 + busy };
        grace.beat(back);
        let now = Moment { since_boot: back.since_boot + later, ran: back.ran + later };
        let GraceLeft { grants, leases } = grace.left(now, LENGTH);
        (grants, leases, grace.replicas_uncounted(now))
    }

    #[test]
    fn a_server_that_was_away_grants_nothing_for_a_time() {
        assert_eq!(left(0, 250, 0), (0, 0, 0));
        assert_eq!(left(AWAY, 0, 0), (0, 0, 0));
        // An old primary may live on for as long as the grace exceeds the longest lease.
        assert_eq!(left(0, AWAY + 1, 0), (3_000, 3_000, REPLICAS_COUNTED));
        assert_eq!(left(AWAY, 1, 0), (3_000, 3_000, REPLICAS_COUNTED));
        // A server that was frozen may have been replaced.
        assert_eq!(left(AWAY + 1, 0, 0), (10_000, 3_000, REPLICAS_COUNTED));
        assert_eq!(left(AWAY + 1, 500, 100), (9_900, 2_900, REPLICAS_COUNTED - 100));
        assert_eq!(left(AWAY + 1, 0, 1_000), (9_000, 2_000, 100));
    }

    #[test]
    fn a_server_that_has_just_begun_to_serve_grants_nothing_for_a_time() {
        let mut grace = Grace::new();
        let now = |ms| Moment { since_boot: ms, ran: ms / 2 };
        grace.begin(now(5_000));
        let left = |grace: &mut Grace, ms, grants| {
            let left = grace.left(now(ms), GraceLength { grants, ..LENGTH });
            (left.grants, left.leases, grace.replicas_uncounted(now(ms)))
        };
        assert_eq!(left(&mut grace, 5_000, 10_000), (10_000, 0, 0));
        assert_eq!(left(&mut grace, 5_900, 10_000), (9_100, 0, 0));
        assert_eq!(left(&mut grace, 5_900, 0), (0, 0, 0));
    }
}
