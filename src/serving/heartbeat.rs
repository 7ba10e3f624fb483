//! The grace of this server, and the heartbeat that tells whether the process stood still; the rules are `waiting::grace`.

use std::ffi::CStr;

use super::notices;
use crate::config;
use crate::lock::{Limits, Millis};
use crate::server::{Ctx, ServerCell, Timer, TimerTask, lease_start, ran, since_boot};
use crate::waiting::{Grace, GraceLeft, GraceLength, Moment};

/// How often the heart beats, in ms, by a timer. The server's own turns of duty, ten a second where nobody has changed that,
/// are beats too, and see to the timer: it goes by the wall clock, and one that is set back would keep it still until the
/// clock has caught up.
const BEAT: Millis = 250;

static GRACE: ServerCell<Grace> = ServerCell::new(Grace::new());

/// The timer of the next beat, and when it is due, in ms since boot.
static NEXT: ServerCell<Option<(Millis, Timer)>> = ServerCell::new(None);

fn moment() -> Moment {
    Moment { since_boot: since_boot(), ran: ran() }
}

/// This server begins to serve: it has been started or promoted.
pub(super) fn begin() {
    let now = moment();
    GRACE.with(|grace| grace.begin(now));
}

/// Starts the heartbeat.
pub(super) fn start() {
    begin();
    set_timer();
}

/// The server is on duty.
pub(super) fn on_duty() {
    let now = moment();
    GRACE.with(|grace| grace.beat(now));
    let late = NEXT.with(|next| next.take_if(|(due, _)| now.since_boot > *due + BEAT));
    if let Some((_, timer)) = late {
        timer.stop();
        set_timer();
    }
}

fn set_timer() {
    let timer = Timer::after::<Heartbeat>(BEAT);
    let due = since_boot().saturating_add(BEAT);
    NEXT.with(|next| *next = Some((due, timer)));
}

/// How long nothing new is granted, and no lease lengthened.
pub(super) fn grace_left() -> GraceLeft {
    let grants = config::FAILOVER_GRACE.get();
    if grants == 0 {
        return GraceLeft::default();
    }
    let length = GraceLength { grants, longest_lease: config::longest_lease() };
    let now = moment();
    GRACE.with(|grace| grace.left(now, length))
}

/// What holds for all grants now.
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

/// How long, in ms, the timer is to hand nothing over, since the server may count replicas as good that have gone while it
/// was away; 0: it may. A command is the server's to refuse.
pub(super) fn replicas_uncounted(ctx: &Ctx<'_>) -> Millis {
    let now = moment();
    let left = GRACE.with(|grace| grace.replicas_uncounted(now));
    if left > 0 && ctx.needs_replicas() { left } else { 0 }
}

struct Heartbeat;

impl TimerTask for Heartbeat {
    const NAME: &'static CStr = c"heartbeat";

    fn run(ctx: &Ctx<'_>) {
        NEXT.with(|next| *next = None);
        let now = moment();
        GRACE.with(|grace| grace.beat(now));
        set_timer();
        notices::write_down(ctx);
    }
}
