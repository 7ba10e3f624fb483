//! The two timers: one rings the alarms, one answers those whose grant has been made.
//!
//! Two, so that a handover makes but one, of 0 ms: the alarms' stays set while leases only move on. (With one for both, a
//! handover took 47,100 instructions of the server, not 39,600.)
//!
//! Why here, and not where the grant is made: the server's `UnblockClient` answers a client, but keeps it blocked until
//! the event loop is about to sleep. On some servers a `CLIENT UNBLOCK` that comes in between would send a second
//! reply, on others a timeout would swallow the first. A timer of 0 ms rings after the commands that have already
//! arrived and right before the server sends replies, or a millisecond later where another timer is due first. (With
//! threads for input, what they have read meanwhile is in between: see `waiting::ended`.)

use std::ffi::CStr;

use super::host::Server;
use super::state::{STATE, now};
use crate::lock::Millis;
use crate::server::{self, AFTER_PANIC, Alarm, Ctx, ServerCell, Timer};
use crate::stats;
use crate::waiting;

struct Tick {
    /// The timer of the server's that rings the next alarm, and when.
    timer: Option<(Millis, Timer)>,
    /// A timer of the server's that answers those whose answers are due has been set.
    answering: bool,
    /// The alarms are ringing now.
    ringing: bool,
}

static TICK: ServerCell<Tick> = ServerCell::new(Tick { timer: None, answering: false, ringing: false });

/// Sets the timers for what is due next, where they are not set for that or earlier.
pub(super) fn arm() {
    let (answered, next) = STATE.with(|state| (state.has_answered(), state.next_due()));
    let (answer, late) = TICK.with(|tick| {
        let answer = answered && !tick.ringing && !std::mem::replace(&mut tick.answering, true);
        let next = next.filter(|_| !tick.ringing);
        let next = next.filter(|&next| tick.timer.as_ref().is_none_or(|(at, _)| *at > next));
        (answer, next.map(|next| (next, tick.timer.take())))
    });
    if answer {
        Timer::after::<Answers>(0);
    }
    let Some((next, late)) = late else { return };
    if let Some((_, timer)) = late {
        timer.stop();
    }
    let timer = Timer::after::<Alarms>(next.saturating_sub(server::now() / 1000));
    TICK.with(|tick| tick.timer = Some((next, timer)));
}

/// Whether the alarms are ringing now.
pub(super) fn is_ringing() -> bool {
    TICK.with(|tick| tick.ringing)
}

struct Answers;

impl Alarm for Answers {
    const NAME: &'static CStr = c"answers";

    fn ring(ctx: &Ctx<'_>) {
        TICK.with(|tick| tick.answering = false);
        waiting::answer(&mut Server::new(ctx));
        // More is to be told, or a grant that nobody has heard of goes to the next.
        arm();
    }
}

struct Alarms;

impl Alarm for Alarms {
    const NAME: &'static CStr = c"alarms";

    fn ring(ctx: &Ctx<'_>) {
        TICK.with(|tick| {
            tick.timer = None;
            tick.ringing = true;
        });
        let timeouts = waiting::ring(&mut Server::new(ctx), now());
        stats::TIMEOUTS.add(timeouts);
        TICK.with(|tick| tick.ringing = false);
        arm();
    }

    fn ring_again() {
        let at = (server::now() / 1000).saturating_add(AFTER_PANIC);
        let timer = Timer::after::<Self>(AFTER_PANIC);
        TICK.with(|tick| {
            tick.ringing = false;
            tick.timer = Some((at, timer));
        });
    }
}
