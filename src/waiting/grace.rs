//! `lock.failover-grace`: the time in which nothing new is granted, after a start, a promotion or an awakening.
//!
//! Replication is asynchronous: a grant may be lost when its primary is. The new primary then gives the lock to another
//! while the first owner is inside its lease, unless it first lets that lease run out. The same for a primary that was
//! frozen and thawed: somebody else may have been granted what it still believes to be free.
//!
//! How it knows that it slept: a heartbeat notes the time since boot, which goes on while the process does not, and the
//! time for which this thread ran. A command that keeps the server busy for seconds runs; a process that is stopped, or
//! stuck in a page fault or a disk write, does not. Each new grant looks too: after an awakening everything is due at
//! once, and the heartbeat may not be the first.

use crate::config;
use crate::error::Error;
use crate::lock::Millis;
use crate::server::{Alarm, Ctx, Moment, ServerCell, Timer};

/// How often the heartbeat beats, in ms.
const HEARTBEAT: Millis = 250;

/// A process that stood still for longer than that, in ms, has slept.
const ASLEEP: Millis = 1000;

struct Grace {
    /// When the heart beat last.
    beat: Option<Moment>,
    /// When this server began to serve as it does now, in ms since boot.
    since: Millis,
}

static GRACE: ServerCell<Grace> = ServerCell::new(Grace { beat: None, since: 0 });

impl Grace {
    /// Notes the time, and whether the process has slept since it was noted last.
    fn beat(&mut self, now: Moment) {
        if self.beat.is_some_and(|last| now.stood_still(last) > ASLEEP) {
            self.since = now.since_boot();
        }
        self.beat = Some(now);
    }
}

/// This server begins to serve: it has been started or promoted.
pub(super) fn begin() {
    let now = Moment::now();
    GRACE.with(|grace| {
        grace.beat(now);
        grace.since = now.since_boot();
    });
}

/// Starts the heartbeat.
pub(super) fn start() {
    begin();
    Timer::after::<Heartbeat>(HEARTBEAT);
}

/// How long nothing new is to be granted, in ms; 0: it may be.
pub(super) fn left() -> Millis {
    let grace = config::FAILOVER_GRACE.get();
    if grace == 0 {
        return 0;
    }
    let now = Moment::now();
    let since = GRACE.with(|grace| {
        grace.beat(now);
        grace.since
    });
    since.saturating_add(grace).saturating_sub(now.since_boot()).max(0)
}

/// Whether something new may be granted to a client that does not wait.
pub(crate) fn may_grant() -> Result<(), Error> {
    match left() {
        0 => Ok(()),
        left => Err(Error::Grace { left }),
    }
}

struct Heartbeat;

impl Alarm for Heartbeat {
    fn ring(_ctx: &Ctx<'_>) {
        let now = Moment::now();
        GRACE.with(|grace| grace.beat(now));
        Timer::after::<Self>(HEARTBEAT);
    }
}
