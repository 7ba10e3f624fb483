//! Guarantee 5: nobody is left waiting. A free lock goes to one of its waiters; a reader does not wait for other readers; a limited wait
//! gets nothing after its time.
//!
//! A lock may be reserved for a client that also waits for others. So locks that were requested together are judged as one: while all of
//! them are free, the first waiter for any of them has nobody to wait for.
//!
//! A server that stands still, starts or can't write hands nothing over: it must have been at work for `BOUND`.

use std::collections::HashMap;

use super::check::Fault;
use super::record::{Call, Micros, Record, Reply, Room, process};
use super::servers::Servers;

/// How long a working server may need. It is longer than any grace here: a waiter that the module forgets waits for ever anyway.
const BOUND: Micros = 1_000_000;

/// Returns the faults in the history of one lock, or of locks that were requested together, and how many waits were judged.
pub(super) fn left_waiting(records: &[&Record], servers: &Servers) -> (Vec<Fault>, usize) {
    let mut faults = Vec::new();
    // The clients that certainly waited on each server, and until when.
    let mut waits: HashMap<i64, Vec<(&Record, Micros)>> = HashMap::new();
    for record in records {
        let Call::Acquire { block: Some(block), .. } = record.call else { continue };
        let time_is_up = if block == 0 { Micros::MAX } else { record.sent + block * 1000 };
        let until = match record.reply {
            Reply::Granted { fence, holds: 1, .. } => fence,
            Reply::Null if block > 0 => time_is_up,
            Reply::Waits => Micros::MAX,
            // Not judged: a client that was killed, lost its server, got the lock by its owner's own hold, or asked in a transaction.
            _ => continue,
        };
        if servers.at_work(process(record.client), time_is_up, until, BOUND) {
            faults.push(format!("5: granted, or not answered, when its time was up: {record:?}"));
        } else if record.reply == Reply::Waits {
            faults.push(format!("5: left waiting: {record:?}"));
        }
        waits.entry(process(record.client)).or_default().push((record, until));
    }
    let judged = waits.values().map(Vec::len).sum();
    for (process, waits) in waits {
        for (keep_off, what) in [(Keep::All, "nobody held the lock"), (Keep::Readers, "only readers came")] {
            let mut kept = kept(records, process, servers, keep_off);
            // After the last time, nobody keeps others waiting.
            kept.push((Micros::MAX, Micros::MAX));
            let mut free = 0;
            for (from, until) in kept {
                let long = from.saturating_sub(free) > BOUND;
                let waits = waits.iter().filter(|(record, _)| long && keep_off.concerns(record));
                let left = waits.into_iter().find(|(record, until)| {
                    let (start, end) = (free.max(record.sent), from.min(*until));
                    servers.at_work(process, start, end, BOUND)
                });
                if let Some((record, _)) = left {
                    faults.push(format!("5: {what} from {free} to {from}, but there waited {record:?}"));
                }
                free = free.max(until);
            }
        }
    }
    (faults, judged)
}

/// Which waiters a client may keep waiting.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    /// Any waiter, by holding the lock.
    All,
    /// Readers: by holding the lock or waiting in front of them, except as a reader.
    Readers,
}

impl Keep {
    /// Whether this waiter is one of those.
    fn concerns(self, record: &Record) -> bool {
        self == Self::All || reads(record)
    }
}

fn reads(record: &Record) -> bool {
    matches!(record.call, Call::Acquire { room: Room::Shared, .. })
}

/// Returns the times in which a client may have kept others waiting on this server: from the earliest time of its grant, or of its request,
/// until it was certainly over.
fn kept(records: &[&Record], here: i64, servers: &Servers, keep: Keep) -> Vec<(Micros, Micros)> {
    let mut owners: HashMap<(&str, &str), Vec<&Record>> = HashMap::new();
    let mut breaks: HashMap<&str, Vec<&Record>> = HashMap::new();
    for record in records {
        if let Some(owner) = record.owner() {
            owners.entry((&record.key, owner)).or_default().push(record);
        }
        if record.call == Call::Break {
            breaks.entry(&record.key).or_default().push(record);
        }
    }
    let mut all = Vec::new();
    for ((key, _), asked) in &owners {
        let breaks = breaks.get(key).map_or(&[][..], Vec::as_slice);
        let lease = lease_ends(asked, here, servers);
        for record in asked.iter().filter(|record| matches!(record.call, Call::Acquire { .. })) {
            let (from, known) = match (&record.reply, keep) {
                (_, Keep::Readers) if reads(record) => continue,
                (Reply::Granted { fence, holds: 1, .. }, Keep::All) => (*fence, record.received),
                (Reply::Granted { .. }, _) => (record.sent, record.received),
                (Reply::Gone, _) => (record.sent, None),
                (_, Keep::All) => continue,
                (_, Keep::Readers) => {
                    all.push((record.sent, record.received.unwrap_or(Micros::MAX)));
                    continue;
                }
            };
            let ends = asked.iter().chain(breaks).filter(|other| {
                // An earlier server's answer may be lost with it, so it does not count.
                ends(other) && process(other.client) == here && known.is_some_and(|known| known < other.sent)
            });
            all.push((from, ends.filter_map(|end| end.received).fold(lease, Micros::min)));
        }
    }
    all.sort_unstable();
    all
}

/// Whether this reply, to the owner or to an operator, means that no earlier grant is left.
fn ends(record: &Record) -> bool {
    match (&record.call, &record.reply) {
        (Call::Release { .. }, Reply::Number(0)) | (Call::Break, Reply::Number(_)) => true,
        // If the command named several locks, the error may concern another one.
        (Call::Extend { .. }, Reply::Refused(error)) => error == "NOTHELD" && record.with.len() < 2,
        (Call::Release { .. }, Reply::Refused(error)) => error == "NOTHELD",
        _ => false,
    }
}

/// Returns the latest end of an owner's leases of a lock, which may also end with its session, from its requests.
fn lease_ends(asked: &[&Record], here: i64, servers: &Servers) -> Micros {
    let ends = asked.iter().filter_map(|record| {
        let (lease, session) = match record.call {
            Call::Acquire { lease, session, .. } => (lease * 1000, session),
            Call::Extend { lease, .. } => (lease * 1000, false),
            _ => return None,
        };
        let elsewhere = process(record.client) != here;
        match (&record.reply, record.received) {
            // An earlier server made the grant, and was gone when this one began, so the lease ends at most its length later.
            (Reply::Granted { .. } | Reply::Number(_) | Reply::Gone, _) if elsewhere => {
                Some(servers.began(here).saturating_add(lease))
            }
            (Reply::Granted { .. }, _) if session => Some(servers.closed(record.client)),
            (Reply::Granted { .. } | Reply::Number(_), Some(received)) => Some(received + lease),
            (Reply::Gone, _) => Some(servers.closed(record.client).saturating_add(lease)),
            _ => None,
        }
    });
    ends.max().unwrap_or(Micros::MAX)
}
