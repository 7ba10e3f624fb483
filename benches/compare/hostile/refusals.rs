//! Attacks of a few commands: payloads that are refused, grants that are given up, long replies, and keys that are nobody's.

use std::ops::Range;
use std::time::{Duration, Instant};

use crc::{CRC_64_REDIS, Crc, Table};

use super::requests::{CHANNEL, acquire, acquire_all};
use super::stage::{Row, Stage};
use crate::line::{Line, Outcome};
use crate::net::Net;
use crate::resp::{owner, request};
use crate::rounds::Plan;

/// Clients that wait, each on a connection of its own.
const BLOCKED: usize = 2_000;
/// The bytes of the fence in a payload of one grant, behind the type's name, the length of the grant and its flags.
const FENCE: Range<usize> = 13..20;
/// The greatest that there is.
const GREATEST: u64 = (1 << 53) - 1;
/// How often a key is written.
const WRITES: usize = 500;

pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    let places = plan.pick(50_000, 10_000);
    vec![
        Row::new("a RESTORE with the greatest fence", restore),
        Row::new("LOCK.LEAVE of an unclaimed grant of two locks, in MULTI", leave),
        Row::new(format!("LOCK.INFO FULL of a lock with {places} places"), move |stage| info(stage, places)),
        Row::new(format!("writes to KEY\\0lock-waiters, {BLOCKED} clients blocked"), companion),
    ]
}

/// Once the greatest fence is given, nothing more is granted.
fn restore(stage: &mut Stage) -> Outcome<()> {
    stage.say("LOCK.ACQUIRE sample")?;
    let reply = stage.client.say("DUMP sample")?;
    stage.say("LOCK.BREAK sample")?;
    // Between the line with its length and the checksum.
    let begin = reply.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let mut payload = reply[begin..reply.len() - 2 - 8].to_vec();
    payload[FENCE].copy_from_slice(&GREATEST.to_le_bytes()[..FENCE.len()]);
    let checksum = Crc::<u64, Table<16>>::new(&CRC_64_REDIS).checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    let request = request(&[b"RESTORE", &b"restored"[..], b"60000", &payload]);
    let outcome = stage.attack(|stage| stage.ask(&request));
    stage.note(format!("RESTORE: {}", outcome.err().unwrap_or("OK".into())));
    if stage.grants().is_ok() {
        stage.note("LOCK.ACQUIRE afterwards: granted");
    }
    Ok(())
}

/// A grant of two locks, that nobody has claimed, is given up by the name of one of them.
fn leave(stage: &mut Stage) -> Outcome<()> {
    let mut listener = stage.listener()?;
    stage.ask(&acquire("one", "holder", ""))?;
    let both = acquire_all(&["one", "two"], &format!("OWNER waiter BLOCK 0 NOTIFY {CHANNEL}"));
    stage.ask(&both)?;
    stage.say("LOCK.RELEASE one holder")?;
    if !listener.hears("granted", Duration::from_secs(2))? {
        return Err("no message of the grant".into());
    }
    let reply = stage.attack(|stage| {
        for line in ["MULTI", "LOCK.LEAVE one waiter", "LOCK.INFO two", "LOCK.ACQUIRE two OWNER next"] {
            stage.client.say(line)?;
        }
        stage.client.say("EXEC")
    })?;
    let reply = String::from_utf8_lossy(&reply);
    let shown = if reply.contains("waiter") { "still held" } else { "free" };
    let granted = if reply.contains("next") { "granted" } else { "null" };
    stage.note(format!("the other lock in the same MULTI: {shown} for LOCK.INFO, LOCK.ACQUIRE: {granted}"));
    Ok(())
}

fn info(stage: &mut Stage, places: usize) -> Outcome<()> {
    stage.ask(&acquire("k", "holder", ""))?;
    let ask = |number| acquire("k", &owner(number), &format!("BLOCK 0 NOTIFY {CHANNEL}"));
    stage.take_places((0..places).map(ask))?;
    let (took, bytes) = stage.attack(|stage| {
        let begin = Instant::now();
        stage.client.send(b"LOCK.INFO k FULL\r\nPING\r\n")?;
        let bytes = stage.client.skip_to("+PONG\r\n")?;
        Ok((begin.elapsed(), bytes))
    })?;
    let (ms, mb) = (took.as_secs_f64() * 1e3, bytes as f64 / 1e6);
    stage.note(format!("the reply took {ms:.1} ms, {mb:.2} MB"));
    Ok(())
}

/// The key that clients are blocked on, beside the lock's own, if it is named like this: a write to it has the server look at each.
fn companion(stage: &mut Stage) -> Outcome<()> {
    stage.ask(&acquire("k", "holder", ""))?;
    let mut blocked = Net::with(BLOCKED, stage.server.port);
    blocked.block(0, BLOCKED, "LOCK.ACQUIRE k BLOCK 0");
    blocked.wait_until(|| stage.server.blocked_clients() >= BLOCKED);
    let usual = write(&mut stage.client, b"k\0elsewhere")?;
    let took = stage.attack(|stage| write(&mut stage.client, b"k\0lock-waiters"))?;
    stage.note(format!("{took:.2} ms for each RPUSH and DEL; to another key {usual:.2} ms"));
    Ok(())
}

/// Makes a key and deletes it, again and again; how long both took, in ms.
fn write(client: &mut Line, key: &[u8]) -> Outcome<f64> {
    let begin = Instant::now();
    for _ in 0..WRITES {
        client.ask(&request(&[b"RPUSH", key, b"x"]))?;
        client.ask(&request(&[b"DEL", key]))?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3 / WRITES as f64)
}
