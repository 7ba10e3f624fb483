//! Attacks that need no more commands once they have begun: what the server does while everybody is idle.

use std::time::Duration;

use super::requests::{CHANNEL, acquire, acquire_all, names};
use super::stage::{Row, Stage};
use crate::line::Outcome;

/// How often a reader waits for two locks, of which one is never to be had.
const WAITS: usize = 100;
const LONG: usize = 20_000;

pub(super) fn upgrades() -> Row {
    Row::new(format!("a reader waits for an upgrade, and {WAITS} times for two locks"), upgrade)
}

pub(super) fn rows(keys: usize) -> Vec<Row> {
    vec![
        Row::new(format!("{keys} sessions of PX 1, then nobody does anything"), move |stage| {
            sessions(stage, &names("k", keys))
        })
        .with_file(),
        Row::new(format!("the same with names of {} kB", LONG / 1000), move |stage| {
            sessions(stage, &names(&"k".repeat(LONG), keys))
        })
        .with_file(),
    ]
}

/// A holder has so many places for its lock and one that another one keeps, and waits for an upgrade, which is free to be had.
fn upgrade(stage: &mut Stage) -> Outcome<()> {
    let mut listener = stage.listener()?;
    stage.ask(&acquire("z", "other", ""))?;
    stage.ask(&acquire("k", "A", "SHARED"))?;
    stage.ask(&acquire("k", "B", "SHARED"))?;
    stage.attack(|stage| {
        let both = acquire_all(&["k", "z"], &format!("OWNER A SHARED BLOCK 0 NOTIFY {CHANNEL}"));
        stage.all((0..WAITS).map(|_| both.clone()))?;
        stage.client.ask(&acquire("k", "A", &format!("BLOCK 0 NOTIFY {CHANNEL}")))?;
        stage.client.say("LOCK.RELEASE k B")
    })?;
    stage.note_idle();
    let granted = listener.hears("granted", Duration::from_millis(100))?;
    stage.note(if granted { "the upgrade was granted" } else { "the upgrade was not granted" });
    Ok(())
}

/// Leases that are as short as can be, and that the server keeps renewing.
fn sessions(stage: &mut Stage, keys: &[String]) -> Outcome<()> {
    stage.attack(|stage| stage.client.ask(&acquire_all(keys, "OWNER holder PX 1 SESSION")))?;
    stage.note_idle();
    let held = stage.server.info("lock", "lock_sessions");
    stage.note(format!("{held:.0} sessions are left"));
    Ok(())
}
