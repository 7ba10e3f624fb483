//! Checks grants with `MAXHOLD`: none is seen, or said to last, beyond its maximum age.

use std::collections::{HashMap, HashSet};

use super::check::{Fault, grants};
use super::record::{Call, Micros, Record, Reply};

/// The server counts in ms, and Redis 8 begins a lease with the next ms.
pub(super) const ROUNDED: Micros = 2000;

/// Returns the faults, and how many replies were judged. A reply counts as given at its request, because its real time is not known.
pub(super) fn too_old(history: &[Record]) -> (Vec<Fault>, usize) {
    let ends: HashMap<i64, Micros> = grants(history)
        .filter_map(|(record, fence)| match record.call {
            Call::Acquire { max_hold: Some(age), .. } => Some((fence, fence + age * 1000)),
            _ => None,
        })
        .collect();
    let only = only_grants(history);
    let (mut faults, mut judged) = (Vec::new(), 0);
    for record in history {
        let (fences, left) = match (&record.call, &record.reply) {
            (_, Reply::Granted { fence, lease, .. }) => (vec![fence], *lease),
            (_, Reply::Held { grants, .. }) => (grants.iter().map(|grant| &grant.fence).collect(), 0),
            (Call::Extend { owner, .. }, Reply::Number(lease)) => {
                (only.get(&(&record.key[..], &owner[..])).into_iter().collect(), *lease)
            }
            _ => continue,
        };
        for end in fences.into_iter().filter_map(|fence| ends.get(fence)) {
            judged += 1;
            if record.sent + left * 1000 > end + ROUNDED {
                faults.push(format!("MAXHOLD: it had to end at {end}: {record:?}"));
            }
        }
    }
    (faults, judged)
}

/// Returns the fences of owners that certainly had only one grant of a lock.
fn only_grants(history: &[Record]) -> HashMap<(&str, &str), i64> {
    let (mut only, mut others) = (HashMap::new(), HashSet::new());
    for record in history {
        let Call::Acquire { owner, .. } = &record.call else { continue };
        let of = (&record.key[..], &owner[..]);
        match record.reply {
            Reply::Granted { fence, .. } if *only.entry(of).or_insert(fence) == fence => {}
            Reply::Granted { .. } | Reply::Gone => _ = others.insert(of),
            _ => {}
        }
    }
    only.retain(|of, _| !others.contains(of));
    only
}
