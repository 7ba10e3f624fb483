//! Attacks on memory: what places take, and how the module's tables grow.

use std::time::{Duration, Instant};

use super::requests::{CHANNEL, LEASE, acquire_all, names};
use super::stage::{Row, Stage};
use crate::line::Outcome;
use crate::resp::{owner, words};
use crate::rounds::Plan;

/// How many commands one connection sends, unless it is refused before.
const COMMANDS: usize = 300;
/// Sessions of one connection: a few more than the table has room for that grows last, by the eighth part that it leaves empty.
const SESSIONS: usize = 1_850_000;
const SOME: usize = 1_000;
const LONG: usize = 1_000;

pub(super) fn rows_of(plan: &Plan, keys: usize) -> Vec<Row> {
    let commands = plan.pick(COMMANDS, 50);
    // By the number of the command, how the names of its locks begin.
    let row = |locks: String, prefix: fn(usize) -> String| {
        let what = format!("{commands} places, each for {locks}");
        Row::new(what, move |stage| places(stage, prefix, keys, commands)).once()
    };
    vec![
        row(format!("the same {keys} locks"), |_| "k".into()),
        row(format!("{keys} other locks"), |number| format!("k:{number:04}")),
        row(format!("{keys} other locks with names of {} kB", LONG / 1000), |number| {
            format!("{}:{number:04}", "k".repeat(LONG))
        }),
    ]
}

pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    if plan.quick {
        return Vec::new();
    }
    let plain = Row::new(format!("SET of {SESSIONS} keys, for comparison"), |stage| {
        fill(stage, |number| format!("SET lock:{number} {} PX {LEASE}", owner(number)))
    });
    let sessions = Row::new(format!("{SESSIONS} sessions of one connection"), |stage| {
        fill(stage, |number| format!("LOCK.ACQUIRE lock:{number} OWNER {} PX {LEASE} SESSION", owner(number)))
    });
    vec![plain.once(), sessions.once()]
}

/// One connection queues up again and again, each time with many locks of which one is held.
fn places(stage: &mut Stage, prefix: fn(usize) -> String, keys: usize, commands: usize) -> Outcome<()> {
    let mut holder = stage.connect();
    let before = stage.server.info("memory", "used_memory");
    let (done, refusal) = stage.attack(|stage| {
        for number in 0..commands {
            let keys = names(&prefix(number), keys);
            holder.say(&format!("LOCK.ACQUIRE {} OWNER holder PX {LEASE} ONCE", keys[0]))?;
            let ask = acquire_all(&keys, &format!("OWNER {} BLOCK 0 NOTIFY {CHANNEL}", owner(number)));
            if let Err(refusal) = stage.client.ask(&ask) {
                return Ok((number, Some(refusal)));
            }
        }
        Ok((commands, None))
    })?;
    let taken = stage.server.info("memory", "used_memory") - before;
    let each = taken / done.max(1) as f64;
    let more = match refusal {
        Some(refusal) => format!("{:.1} MB in all, then: {refusal}", taken / 1e6),
        None => {
            let most = stage.server.setting("lock.max-places").unwrap_or(0.0);
            format!("{most:.0} such places would take {:.1} GB", each * most / 1e9)
        }
    };
    stage.note(format!("{:.0} kB for each; {more}", each / 1e3));
    Ok(())
}

/// Sends so many requests, and notes which of them took longest.
fn fill(stage: &mut Stage, line: impl Fn(usize) -> String) -> Outcome<()> {
    let (took, from) = stage.attack(|stage| {
        let mut slowest = (Duration::ZERO, 0);
        for from in (0..SESSIONS).step_by(SOME) {
            let begin = Instant::now();
            stage.all((from..from + SOME).map(|number| words(&line(number))))?;
            slowest = slowest.max((begin.elapsed(), from));
        }
        Ok(slowest)
    })?;
    stage.note(format!("the slowest {SOME}: {:.0} ms, from number {from}", took.as_secs_f64() * 1e3));
    Ok(())
}
