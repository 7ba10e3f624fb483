//! The grace of this server (the time after a start, a promotion or a freeze in which it grants nothing new), and the heartbeat, which
//! detects that the process was frozen. The rules are in `waiting::grace`.

use std::ffi::CStr;

use super::notices;
use crate::config;
use crate::server::{Ctx, ServerCell, Timer, TimerTask, fire, lease_start, ran, since_boot};
use rules::lock::{Limits, Millis};
use rules::waiting::{Grace, GraceLeft, GraceLength, Moment};

/// The time in ms between heartbeats. The server's cron, which usually runs ten times a second, makes the heartbeats. If the cron runs too
/// rarely, a timer makes the heartbeats. If this timer is late, the cron sets it anew, because the wall clock may have been set back.
const BEAT: Millis = 250;

static GRACE: ServerCell<Grace> = ServerCell::new(Grace::new());

struct Next {
    /// When the next heartbeat is due, in ms since boot.
    due: Millis,
    /// Whether a timer makes the heartbeats, because the server's cron runs too rarely.
    by_timer: bool,
    timer: Option<Timer>,
}

static NEXT: ServerCell<Next> = ServerCell::new(Next { due: 0, by_timer: false, timer: None });

fn moment() -> Moment {
    Moment { since_boot: since_boot(), ran: ran() }
}

/// Notes that this server has been started or promoted.
pub(super) fn begin() {
    let now = moment();
    GRACE.with(|grace| grace.begin(now));
}

pub(super) fn start() {
    begin();
    set_next();
}

/// The server's cron calls this function. The cron runs again in `again` ms.
pub(super) fn on_cron(ctx: &Ctx<'_>, again: Millis) {
    let now = moment();
    GRACE.with(|grace| grace.beat(now));
    let (by_timer, late) = NEXT.with(|next| {
        next.by_timer = again > BEAT;
        (next.by_timer, now.since_boot - next.due)
    });
    if by_timer && (late > BEAT || NEXT.with(|next| next.timer.is_none())) {
        set_next();
    } else if !by_timer && late >= 0 {
        fire::<Heartbeat>(ctx);
    }
}

fn set_next() {
    let due = since_boot().saturating_add(BEAT);
    NEXT.with(|next| {
        next.due = due;
        if let Some(late) = next.timer.take() {
            late.stop();
        }
        next.timer = next.by_timer.then(|| Timer::after::<Heartbeat>(BEAT));
    });
}

/// Returns for how many more ms this server grants nothing new, and for how many it makes no lease longer.
pub(super) fn grace_left() -> GraceLeft {
    let grants = config::FAILOVER_GRACE.get();
    if grants == 0 {
        return GraceLeft::default();
    }
    let length = GraceLength { grants, longest_lease: config::longest_lease() };
    let now = moment();
    GRACE.with(|grace| grace.left(now, length))
}

/// Returns the limits that apply to all grants now.
#[inline(always)]
pub(super) fn limits() -> Limits {
    Limits {
        max_lease: config::max_lease(),
        max_hold: config::max_hold(),
        expiry_slack: lease_start(1),
        max_holders: config::MAX_HOLDERS.get() as u32,
        may_lengthen: grace_left().leases == 0,
    }
}

/// Returns for how many more ms timers must not hand locks over. After this server was frozen or busy, it may still count replicas that are
/// gone, and so accept writes that `min-replicas-to-write` forbids. (About clients' commands, the server itself decides.)
pub(super) fn replicas_uncounted(ctx: &Ctx<'_>) -> Millis {
    let now = moment();
    let left = GRACE.with(|grace| grace.replicas_uncounted(now));
    if left > 0 && ctx.needs_replicas() { left } else { 0 }
}

struct Heartbeat;

impl TimerTask for Heartbeat {
    const NAME: &'static CStr = c"heartbeat";

    fn run(ctx: &Ctx<'_>) {
        NEXT.with(|next| next.timer = None);
        let now = moment();
        GRACE.with(|grace| grace.beat(now));
        set_next();
        notices::write_to_log(ctx);
    }
}
