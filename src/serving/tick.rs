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
    /// What rings the next alarm.
    alarms: Option<Set>,
    /// What answers those whose answers are due, and how many turns of duty it has outlasted.
    answers: Option<(Timer, u8)>,
    /// The alarms are ringing now.
    ringing: bool,
}

/// A timer of the server's that has been set.
struct Set {
    /// When it rings, by the wall clock.
    at: Millis,
    /// The same in ms since boot, which nobody sets: the server's timers go by the wall clock.
    due: Millis,
    timer: Timer,
}

impl Set {
    fn new<A: Alarm>(delay: Millis, now: Millis) -> Self {
        let timer = Timer::after::<A>(delay);
        Self { at: now.saturating_add(delay), due: server::since_boot().saturating_add(delay), timer }
    }
}

/// A timer that is so much too late, in ms, waits for a wall clock that has been set back.
const LATE: Millis = 250;

static TICK: ServerCell<Tick> = ServerCell::new(Tick { alarms: None, answers: None, ringing: false });

/// Sets the timers for what is due next, where they are not set for that or earlier.
pub(super) fn arm() {
    let (answered, next) = STATE.with(|state| (state.has_answered(), state.next_due()));
    TICK.with(|tick| {
        if tick.ringing {
            return;
        }
        if answered && tick.answers.is_none() {
            tick.answers = Some((Timer::after::<Answers>(0), 0));
        }
        let Some(next) = next.filter(|&next| tick.alarms.as_ref().is_none_or(|set| set.at > next)) else {
            return;
        };
        let now = server::now() / 1000;
        // One that is set for now is not set again.
        if tick.alarms.as_ref().is_some_and(|set| set.at <= now) {
            return;
        }
        if let Some(late) = tick.alarms.take() {
            late.timer.stop();
        }
        tick.alarms = Some(Set::new::<Alarms>(next.saturating_sub(now).max(0), now));
    });
}

/// The server is on duty: timers that wait for the wall clock, which has been set back, are set anew.
pub(super) fn on_duty() {
    let now = server::since_boot();
    TICK.with(|tick| {
        if let Some(late) = tick.alarms.take_if(|set| now > set.due.saturating_add(LATE)) {
            late.timer.stop();
        }
        let is_late = |(_, turns): &mut (Timer, u8)| {
            *turns += 1;
            *turns > 2
        };
        if let Some((late, _)) = tick.answers.take_if(is_late) {
            late.stop();
        }
    });
    arm();
}

/// Whether the alarms are ringing now.
pub(super) fn is_ringing() -> bool {
    TICK.with(|tick| tick.ringing)
}

struct Answers;

impl Alarm for Answers {
    const NAME: &'static CStr = c"answers";

    fn ring(ctx: &Ctx<'_>) {
        TICK.with(|tick| tick.answers = None);
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
            tick.alarms = None;
            tick.ringing = true;
        });
        let timeouts = waiting::ring(&mut Server::new(ctx), now());
        stats::TIMEOUTS.add(timeouts);
        TICK.with(|tick| tick.ringing = false);
        arm();
    }

    fn ring_again() {
        let set = Set::new::<Self>(AFTER_PANIC, server::now() / 1000);
        TICK.with(|tick| {
            tick.ringing = false;
            tick.alarms = Some(set);
        });
    }
}
