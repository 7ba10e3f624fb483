//! Guarantee 1: a lock has no more holders at a time than each of its grants allows, and no two holders have the same slot.

use std::collections::{BTreeMap, HashMap};

use super::check::Fault;
use super::holds::Hold;

/// Returns the faults of one lock, and how many holds began while another owner held it.
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
        // A client may be told of one grant several times: the least room counts.
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
