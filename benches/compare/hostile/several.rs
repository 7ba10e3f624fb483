//! Attacks on many locks with many holders or waiters each: all that one command, or one turn of the server's timers, does to them.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::requests::{CHANNEL, LEASE, acquire, acquire_all, names, several};
use super::stage::{Row, Stage};
use crate::line::Outcome;
use crate::resp::{owner, words};
use crate::rounds::Plan;

/// Readers that wait for each lock. As many as get it in one step.
const WAITING: usize = 64;
/// Places of one owner.
const PLACES: usize = 1000;
/// Holders of each lock whose leases end when a wait does.
const ENDING: usize = 64;
/// Locks that expire together, and the holders of each.
const EXPIRING: usize = 300;

fn lapsed(keys: usize, holders: usize) -> Row {
    Row::new(format!("LOCK.MACQUIRE of {keys} locks with {holders} lapsed holders each"), move |stage| {
        let (keys, holders) = (names("k", keys), stage.holders(holders, 2));
        let end = ahead(holders);
        stage.ask(&acquire_all(&keys, &format!("OWNER keeper SHARED PX {LEASE}")))?;
        hold_until(stage, &keys, holders, end)?;
        stage.watch_quiet();
        thread::sleep(Duration::from_millis((end + 50).saturating_sub(now()) as u64));
        stage.attack_by(&acquire_all(&keys, &format!("OWNER new SHARED PX {LEASE}")))
    })
}

/// `PEXPIRE` brings the ends of all leases nearer: those that are shorter than the longest are over.
fn moved(keys: usize, holders: usize) -> Row {
    let what = format!("LOCK.MEXTEND of {keys} locks with {holders} holders each, after PEXPIRE");
    Row::new(what, move |stage| {
        let (keys, holders) = (names("k", keys), stage.holders(holders, 1));
        stage.all((0..holders).map(|number| reader(&keys, number, 600_000)))?;
        stage.ask(&acquire_all(&keys, "OWNER keeper SHARED PX 3600000"))?;
        stage.all(keys.iter().map(|key| words(&format!("PEXPIRE {key} 1000000"))))?;
        stage.attack_by(&several("LOCK.MEXTEND", &keys, "keeper PX 3600000"))
    })
}

pub(super) fn rows(plan: &Plan, keys: usize) -> Vec<Row> {
    let mut rows: Vec<Row> =
        plan.pick(vec![50, 400], vec![50]).into_iter().map(|holders| lapsed(keys, holders)).collect();
    let what = format!("LOCK.MRELEASE of {keys} locks with {WAITING} readers waiting for each");
    rows.push(Row::new(what, move |stage| {
        // It need not be quick to read.
        let _listener = stage.listener()?;
        let keys = names("k", keys);
        stage.ask(&acquire_all(&keys, &format!("OWNER holder PX {LEASE}")))?;
        let wait = |number| acquire_each(&keys, &owner(number), &format!("SHARED BLOCK 0 NOTIFY {CHANNEL}"));
        stage.take_places((0..WAITING).flat_map(wait))?;
        stage.attack_by(&several("LOCK.MRELEASE", &keys, "holder"))
    }));
    let what = format!("ONCE asks again, of an owner with {PLACES} places for {keys} locks");
    rows.push(Row::new(what, move |stage| {
        let mut keys = names("k", keys);
        stage.ask(&acquire(&keys[0], "holder", ""))?;
        // For the same locks but the last, so each of them has to be looked at to its end.
        let mut place = |number, once| {
            keys.pop();
            keys.push(format!("last:{number}"));
            acquire_all(&keys, &format!("OWNER waiter BLOCK 0 NOTIFY {CHANNEL} {once}"))
        };
        stage.take_places((0..PLACES).map(|number| place(number, "")))?;
        stage.attack_by(&place(PLACES, "ONCE"))
    }));
    let what = format!("a wait for {keys} locks ends when {ENDING} leases of each have ended");
    rows.push(Row::new(what, move |stage| {
        let (keys, holders) = (names("k", keys), stage.holders(ENDING, 1));
        stage.watch_quiet();
        let end = ahead(holders);
        stage.ask(&acquire_all(&keys, &format!("OWNER keeper SHARED PX {LEASE}")))?;
        hold_until(stage, &keys, holders, end)?;
        let (mut waiter, left) = (stage.connect(), end.saturating_sub(now()));
        // The server looks at all locks of a wait before it ends that: they may be free by then. A reader keeps each of them.
        waiter.send(&acquire_all(&keys, &format!("OWNER waiter BLOCK {}", left + 3)))?;
        thread::sleep(Duration::from_millis(left.saturating_sub(50) as u64));
        stage.attack(|_| waiter.reply().map(|_| ()))
    }));
    rows.extend(plan.pick(vec![100, 400], vec![100]).into_iter().map(|holders| moved(keys, holders)));
    rows
}

pub(super) fn expiry() -> [Row; 2] {
    [
        Row::new(format!("{EXPIRING} sets of {EXPIRING} members expire together, for comparison"), |stage| {
            let members: String = (0..EXPIRING).map(|number| format!(" {}", owner(number))).collect();
            stage.all(names("k", EXPIRING).iter().map(|key| words(&format!("SADD {key}{members}"))))?;
            expire(stage)
        }),
        Row::new(format!("{EXPIRING} locks of {EXPIRING} holders expire together"), |stage| {
            let (all, holders) = (names("k", EXPIRING), stage.holders(EXPIRING, 0));
            let readers = (0..holders).flat_map(|number| acquire_each(&all, &owner(number), "SHARED"));
            stage.all(readers)?;
            expire(stage)
        }),
    ]
}

fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970").as_millis()
}

/// When leases are to end that so many readers acquire before that.
fn ahead(readers: usize) -> u128 {
    now() + 2_000 + 10 * readers as u128
}

/// So many readers acquire all these locks, until that time.
fn hold_until(stage: &mut Stage, keys: &[String], readers: usize, end: u128) -> Outcome<()> {
    // One at a time: each lease is counted from its own command.
    (0..readers).try_for_each(|number| {
        let lease = end.checked_sub(now()).filter(|lease| *lease > 100).ok_or("this machine is too slow")?;
        stage.all([reader(keys, number, lease)])
    })
}

fn reader(keys: &[String], number: usize, lease: u128) -> Vec<u8> {
    acquire_all(keys, &format!("OWNER {} SHARED PX {lease}", owner(number)))
}

fn acquire_each(keys: &[String], owner: &str, rest: &str) -> Vec<Vec<u8>> {
    keys.iter().map(|key| acquire(key, owner, rest)).collect()
}

/// Nobody waits, and no command comes: the server deletes the keys by itself.
fn expire(stage: &mut Stage) -> Outcome<()> {
    let end = now() + 2_000;
    stage.all(names("k", EXPIRING).iter().map(|key| words(&format!("PEXPIREAT {key} {end}"))))?;
    stage.attack(|stage| {
        let begin = Instant::now();
        while stage.client.say("DBSIZE")? != b":0\r\n" {
            if begin.elapsed() > Duration::from_secs(20) {
                return Err("not all have expired after 20 s".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    })
}
