//! Attacks that need no more commands once they have begun: what the server does while everybody is idle.

use std::time::Duration;

use super::requests::{CHANNEL, acquire, acquire_all, names};
use super::stage::{Row, Stage};

/// How often a reader waits for two locks, of which one is never to be had.
const WAITS: usize = 100;
const LONG: usize = 20_000;

/// A holder has so many places for its lock and one that another one keeps, and waits for an upgrade, which is free to be had.
pub(super) fn upgrades() -> Row {
    let what = format!("a reader waits for an upgrade, and {WAITS} times for two locks");
    Row::new(what, |stage| {
        let mut listener = stage.listener()?;
        stage.ask(&acquire("z", "other", ""))?;
        stage.ask(&acquire("k", "A", "SHARED"))?;
        stage.ask(&acquire("k", "B", "SHARED"))?;
        stage.attack(|stage| {
            let both = acquire_all(&["k", "z"], &format!("OWNER A SHARED BLOCK 0 NOTIFY {CHANNEL}"));
            stage.all((0..WAITS).map(|_| both.clone()))?;
            stage.ask(&acquire("k", "A", &format!("BLOCK 0 NOTIFY {CHANNEL}")))?;
            stage.say("LOCK.RELEASE k B")
        })?;
        stage.note_idle();
        let granted = listener.hears("granted", Duration::from_millis(100))?;
        stage.note(if granted { "the upgrade was granted" } else { "the upgrade was not granted" });
        Ok(())
    })
}

/// Leases that are as short as can be, and that the server keeps renewing.
pub(super) fn rows(keys: usize) -> Vec<Row> {
    let row = |what: String, prefix: String| {
        let keys = names(&prefix, keys);
        let sessions = move |stage: &mut Stage| {
            stage.attack(|stage| stage.ask(&acquire_all(&keys, "OWNER holder PX 1 SESSION")))?;
            stage.note_idle();
            let held = stage.server.info("lock", "lock_sessions");
            stage.note(format!("{held:.0} sessions are left"));
            Ok(())
        };
        Row::new(what, sessions).with_file()
    };
    vec![
        row(format!("{keys} sessions of PX 1, then nobody does anything"), "k".into()),
        row(format!("the same with names of {} kB", LONG / 1000), "k".repeat(LONG)),
    ]
}
