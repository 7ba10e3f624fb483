//! Guarantee 4: first come, first served, whatever clients ask for.

use std::collections::{HashMap, HashSet};

use super::check::{Fault, grants};
use super::record::{Call, Micros, Record, Reply};

/// A client that waited, the earliest end of its wait, and whether it got a new grant.
struct Wait<'a> {
    record: &'a Record,
    leaves: Micros,
    granted: bool,
}

/// For each connection, the requests that may have waited for a lock, and how the wait ended if known: by a grant or its timeout.
struct Waits<'a>(HashMap<i64, Vec<(&'a Record, Option<Wait<'a>>)>>);

impl<'a> Waits<'a> {
    fn of(records: &[&'a Record]) -> Self {
        let upgrades = upgrades(records);
        let mut waits = HashMap::<_, Vec<_>>::new();
        for record in records {
            let Call::Acquire { block: Some(block), .. } = &record.call else { continue };
            let wait = match record.reply {
                // Upgrades wait ahead of the queue, whenever they come.
                _ if upgrades.contains(&record.question()) => None,
                // An older grant was already the owner's, which asked again with `ONCE`.
                Reply::Granted { fence, holds: 1, .. } if fence >= record.sent => {
                    Some(Wait { record, leaves: fence, granted: true })
                }
                Reply::Null => Some(Wait { record, leaves: record.sent + block * 1000, granted: false }),
                // Killed, gone with its server, or granted by another hold of its owner: such a wait may have ended at any time.
                _ => None,
            };
            waits.entry(record.client).or_default().push((*record, wait));
        }
        Self(waits)
    }

    fn known(&self) -> impl Iterator<Item = &Wait<'a>> {
        self.0.values().flatten().filter_map(|(_, wait)| wait.as_ref())
    }

    /// Returns the wait that was seen in a queue between these times, if there is only one candidate.
    fn seen(&self, client: i64, sent: Micros, received: Micros) -> Option<&Wait<'a>> {
        let at_that_time = |(record, _): &&(&Record, _)| {
            record.sent < received && record.received.is_none_or(|answered| answered > sent)
        };
        let mut waits = self.0.get(&client)?.iter().filter(at_that_time);
        let (_, wait) = waits.next()?;
        wait.as_ref().filter(|_| waits.next().is_none())
    }
}

/// Returns the upgrades: requests of holders for less room, which wait ahead of the others. Each is named by its client and time.
pub(super) fn upgrades(records: &[&Record]) -> HashSet<(i64, Micros)> {
    let mut granted: HashMap<&str, i64> = HashMap::new();
    let mut found = HashSet::new();
    for record in records {
        let Call::Acquire { owner, room, .. } = &record.call else { continue };
        if granted.get(&owner[..]).is_some_and(|most| *most > room.most()) {
            found.insert(record.question());
        }
        if matches!(record.reply, Reply::Granted { .. }) {
            let most = granted.entry(owner).or_insert(0);
            *most = room.most().max(*most);
        }
    }
    found
}

/// Finds clients that got the lock before somebody who was in the queue when they came, or who was ahead of them in it. Also returns how
/// many waiters were seen.
pub(super) fn out_of_turn(records: &[&Record]) -> (Vec<Fault>, usize) {
    let waits = Waits::of(records);
    let (mut faults, queued) = passed_by_newcomers(records, &waits);
    faults.extend(overtaken(records, &waits));
    (faults, queued)
}

/// Returns each `LOCK.INFO`, the time of its reply, and the queue.
fn looks<'a>(records: &'a [&Record]) -> impl Iterator<Item = (&'a Record, Micros, &'a [i64])> {
    records.iter().filter_map(|record| match &record.reply {
        Reply::Held { queue, .. } => Some((*record, record.received?, &queue[..])),
        _ => None,
    })
}

fn passed_by_newcomers(records: &[&Record], waits: &Waits<'_>) -> (Vec<Fault>, usize) {
    let (mut faults, mut queued) = (Vec::new(), 0);
    let looks: Vec<_> = looks(records).collect();
    let upgrades = upgrades(records);
    let granted = records.iter().flat_map(|record| grants(std::slice::from_ref(*record)));
    let mut granted: Vec<_> = granted
        .filter(|(record, _)| !upgrades.contains(&record.question()))
        .map(|(r, fence)| (fence, r))
        .collect();
    granted.sort_by_key(|(fence, _)| *fence);
    for Wait { record: waiter, leaves, .. } in waits.known() {
        // A look before this request would show an earlier wait of the same connection.
        let after = looks.partition_point(|(_, at, _)| *at < waiter.sent);
        let seen = looks[after..].iter().take_while(|(_, at, _)| at < leaves);
        let mut seen = seen.filter(|(look, ..)| look.sent >= waiter.sent);
        let Some((_, seen, _)) = seen.find(|(.., queue)| queue.contains(&waiter.client)) else { continue };
        queued += 1;
        let from = granted.partition_point(|(fence, _)| fence <= seen);
        let to = granted.partition_point(|(fence, _)| fence < leaves);
        let late = granted.get(from..to).unwrap_or_default();
        let late = late.iter().find(|(_, other)| other.sent > *seen && other.owner() != waiter.owner());
        if let Some((_, other)) = late {
            faults.push(format!("4: {waiter:?} was in the queue at {seen}, but first came {other:?}"));
        }
    }
    (faults, queued)
}

/// Finds pairs in a queue of which the first got the lock later than the second, or not before its timeout.
fn overtaken(records: &[&Record], waits: &Waits<'_>) -> Vec<Fault> {
    let mut faults = HashMap::new();
    for (look, received, queue) in looks(records) {
        let mut front: Option<&Wait<'_>> = None;
        for wait in queue.iter().filter_map(|client| waits.seen(*client, look.sent, received)) {
            if let Some(front) = front.filter(|front| wait.granted && wait.leaves < front.leaves) {
                let by = wait.record;
                let fault = format!("4: {:?} stood before {by:?} in {look:?}", front.record);
                faults.entry((front.record.question(), by.question())).or_insert(fault);
            }
            front = front.filter(|front| front.leaves > wait.leaves).or(Some(wait));
        }
    }
    faults.into_values().collect()
}
