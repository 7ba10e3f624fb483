//! Guarantee 1: no more hold a lock at a time than each of them allows, and no two have the same number.

use std::collections::{BTreeMap, HashMap};

use super::check::Fault;
use super::holds::Hold;

/// The faults of one lock, and how many holds began beside another one.
pub(super) fn misfits(holds: &[Hold<'_>]) -> (Vec<Fault>, usize) {
    let (mut faults, mut beside) = (Vec::new(), 0);
    let mut open = Vec::<&Hold<'_>>::new();
    let mut slots = HashMap::new();
    for hold in holds {
        open.retain(|earlier| earlier.until > hold.from);
        open.push(hold);
        if let Some(slot) = hold.slot {
            let same = |other: &&&Hold<'_>| other.slot == Some(slot) && other.fence != hold.fence;
            if let Some(other) = open.iter().find(same) {
                faults.push(format!("1: one number, two holders: {other:?} and {hold:?}"));
            }
            if *slots.entry(hold.fence).or_insert(slot) != slot {
                faults.push(format!("1: another number than {} before: {hold:?}", slots[&hold.fence]));
            }
        }
        // One grant may be told several times: what was said of the least room counts.
        let mut most = BTreeMap::new();
        for hold in &open {
            most.entry(hold.fence)
                .and_modify(|most: &mut i64| *most = hold.most.min(*most))
                .or_insert(hold.most);
        }
        let count = most.len() as i64;
        beside += usize::from(count > 1);
        if most.values().any(|most| *most < count) {
            faults.push(format!("1: {count} at a time: {open:?}"));
        }
    }
    (faults, beside)
}
