//! The grace (`lock.failover-grace`): after a start, a promotion or a freeze, the server grants nothing new for some time.
//!
//! Replication is asynchronous, so a grant may be lost with its primary. Without a grace, the new primary could give the lock to another
//! owner before the first owner's lease ends. A primary that was frozen needs a grace, too: during the freeze, another server may have
//! granted locks that this server believes to be free.
//!
//! A heartbeat shows whether the process was frozen. Each heartbeat notes the time since boot, which goes on while the process does not
//! run, and the time for which this thread ran. The thread runs during a command that keeps the server busy for seconds. The thread does
//! not run while the process is stopped, or waits for a page or a disk. The module also checks for a freeze before each new grant, because
//! after a freeze all timers are due at once, and the heartbeat does not always come first.
//!
//! A primary that was away (frozen or busy) for more than a second may have been replaced. It needs some time to learn this, and at first,
//! not even `min-replicas-to-write` stops its writes, because the server counts good replicas only once a second. A grace has to be longer
//! than the longest lease by this time. So for this time (the grace minus the longest lease), a primary that was away makes no lease longer
//! and grants nothing new, even if it was only busy.

use crate::lock::Millis;

/// How long a grace (see `grace`) still lasts, in ms; 0 if there is no grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraceLeft {
    /// The server grants nothing new for this many ms.
    pub grants: Millis,
    /// The server makes no lease longer for this many ms.
    pub leases: Millis,
}

/// During a grace, a timer checks at least every so many ms whether waiters can be served now, because a new value of the setting may end
/// the grace earlier.
pub(super) const RETRY: Millis = 100;

/// After this many ms, the server has counted its good replicas again, because it counts them once a second.
const REPLICAS_COUNTED: Millis = 1100;

/// A process counts as away if it was frozen, or did not check the time, for more than this many ms.
pub(super) const AWAY: Millis = 1000;

/// A moment, in ms, on two clocks that nobody can set.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub struct Moment {
    /// The milliseconds since the machine was booted, including the time for which it slept.
    pub since_boot: Millis,
    /// The milliseconds for which the calling thread has run.
    pub ran: Millis,
}

impl Moment {
    /// Returns for how many ms since `earlier` the thread did not run.
    fn frozen(self, earlier: Self) -> Millis {
        (self.since_boot - earlier.since_boot) - (self.ran - earlier.ran)
    }
}

/// The settings that decide how long a grace lasts, in ms.
#[derive(Clone, Copy, Debug)]
pub struct GraceLength {
    /// The setting `lock.failover-grace`; 0: there is no grace.
    pub grants: Millis,
    /// The setting `lock.max-lease`; `None`: no limit.
    pub longest_lease: Option<Millis>,
}

/// Knows when this server began to serve, and when it was last away, and computes how long the grace still lasts.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub struct Grace {
    /// The last heartbeat.
    beat: Option<Moment>,
    /// When this server began to serve in its present role: at a start, a promotion or the end of a freeze, in ms since boot.
    since: Millis,
    /// When this server was last found to have been away, in ms since boot.
    back: Option<Millis>,
}

impl Grace {
    pub const fn new() -> Self {
        Self { beat: None, since: 0, back: None }
    }

    /// Notes that this server has been started or promoted.
    pub fn begin(&mut self, now: Moment) {
        self.beat(now);
        self.since = now.since_boot;
    }

    /// Notes a heartbeat, and whether the process has been away since the last heartbeat.
    pub fn beat(&mut self, now: Moment) {
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

    /// Returns for how many more ms the server grants nothing new, and for how many more ms it makes no lease longer.
    pub fn left(&mut self, now: Moment, length: GraceLength) -> GraceLeft {
        self.beat(now);
        // Without `lock.max-lease`, there is no longest lease to subtract from the grace. So leases may be made longer at any time.
        let lives_on = length.longest_lease.map_or(0, |lease| length.grants - lease);
        let leases = self.back.map_or(0, |back| (back.saturating_add(lives_on) - now.since_boot).max(0));
        let grants = (self.since.saturating_add(length.grants) - now.since_boot).max(leases);
        GraceLeft { grants: grants.max(0), leases }
    }

    /// Returns for how many ms the server may still count lost replicas as good, because it was away.
    pub fn replicas_uncounted(&mut self, now: Moment) -> Millis {
        self.beat(now);
        self.back.map_or(0, |back| (back.saturating_add(REPLICAS_COUNTED) - now.since_boot).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: GraceLength = GraceLength { grants: 10_000, longest_lease: Some(7_000) };

    /// A server that has served for an hour is frozen for `frozen` ms, is then busy for `busy` ms, and has been back for `later` ms.
    /// Returns for how many ms it then makes no grants, makes no lease longer, and does not know how many replicas it has.
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
        // A server that was only busy grants nothing for as long as the grace exceeds the longest lease.
        assert_eq!(left(0, AWAY + 1, 0), (3_000, 3_000, REPLICAS_COUNTED));
        assert_eq!(left(AWAY, 1, 0), (3_000, 3_000, REPLICAS_COUNTED));
        // A server that was frozen may have been replaced, so a whole grace begins.
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
