//! Judges what a history tells of grants with a `MAXHOLD`: none is seen, or said to last, beyond its greatest age.

use std::collections::{HashMap, HashSet};

use super::check::{Fault, grants};
use super::record::{Call, Micros, Record, Reply};

/// The server counts in ms, and Redis 8 starts a lease with the next one.
pub(super) const ROUNDED: Micros = 2000;

/// The faults, and how many replies were judged. A reply was given after it was asked for, which is all that is known of when.
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

/// The fences of owners of whom it is certain that they had one grant of that lock and no more.
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
