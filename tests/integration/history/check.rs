//! Reads a history and finds contradictions to the guarantees of `docs/design.md`.
//!
//! Only what is certain counts: `holds` knows who certainly holds a lock. The time of a grant is that of its fence.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::AddAssign;
use std::slice::from_ref;

use super::dead::to_the_dead;
use super::holds::{Hold, holds};
use super::left::left_waiting;
use super::looks::unlike;
use super::max_hold::too_old;
use super::order::{out_of_turn, upgrades};
use super::record::{Call, Record, Reply};
use super::rooms::misfits;
use super::servers::Servers;

/// A violation of a guarantee, as text.
pub(crate) type Fault = String;

/// Counts of what the history contained.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) records: usize,
    pub(crate) grants: usize,
    pub(crate) holds: usize,
    /// Waiters that were certainly in a queue before others came.
    pub(crate) queued: usize,
    /// Waiters of which it is known when they left the queue.
    pub(crate) waited: usize,
    /// Waiters that were killed in the step that handed the lock on.
    pub(crate) killed: usize,
    /// Replies about grants with a maximum age.
    pub(crate) limited: usize,
    /// Holds that began while another owner held the lock.
    pub(crate) beside: usize,
    /// Upgrades: requests by a holder for less room that were granted.
    pub(crate) upgraded: usize,
    /// Commands that got several locks.
    pub(crate) together: usize,
}

impl Figures {
    /// Whether the history contained enough that a fault would have shown.
    pub(crate) fn are_enough(&self) -> bool {
        self.grants > 20
            && self.holds > 20
            && self.queued > 5
            && self.waited > 20
            && self.limited > 10
            && self.beside > 10
            && self.upgraded > 2
            && self.together > 5
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.grants += other.grants;
        self.holds += other.holds;
        self.queued += other.queued;
        self.waited += other.waited;
        self.killed += other.killed;
        self.limited += other.limited;
        self.beside += other.beside;
        self.upgraded += other.upgraded;
        self.together += other.together;
    }
}

/// All faults of a history.
pub(crate) fn check(history: &[Record]) -> (Vec<Fault>, Figures) {
    let mut faults = fences(history);
    let mut figures = Figures { records: history.len(), ..Figures::default() };
    figures.grants = grants(history).count();
    let servers = Servers::of(history);
    let (found, killed) = to_the_dead(history, &servers);
    faults.extend(found);
    figures.killed = killed;
    let (late, limited) = too_old(history);
    faults.extend(late);
    figures.limited = limited;
    let (found, together) = in_part(history);
    faults.extend(found);
    figures.together = together;
    let mut keys: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in history {
        keys.entry(&record.key).or_default().push(record);
    }
    // Records that concern all locks have no key.
    let everywhere = keys.remove("").unwrap_or_default();
    for group in groups(history) {
        let mut of_group = Vec::new();
        for key in group {
            let mut records = keys.remove(key).unwrap_or_default();
            of_group.extend(records.iter().copied());
            records.extend(&everywhere);
            records.sort_by_key(|record| record.sent);
            faults.extend(faults_of_one(&records, &mut figures));
        }
        of_group.extend(&everywhere);
        of_group.sort_by_key(|record| record.sent);
        let (found, waited) = left_waiting(&of_group, &servers);
        faults.extend(found);
        figures.waited += waited;
    }
    (faults, figures)
}

/// Returns the locks in groups: locks that one command named are in one group, also indirectly.
fn groups(history: &[Record]) -> Vec<BTreeSet<&str>> {
    let of_locks = history.iter().filter(|record| !record.key.is_empty());
    let named: BTreeSet<BTreeSet<&str>> = of_locks
        .map(|record| record.with.iter().chain([&record.key]).map(String::as_str).collect())
        .collect();
    let mut groups = Vec::<BTreeSet<&str>>::new();
    for keys in named {
        let (near, mut others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| !group.is_disjoint(&keys));
        others.push(near.into_iter().flatten().chain(keys).collect());
        groups = others;
    }
    groups
}

