//! Guarantee 4: first come, first served, whatever they ask for.

use std::collections::{HashMap, HashSet};

use super::check::{Fault, grants};
use super::record::{Call, Micros, Record, Reply};

/// One who waited, when the wait was over at the earliest, and whether by a new grant.
struct Wait<'a> {
    record: &'a Record,
    leaves: Micros,
    granted: bool,
}

/// Those who may have waited for one lock, by their connections; and how that ended where it is known: granted, or the time was up.
struct Waits<'a>(HashMap<i64, Vec<(&'a Record, Option<Wait<'a>>)>>);

impl<'a> Waits<'a> {
    fn of(records: &[&'a Record]) -> Self {
        let upgrades = upgrades(records);
        let mut waits = HashMap::<_, Vec<_>>::new();
        for record in records {
            let Call::Acquire { block: Some(block), .. } = &record.call else { continue };
            let wait = match record.reply {
                // They wait in front, whenever they come.
                _ if upgrades.contains(&record.question()) => None,
                // One that is older than the question is the owner's already, who asks again by `ONCE`.
                Reply::Granted { fence, holds: 1, .. } if fence >= record.sent => {
                    Some(Wait { record, leaves: fence, granted: true })
                }
                Reply::Null => Some(Wait { record, leaves: record.sent + block * 1000, granted: false }),
                // Killed, or gone with its server, by itself or by a grant of its owner's: that may be at any time.
                _ => None,
            };
            waits.entry(record.client).or_default().push((*record, wait));
        }
        Self(waits)
    }

    fn known(&self) -> impl Iterator<Item = &Wait<'a>> {
        self.0.values().flatten().filter_map(|(_, wait)| wait.as_ref())
    }

    /// The one that was seen in a queue at that time, between question and answer, where it can be no other.
    fn seen(&self, client: i64, sent: Micros, received: Micros) -> Option<&Wait<'a>> {
        let at_that_time = |(record, _): &&(&Record, _)| {
            record.sent < received && record.received.is_none_or(|answered| answered > sent)
        };
        let mut waits = self.0.get(&client)?.iter().filter(at_that_time);
        let (_, wait) = waits.next()?;
        wait.as_ref().filter(|_| waits.next().is_none())
    }
}

/// Those who held the lock already and asked for it with less room: they wait in front of the others. By who asked, and when.
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

/// Somebody got the lock before one who stood in the queue already when he came, or before one who stood in front of him. And how
/// many stood there.
pub(super) fn out_of_turn(records: &[&Record]) -> (Vec<Fault>, usize) {
    let waits = Waits::of(records);
    let (mut faults, queued) = passed_by_newcomers(records, &waits);
    faults.extend(overtaken(records, &waits));
    (faults, queued)
}

/// Each look at the lock, when it was answered, and the queue.
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
        // Those who look before it asks see an earlier wait of that connection.
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

/// Of two who were seen one behind the other, the first was granted the lock later, or not at all before its time was up.
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
