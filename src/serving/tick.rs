//! The timers: one does what is due, one answers those whose grant has been made, and one looks how far replicas are.
//!
//! The first two are apart, so that a handover makes but one, of 0 ms: the first one stays set while leases only move on. (With one for
//! both, a handover took 47,100 instructions of the server, not 39,600.)
//!
//! Why here, and not where the grant is made: the server's `UnblockClient` answers a client, but keeps it blocked until
//! the event loop is about to sleep. On some servers a `CLIENT UNBLOCK` that comes in between would send a second
//! reply, on others a timeout would swallow the first. A timer of 0 ms fires after the commands that have already
//! arrived and right before the server sends replies, or a millisecond later where another timer is due first. (With
//! threads for input, what they have read meanwhile is in between: see `waiting::ended`.)

use std::ffi::CStr;

use super::host::Server;
use super::table::{BUDGET, TABLE, now};
use crate::lock::Millis;
use crate::server::{self, AFTER_PANIC, AckEvents, Acks, Ctx, ServerCell, Timer, TimerTask};
use crate::stats;
use crate::waiting::{self, Budget};

struct Tick {
    /// The timer for what is due next.
    due_work: Option<Set>,
    /// The timer that answers waiters, and how many turns of duty it has outlasted.
    answers: Option<(Timer, u8)>,
    /// Waiters are being answered now. (A timer that is set while another timer runs fires a millisecond later, and so do all timers that
    /// are set until then.)
    answering: bool,
    /// What looks how far replicas are, where somebody waits for them, and what tells of their answers.
    replicas: Option<Set>,
    acks: Option<Acks>,
    /// The work that is due is being done now.
    running: bool,
}

/// A timer of the server's that has been set.
struct Set {
    /// When it fires, by the wall clock.
    at: Millis,
    /// When it fires, in ms since boot, which nobody sets: the server's timers go by the wall clock.
    due: Millis,
    timer: Timer,
}

impl Set {
    fn new<A: TimerTask>(delay: Millis, now: Millis) -> Self {
        let timer = Timer::after::<A>(delay);
        Self { at: now.saturating_add(delay), due: server::since_boot().saturating_add(delay), timer }
    }
}

/// A timer that is so much too late, in ms, waits for a wall clock that has been set back.
const LATE: Millis = 250;

static TICK: ServerCell<Tick> = ServerCell::new(Tick {
    due_work: None,
    answers: None,
    answering: false,
    replicas: None,
    acks: None,
    running: false,
});

impl Tick {
    /// Listens to replicas as long as somebody waits for them, and asks them where there is something new.
    #[inline(never)]
    fn see_to_replicas(&mut self, syncs: bool) {
        if syncs != self.acks.is_some() {
            self.acks = if syncs { Acks::listen::<Replicas>() } else { None };
        }
        if TABLE.with(|table| table.replication.is_to_ask()) {
            self.look_at_replicas(0);
        }
    }

    /// Has it looked how far replicas are, in so many ms.
    fn look_at_replicas(&mut self, delay: Millis) {
        if self.replicas.is_none() {
            self.replicas = Some(Set::new::<Replicas>(delay, server::now() / 1000));
        }
    }
}

/// Sets the timers for what is due next, unless they fire by then anyway.
pub(super) fn arm() {
    // The code that runs or answers calls this function when it has finished.
    if TICK.with(|tick| tick.running || tick.answering) {
        return;
    }
    #[cfg(debug_assertions)]
    TABLE.with(|table| {
        if table.is_small() {
            table.check();
        }
    });
    let (answered, next, syncs) =
        TABLE.with(|table| (table.has_answered(), table.next_due(), !table.replication.is_empty()));
    TICK.with(|tick| {
        if syncs || tick.acks.is_some() {
            tick.see_to_replicas(syncs);
        }
        if answered && tick.answers.is_none() {
            tick.answers = Some((Timer::after::<Answers>(0), 0));
        }
        let Some(next) = next.filter(|&next| tick.due_work.as_ref().is_none_or(|set| set.at > next)) else {
            return;
        };
        let now = server::now() / 1000;
        // One that is set for now is not set again.
        if tick.due_work.as_ref().is_some_and(|set| set.at <= now) {
            return;
        }
        if let Some(late) = tick.due_work.take() {
            late.timer.stop();
        }
        tick.due_work = Some(Set::new::<DueWork>(next.saturating_sub(now).max(0), now));
    });
}

/// The server is on duty: timers that wait for the wall clock, which has been set back, are set anew.
pub(super) fn on_duty() {
    let now = server::since_boot();
    TICK.with(|tick| {
        if let Some(late) = tick.due_work.take_if(|set| now > set.due.saturating_add(LATE)) {
            late.timer.stop();
        }
        let is_late = |(_, turns): &mut (Timer, u8)| {
            *turns += 1;
            *turns > 2
        };
        if let Some((late, _)) = tick.answers.take_if(is_late) {
            late.stop();
        }
        if let Some(late) = tick.replicas.take_if(|set| now > set.due.saturating_add(LATE)) {
            late.timer.stop();
        }
        if tick.acks.is_some() {
            // Should an answer have been missed.
            tick.look_at_replicas(0);
        }
    });
    arm();
}

/// Whether what is due is being done now.
pub(super) fn is_running() -> bool {
    TICK.with(|tick| tick.running)
}

fn answer(ctx: &Ctx<'_>) {
    BUDGET.with(Budget::begin_turn);
    TICK.with(|tick| tick.answering = true);
    waiting::answer(&mut Server::new(ctx));
    TICK.with(|tick| tick.answering = false);
}

struct Answers;

impl TimerTask for Answers {
    const NAME: &'static CStr = c"answers";

    fn run(ctx: &Ctx<'_>) {
        TICK.with(|tick| tick.answers = None);
        answer(ctx);
        // More is to be told, or a grant that nobody has heard of goes to the next.
        arm();
    }

    fn run_again() {
        TICK.with(|tick| {
            tick.answering = false;
            tick.answers = Some((Timer::after::<Self>(AFTER_PANIC), 0));
        });
    }
}

struct Replicas;

impl AckEvents for Replicas {
    fn acked() {
        TICK.with(|tick| tick.look_at_replicas(0));
    }
}

impl TimerTask for Replicas {
    const NAME: &'static CStr = c"replicas";

    fn run(ctx: &Ctx<'_>) {
        TICK.with(|tick| tick.replicas = None);
        BUDGET.with(Budget::begin_turn);
        let again = waiting::confirm(&mut Server::new(ctx), now());
        answer(ctx);
        if let Some(delay) = again {
            TICK.with(|tick| tick.look_at_replicas(delay));
        }
        arm();
    }

    fn run_again() {
        TICK.with(|tick| {
            (tick.answering, tick.replicas) = (false, None);
            tick.look_at_replicas(AFTER_PANIC);
        });
    }
}

struct DueWork;

impl TimerTask for DueWork {
    const NAME: &'static CStr = c"due-work";

    fn run(ctx: &Ctx<'_>) {
        TICK.with(|tick| {
            tick.due_work = None;
            tick.running = true;
        });
        BUDGET.with(Budget::begin_turn);
        let timeouts = waiting::run_due(&mut Server::new(ctx), now());
        stats::TIMEOUTS.add(timeouts);
        TICK.with(|tick| tick.running = false);
        arm();
    }

    fn run_again() {
        let set = Set::new::<Self>(AFTER_PANIC, server::now() / 1000);
        TICK.with(|tick| {
            tick.running = false;
            tick.due_work = Some(set);
        });
    }
}