/// Finds commands for several locks that got only some of them, or several fences. Also returns how many commands got several locks.
fn in_part(history: &[Record]) -> (Vec<Fault>, usize) {
    let mut commands: HashMap<_, Vec<&Record>> = HashMap::new();
    let asked = history.iter().filter(|record| matches!(record.call, Call::Acquire { .. }));
    for record in asked.filter(|record| record.with.len() > 1) {
        commands.entry(record.question()).or_default().push(record);
    }
    let (mut faults, mut together) = (Vec::new(), 0);
    for command in commands.values() {
        let new: Vec<_> = command.iter().flat_map(|record| grants(from_ref(*record))).collect();
        together += usize::from(new.len() > 1);
        if new.iter().any(|(_, fence)| *fence != new[0].1) {
            faults.push(format!("2: new grants of one command with several fences: {command:?}"));
        }
        let granted = command.iter().filter(|record| matches!(record.reply, Reply::Granted { .. })).count();
        if granted > 0 && granted < command.len() {
            faults.push(format!("A: granted in part: {command:?}"));
        }
    }
    (faults, together)
}

/// Finds the faults of one lock that show without other locks.
fn faults_of_one(records: &[&Record], figures: &mut Figures) -> Vec<Fault> {
    let holds = holds(records);
    figures.holds += holds.len();
    let (mut faults, beside) = misfits(&holds);
    figures.beside += beside;
    faults.extend(unlike(records, &holds));
    faults.extend(strangers(records, &holds));
    figures.upgraded += upgraded(records);
    let (found, queued) = out_of_turn(records);
    faults.extend(found);
    figures.queued += queued;
    faults
}

/// Returns the replies that report a new grant, with its fence.
pub(super) fn grants(history: &[Record]) -> impl Iterator<Item = (&Record, i64)> {
    history.iter().filter_map(|record| match (&record.call, &record.reply) {
        (Call::Acquire { once: false, .. }, Reply::Granted { fence, holds: 1, .. }) => Some((record, *fence)),
        _ => None,
    })
}

/// Guarantee 2: a grant that was known before another was requested has the lower fence, and each fence belongs to one grant.
fn fences(history: &[Record]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut owners: HashMap<i64, &str> = HashMap::new();
    for record in history {
        if let (Reply::Granted { fence, .. }, Some(owner)) = (&record.reply, record.owner())
            && *owners.entry(*fence).or_insert(owner) != owner
        {
            faults.push(format!("2: one fence, two owners: {record:?}"));
        }
    }
    // The new grants of one command share a fence.
    let mut told = HashMap::new();
    for (record, fence) in grants(history) {
        if *told.entry(fence).or_insert(record.question()) != record.question() {
            faults.push(format!("2: one grant told twice: {record:?}"));
        }
    }
    let mut asked: Vec<_> = grants(history).collect();
    let mut known: Vec<_> =
        asked.iter().filter_map(|(record, fence)| Some((record.received?, *fence))).collect();
    asked.sort_by_key(|(record, _)| record.sent);
    known.sort_unstable();
    let (mut known, mut highest) = (known.into_iter().peekable(), 0);
    for (record, fence) in asked {
        while let Some((_, fence)) = known.next_if(|(received, _)| *received < record.sent) {
            highest = highest.max(fence);
        }
        if fence <= highest {
            faults.push(format!("2: after {highest} came {record:?}"));
        }
    }
    faults
}

/// Returns how many upgrades were granted: requests for less room than the grant had.
fn upgraded(records: &[&Record]) -> usize {
    let upgrades = upgrades(records);
    let granted = |record: &&&Record| matches!(record.reply, Reply::Granted { holds: 2.., .. });
    records.iter().filter(granted).filter(|record| upgrades.contains(&record.question())).count()
}

/// Guarantee 3: finds owners that released or extended a lock that another one held alone, or for which they never asked.
fn strangers(records: &[&Record], holds: &[Hold<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let asks = records.iter().filter(|record| matches!(record.call, Call::Acquire { .. }));
    let asked: HashSet<_> = asks.filter_map(|record| record.owner()).collect();
    let longest = holds.iter().map(|hold| hold.until - hold.from).max().unwrap_or(0);
    for record in records {
        let (Call::Release { owner, .. } | Call::Extend { owner, .. }) = &record.call else { continue };
        let (Reply::Number(_), Some(received)) = (&record.reply, record.received) else { continue };
        if !asked.contains(&owner[..]) {
            faults.push(format!("3: {record:?}, who never asked for it"));
            continue;
        }
        let near = holds.partition_point(|hold| hold.from < record.sent - longest)
            ..holds.partition_point(|hold| hold.from < record.sent);
        let alone = holds[near].iter().filter(|hold| hold.most == 1);
        let owned = alone.into_iter().find(|hold| hold.owner != owner && received < hold.until);
        if let Some(hold) = owned {
            faults.push(format!("3: {record:?} while {hold:?}"));
        }
    }
    faults
}
