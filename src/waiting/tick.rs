//! The two timers: one rings the alarms, one answers those whose grant has been made.
//!
//! Two, so that a handover makes but one, of 0 ms: the alarms' stays set while leases only move on. (With one for both, a
//! handover took 47,100 instructions of the server, not 39,600.)
//!
//! Why here, and not where the grant is made: the server's `UnblockClient` answers a client, but keeps it blocked until
//! the event loop is about to sleep. On some servers a `CLIENT UNBLOCK` that comes in between would send a second
//! reply, on others a timeout would swallow the first. A timer of 0 ms rings after the commands that have already
//! arrived and right before the server sends replies, or a millisecond later where another timer is due first. (With
//! threads for input, what they have read meanwhile is in between: see `departures`.)

use std::ffi::CStr;

use super::state::State;
use super::{STATE, grace, hand_over};
use crate::error::Error;
use crate::keyspace::LockKey;
use crate::lock::Millis;
use crate::server::{
    self, AFTER_PANIC, Alarm, Arg, Args, Argument, Called, Change, Command, Ctx, Definition, KeyUse, Timer,
};

/// How long in ms to wait before looking again whether clients are still paused. Costs one call.
const WHILE_PAUSED: Millis = 2;

/// How long in ms to wait before trying again a handover that the server refused (too few replicas, a disk that
/// fails). Costs a call for each lock that is due.
const WHILE_REFUSED: Millis = 100;

/// Sets the timers for what is due next, where they are not set for that or earlier.
pub(super) fn arm() {
    let answers = STATE.with(|state| {
        let due = state.has_answered() && !state.ringing;
        due && !std::mem::replace(&mut state.answering, true)
    });
    if answers {
        Timer::after::<Answers>(0);
    }
    let (next, late) = STATE.with(|state| {
        let next = state.next_due().filter(|_| !state.ringing);
        let next = next.filter(|&next| state.timer.as_ref().is_none_or(|(at, _)| *at > next));
        (next, next.and_then(|_| state.timer.take()))
    });
    let Some(next) = next else { return };
    if let Some((_, timer)) = late {
        timer.stop();
    }
    let timer = Timer::after::<Alarms>(next.saturating_sub(server::now() / 1000));
    STATE.with(|state| state.timer = Some((next, timer)));
}

struct Answers;

impl Alarm for Answers {
    const NAME: &'static CStr = c"answers";

    fn ring(_ctx: &Ctx<'_>) {
        STATE.with(|state| state.answering = false);
        answer();
    }
}

fn answer() {
    for client in STATE.with(State::take_answered) {
        client.unblock();
    }
}

struct Alarms;

impl Alarm for Alarms {
    const NAME: &'static CStr = c"alarms";

    fn ring(ctx: &Ctx<'_>) {
        STATE.with(|state| {
            state.timer = None;
            state.ringing = true;
        });
        ring_alarms(ctx);
        STATE.with(|state| state.time_out(server::now() / 1000));
        answer();
        STATE.with(|state| state.ringing = false);
        arm();
    }

    fn ring_again() {
        let at = (server::now() / 1000).saturating_add(AFTER_PANIC);
        let timer = Timer::after::<Self>(AFTER_PANIC);
        STATE.with(|state| {
            state.ringing = false;
            state.timer = Some((at, timer));
        });
    }
}

fn ring_alarms(ctx: &Ctx<'_>) {
    let now = server::now() / 1000;
    if ctx.is_replica() {
        return STATE.with(State::stand_down);
    }
    if ctx.must_keep_still() {
        return STATE.with(|state| state.quiet_until = now.saturating_add(WHILE_PAUSED));
    }
    let uncounted = grace::replicas_uncounted(ctx);
    if uncounted > 0 {
        return STATE.with(|state| state.quiet_until = now.saturating_add(uncounted));
    }
    let mut refused = Vec::new();
    for place in STATE.with(|state| state.take_due(now)) {
        let called = if ctx.select_db(place.db) {
            ctx.call_write(Settle::DEFINITION.name, &place.key)
        } else {
            Called::Refused
        };
        let left = called == Called::Elsewhere && !STATE.with(|state| state.moved_away(&place));
        if called != Called::Done && !left {
            refused.push(place);
        }
    }
    STATE.with(|state| {
        for place in refused {
            state.alarm(place, now.saturating_add(WHILE_REFUSED));
        }
    });
}

/// `LOCK.SETTLE key`: what an alarm runs. A command, so that the server applies to a handover by timer what it applies
/// to every write: replicas enough, a disk that works, a slot that is served here. Refused from clients.
pub(crate) struct Settle;

impl Command for Settle {
    const DEFINITION: Definition = Definition {
        name: c"lock.settle",
        summary: c"The module's own, refused from clients: hands a lock over by timer.",
        complexity: c"O(log N) for N waiters.",
        since: c"0.1.0",
        flags: c"write fast",
        acl: &[c"write", c"fast", c"admin", c"dangerous"],
        tips: c"",
        key: KeyUse { tells: false, change: Some(Change::Update) },
        arguments: &[Argument::KEY],
    };
    type Error = Error;

    fn run(ctx: &Ctx<'_>, args: Args<'_>) -> Result<(), Error> {
        if !STATE.with(|state| state.ringing) {
            return Err(Error::NotAClientCommand);
        }
        let key: Arg<'_> = args.get(1).ok_or(Error::Syntax)?;
        match LockKey::write(ctx, key) {
            Ok(mut lock) => hand_over::settle(ctx, &mut lock, server::now()),
            Err(_) => {
                let db = ctx.db();
                STATE.with(|state| state.overwritten(db, key.bytes()));
            }
        }
        ctx.reply_status(c"OK");
        Ok(())
    }
}
