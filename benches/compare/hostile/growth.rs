//! Attacks on memory: what places take, and how the module's tables grow.

use std::time::{Duration, Instant};

use super::Row;
use super::requests::{CHANNEL, LEASE, acquire_all, names};
use super::stage::Stage;
use crate::line::Outcome;
use crate::resp::{owner, words};
use crate::rounds::Plan;

/// How many commands one connection sends, unless it is refused before.
const COMMANDS: usize = 300;
/// Sessions of one connection: a few more than the table has room for that grows last, by the eighth part that it leaves empty.
const SESSIONS: usize = 1_850_000;
/// How many of them are looked at together.
const SOME: usize = 1_000;
/// The length of a long name, in bytes.
const LONG: usize = 1_000;

/// Which locks the places of a connection are for.
#[derive(Clone, Copy)]
enum Locks {
    Same,
    Others,
    /// Others with long names.
    Long,
}

impl Locks {
    fn what(self, count: usize) -> String {
        match self {
            Self::Same => format!("the same {count} locks"),
            Self::Others => format!("{count} other locks"),
            Self::Long => format!("{count} other locks with names of {} kB", LONG / 1000),
        }
    }

    /// The locks of the command of that number.
    fn names(self, number: usize, count: usize) -> Vec<String> {
        match self {
            Self::Same => names("k", count),
            Self::Others => names(&format!("k:{number:04}"), count),
            Self::Long => names(&format!("{}:{number:04}", "k".repeat(LONG)), count),
        }
    }
}

pub(super) fn rows_of(plan: &Plan, keys: usize) -> Vec<Row> {
    let commands = plan.pick(COMMANDS, 50);
    [Locks::Same, Locks::Others, Locks::Long]
        .map(|locks| {
            let what = format!("{commands} places, each for {}", locks.what(keys));
            Row::new(what, move |stage| places(stage, locks, keys, commands)).once()
        })
        .into()
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
fn places(stage: &mut Stage, locks: Locks, keys: usize, commands: usize) -> Outcome<()> {
    let mut holder = stage.connect();
    let before = stage.server.used_memory();
    let (done, refusal) = stage.attack(|stage| {
        for number in 0..commands {
            let keys = locks.names(number, keys);
            holder.say(&format!("LOCK.ACQUIRE {} OWNER holder PX {LEASE} ONCE", keys[0]))?;
            let ask = acquire_all(&keys, &format!("OWNER {} BLOCK 0 NOTIFY {CHANNEL}", owner(number)));
            if let Err(refusal) = stage.client.ask(&ask) {
                return Ok((number, Some(refusal)));
            }
        }
        Ok((commands, None))
    })?;
    let taken = stage.server.used_memory() - before;
    let each = taken / done.max(1) as f64;
    match refusal {
        Some(refusal) => {
            let mb = taken / 1e6;
            stage.note(format!("{:.0} kB for each; {mb:.1} MB in all, then: {refusal}", each / 1e3));
        }
        None => {
            let most = stage.server.setting("lock.max-places").unwrap_or(0.0);
            let gb = each * most / 1e9;
            stage.note(format!("{:.0} kB for each; {most:.0} such places would take {gb:.1} GB", each / 1e3));
        }
    }
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
