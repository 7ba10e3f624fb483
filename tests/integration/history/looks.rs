//! What `LOCK.INFO` shows: grants that fit together, in the order in which they were made, and every acknowledged grant.

use std::collections::BTreeSet;

use super::check::Fault;
use super::holds::Hold;
use super::record::{Call, Record, Reply, process};

/// Returns the faults of one lock: 1: grants that do not fit together; 2: a grant before an older one; L: a lost grant.
pub(super) fn unlike(records: &[&Record], holds: &[Hold<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let longest = holds.iter().map(|hold| hold.until - hold.from).max().unwrap_or(0);
    for look in records.iter().filter(|record| record.call == Call::Info) {
        let (shown, received) = match (&look.reply, look.received) {
            (Reply::Held { grants, .. }, Some(received)) => (&grants[..], received),
            (Reply::Null, Some(received)) => (&[][..], received),
            _ => continue,
        };
        if shown.iter().any(|grant| grant.most < shown.len() as i64) {
            faults.push(format!("1: shown together: {look:?}"));
        }
        let slots: Vec<_> = shown.iter().map(|grant| grant.slot).filter(|slot| *slot > 0).collect();
        if slots.iter().collect::<BTreeSet<_>>().len() < slots.len() {
            faults.push(format!("1: one number twice: {look:?}"));
        }
        if !shown.is_sorted_by(|one, next| one.fence < next.fence) {
            faults.push(format!("2: not in the order of their fences: {look:?}"));
        }
        let near = holds.partition_point(|hold| hold.from < look.sent - longest)
            ..holds.partition_point(|hold| hold.from < look.sent);
        // An acknowledgement of another server may be lost with it, so only this server's count.
        let there = holds[near].iter().filter(|hold| process(hold.client) == process(look.client));
        let mut there = there.filter(|hold| received < hold.until);
        if let Some(hold) = there.find(|hold| shown.iter().all(|grant| grant.fence != hold.fence)) {
            faults.push(format!("L: {hold:?} is not shown: {look:?}"));
        }
    }
    faults
}
