//! `lock.failover-grace`: the time in which nothing new is granted, after a start, a promotion or an awakening.
//!
//! Replication is asynchronous: a grant may be lost when its primary is. The new primary then gives the lock to another
//! while the first owner is inside its lease, unless it first lets that lease run out. A primary that was
//! frozen and thawed needs it, too: somebody else may have been granted what it still believes to be free.
//!
//! How it knows that it slept: a heartbeat notes the time since boot, which goes on while the process does not, and the
//! time for which this thread ran. A command that keeps the server busy for seconds runs; a process that is stopped, or
//! stuck in a page fault or a disk write, does not. Each new grant looks too: after an awakening everything is due at
//! once, and the heartbeat may not be the first.
//!
//! A primary that comes back from more than a second away, asleep or busy, may have been replaced meanwhile, and does not
//! know it yet; nor does the server, whose count of good replicas is as old as its last turn of duty. So for the time that
//! an old primary may live on, which is what the grace has beyond the longest lease, no lease is lengthened either, and a
//! busy one grants nothing new.

use super::access::GraceLeft;
use crate::lock::Millis;

/// How often, in ms, to look whether a grace is over for a free lock with a queue: it may be switched off.
pub(super) const LOOK_AGAIN: Millis = 100;

/// How long, in ms, it takes the server to count its good replicas anew: once a second, and a bit.
const REPLICAS_COUNTED: Millis = 1100;

/// A process counts as away if it stood still, or looked at nothing, for longer than this time in ms.
pub(super) const AWAY: Millis = 1000;

/// A moment on two clocks that nobody sets, in ms.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Moment {
    /// Since the machine was booted, asleep or not.
    pub(crate) since_boot: Millis,
    /// How long the calling thread has run.
    pub(crate) ran: Millis,
}

impl Moment {
    /// How many ms of the time since `earlier` the thread did not run.
    fn stood_still(self, earlier: Self) -> Millis {
        (self.since_boot - earlier.since_boot) - (self.ran - earlier.ran)
    }
}

/// How long a grace lasts, in ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraceLength {
    /// `lock.failover-grace`; 0: there is none.
    pub(crate) grants: Millis,
    /// `lock.max-lease`, where there is a longest lease.
    pub(crate) longest_lease: Option<Millis>,
}

/// When this server began to serve, and when it came back.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(crate) struct Grace {
    /// When the heart beat last.
    beat: Option<Moment>,
    /// When this server began to serve as it does now, in ms since boot: started, promoted or awake.
    since: Millis,
    /// When it came back from being away, in ms since boot.
    back: Option<Millis>,
}

impl Grace {
    pub(crate) const fn new() -> Self {
        Self { beat: None, since: 0, back: None }
    }

    /// This server begins to serve: it has been started or promoted.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.beat(now);
        self.since = now.since_boot;
    }

    /// Notes the time, and whether the process has been away since it was noted last.
    pub(crate) fn beat(&mut self, now: Moment) {
        if let Some(last) = self.beat {
            if now.since_boot - last.since_boot > AWAY {
                self.back = Some(now.since_boot);
            }
            if now.stood_still(last) > AWAY {
                self.since = now.since_boot;
            }
        }
        self.beat = Some(now);
    }

    /// How long nothing new is to be granted, and no lease to be lengthened.
    pub(crate) fn left(&mut self, now: Moment, length: GraceLength) -> GraceLeft {
        self.beat(now);
        // Without a longest lease there is no telling how long an old primary may live on.
        let lives_on = length.longest_lease.map_or(0, |lease| length.grants - lease);
        let leases = self.back.map_or(0, |back| (back.saturating_add(lives_on) - now.since_boot).max(0));
        let grants = (self.since.saturating_add(length.grants) - now.since_boot).max(leases);
        GraceLeft { grants: grants.max(0), leases }
    }

    /// How long, in ms, the server may count replicas as good that have gone while it was away.
    pub(crate) fn replicas_uncounted(&mut self, now: Moment) -> Millis {
        self.beat(now);
        self.back.map_or(0, |back| (back.saturating_add(REPLICAS_COUNTED) - now.since_boot).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: GraceLength = GraceLength { grants: 10_000, longest_lease: Some(7_000) };

    /// The rest of the grace, and how long replicas are not to be counted, so long after a server that has served for an hour came
    /// back: it stood still, and was busy for the rest of the time.
    fn left(stood_still: Millis, busy: Millis, later: Millis) -> (Millis, Millis, Millis) {
        let mut grace = Grace::new();
        grace.begin(Moment { since_boot: 0, ran: 0 });
        let now = |ms| Moment { since_boot: ms, ran: ms };
        (0..=3_600_000).step_by(250).for_each(|ms| grace.beat(now(ms)));
        let back = Moment { since_boot: 3_600_000 + stood_still + busy, ran: 3_600_000 + busy };
        grace.beat(back);
        let now = Moment { since_boot: back.since_boot + later, ran: back.ran + later };
        let GraceLeft { grants, leases } = grace.left(now, LENGTH);
        (grants, leases, grace.replicas_uncounted(now))
    }

    #[test]
    fn a_server_that_was_away_grants_nothing_for_a_time() {
        assert_eq!(left(0, 250, 0), (0, 0, 0));
        assert_eq!(left(AWAY, 0, 0), (0, 0, 0));
        // An old primary may live on for what the grace has beyond the longest lease.
        assert_eq!(left(0, AWAY + 1, 0), (3_000, 3_000, REPLICAS_COUNTED));
        assert_eq!(left(AWAY, 1, 0), (3_000, 3_000, REPLICAS_COUNTED));
        // One that stood still may have been replaced.
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
