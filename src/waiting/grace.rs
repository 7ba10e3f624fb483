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
//!
//! A primary that comes back from more than a second away, asleep or busy, may have been replaced meanwhile, and does not
//! know it yet; nor does the server, whose count of good replicas is as old as its last turn of duty. So for the time that
//! an old primary may live on, which is what the grace has beyond the longest lease, no lease is lengthened either, and a
//! busy one grants nothing new.

use std::ffi::CStr;

use super::waiters_of;
use crate::config;
use crate::error::Error;
use crate::lock::{Limits, Millis};
use crate::server::{Alarm, Arg, Ctx, Moment, ServerCell, Timer};

/// How often the heartbeat beats, in ms.
const HEARTBEAT: Millis = 250;

/// How often, in ms, to look whether a grace is over for a free lock with a queue: it may be switched off.
pub(super) const LOOK_AGAIN: Millis = 100;

/// How long, in ms, it takes the server to count its good replicas anew: once a second, and a bit.
const REPLICAS_COUNTED: Millis = 1100;

/// A process that stood still, or looked at nothing, for longer than that, in ms, was away.
const AWAY: Millis = 1000;

struct Grace {
    /// When the heart beat last.
    beat: Option<Moment>,
    /// When this server began to serve as it does now, in ms since boot: started, promoted or awake.
    since: Millis,
    /// When it came back from being away, in ms since boot.
    back: Option<Millis>,
}

static GRACE: ServerCell<Grace> = ServerCell::new(Grace { beat: None, since: 0, back: None });

impl Grace {
    /// Notes the time, and whether the process has been away since it was noted last.
    fn beat(&mut self, now: Moment) {
        if let Some(last) = self.beat {
            if now.since_boot() - last.since_boot() > AWAY {
                self.back = Some(now.since_boot());
            }
            if now.stood_still(last) > AWAY {
                self.since = now.since_boot();
            }
        }
        self.beat = Some(now);
    }

    /// How long, in ms, no lease is to be lengthened; 0: it may be.
    fn suspicious(&self, now: Moment, grace: Millis) -> Millis {
        // Without a longest lease there is no telling how long an old primary may live on.
        let lives_on = if config::MAX_LEASE.get() == 0 { 0 } else { grace - config::max_lease() };
        self.back.map_or(0, |back| (back.saturating_add(lives_on) - now.since_boot()).max(0))
    }

    /// How long, in ms, nothing new is to be granted; 0: it may be.
    fn left(&self, now: Moment, grace: Millis) -> Millis {
        (self.since.saturating_add(grace) - now.since_boot()).max(self.suspicious(now, grace)).max(0)
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
    look(Grace::left)
}

/// How long, in ms, the timer is to hand nothing over, since the server may count replicas as good that have gone while it
/// was away; 0: it may. A command is the server's to refuse.
pub(super) fn replicas_uncounted(ctx: &Ctx<'_>) -> Millis {
    let now = Moment::now();
    let back = GRACE.with(|grace| {
        grace.beat(now);
        grace.back
    });
    let left = back.map_or(0, |back| (back.saturating_add(REPLICAS_COUNTED) - now.since_boot()).max(0));
    if left > 0 && ctx.needs_replicas() { left } else { 0 }
}

/// Whether a lease may be set anew.
pub(crate) fn may_lengthen() -> Result<(), Error> {
    match look(Grace::suspicious) {
        0 => Ok(()),
        left => Err(Error::GraceOfLeases { left }),
    }
}

/// What holds for all grants now.
pub(crate) fn limits() -> Limits {
    Limits { max_hold: config::max_hold(), lengthen: may_lengthen().is_ok() }
}

fn look(at: fn(&Grace, Moment, Millis) -> Millis) -> Millis {
    let grace = config::FAILOVER_GRACE.get();
    if grace == 0 {
        return 0;
    }
    let now = Moment::now();
    GRACE.with(|state| {
        state.beat(now);
        at(state, now, grace)
    })
}

/// Whether a free lock may be granted to a client that comes now. Not before those who wait for it, for whom the grace ended
/// only just now.
pub(crate) fn may_grant(ctx: &Ctx<'_>, key: Arg<'_>) -> Result<(), Error> {
    match left() {
        0 if waiters_of(ctx, key) > 0 => Err(Error::Grace { left: 1 }),
        0 => Ok(()),
        left => Err(Error::Grace { left }),
    }
}

struct Heartbeat;

impl Alarm for Heartbeat {
    const NAME: &'static CStr = c"heartbeat";

    fn ring(_ctx: &Ctx<'_>) {
        let now = Moment::now();
        GRACE.with(|grace| grace.beat(now));
        Timer::after::<Self>(HEARTBEAT);
    }
}
