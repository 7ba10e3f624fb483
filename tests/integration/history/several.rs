//! Several locks that were asked for by one command: all are granted or none, with one fence, and who waits for them has one
//! place in all their queues.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::check::Fault;
use super::max_hold::ROUNDED;
use super::order::in_line;
use super::record::{Call, Micros, Record, Reply, Shown};

/// By who asked, and when.
type Question = (i64, Micros);

/// All locks, those that were asked for together in one group, directly or by way of others.
pub(super) fn groups(history: &[Record]) -> Vec<BTreeSet<&str>> {
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

/// What was granted in part, or by several fences, or though the answer was no. How many commands were granted several locks, and
/// how often one of them was seen in more than one of its locks at a moment.
pub(super) fn all_or_nothing(history: &[Record]) -> (Vec<Fault>, usize, usize) {
    let asked = history.iter().filter(|record| matches!(record.call, Call::Acquire { .. }));
    let mut commands: HashMap<Question, Vec<&Record>> = HashMap::new();
    for record in asked.filter(|record| record.with.len() > 1) {
        commands.entry(record.question()).or_default().push(record);
    }
    let (mut faults, mut together) = (Vec::new(), 0);
    for command in commands.values() {
        let new = command.iter().filter_map(|record| new_fence(record)).collect::<Vec<_>>();
        together += usize::from(new.len() > 1);
        if new.iter().any(|fence| *fence != new[0]) {
            faults.push(format!("2: new grants of one command with several fences: {command:?}"));
        }
        let granted = |record: &&&Record| matches!(record.reply, Reply::Granted { .. });
        let count = command.iter().filter(granted).count();
        if count > 0 && count < command.len() {
            faults.push(format!("A: granted in part: {command:?}"));
        }
    }
    let owners = Owners::of(history);
    let mut moments: BTreeMap<Question, Vec<&Record>> = BTreeMap::new();
    for look in history.iter().filter(|record| record.call == Call::Info && record.received.is_some()) {
        moments.entry(look.question()).or_default().push(look);
    }
    let mut seen = 0;
    for looks in moments.values() {
        faults.extend(though_told_no(looks, &owners));
        let (found, judged) = in_part(looks, &owners);
        faults.extend(found);
        seen += judged;
        let (found, judged) = half_a_place(looks, &owners);
        faults.extend(found);
        seen += judged;
    }
    (faults, together, seen)
}

fn new_fence(record: &Record) -> Option<i64> {
    match (&record.call, &record.reply) {
        (Call::Acquire { once: false, .. }, Reply::Granted { fence, holds: 1, .. }) => Some(*fence),
        _ => None,
    }
}

/// What each owner and each connection asked for, and what may have ended that.
struct Owners<'a> {
    /// In the order of the questions.
    asked: HashMap<&'a str, Vec<&'a Record>>,
    /// The waits of a connection, of which there is one at a time.
    waits: HashMap<i64, Vec<&'a Record>>,
    /// By owner: all that is no acquire.
    by_owner: HashMap<&'a str, Vec<&'a Record>>,
    breaks: HashMap<&'a str, Vec<&'a Record>>,
    /// When a connection was closed, at the earliest.
    closed: HashMap<i64, Micros>,
}

impl<'a> Owners<'a> {
    fn of(history: &'a [Record]) -> Self {
        let (mut asked, mut waits) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        let (mut by_owner, mut breaks) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        let mut closed = HashMap::new();
        for record in history {
            let gone = match &record.call {
                Call::Acquire { owner, block, .. } => {
                    asked.entry(&owner[..]).or_default().push(record);
                    if block.is_some() {
                        waits.entry(record.client).or_default().push(record);
                    }
                    continue;
                }
                Call::Release { owner, .. } | Call::Extend { owner, .. } => {
                    by_owner.entry(&owner[..]).or_default().push(record);
                    continue;
                }
                Call::Break => {
                    breaks.entry(&record.key[..]).or_default().push(record);
                    continue;
                }
                Call::Info => continue,
                Call::Close => record.client,
                Call::Kill(client) => *client,
            };
            let first = closed.entry(gone).or_insert(record.sent);
            *first = record.sent.min(*first);
        }
        waits.values_mut().for_each(|waits| waits.sort_by_key(|wait: &&Record| wait.sent));
        Self { asked, waits, by_owner, breaks, closed }
    }

    /// The command for several locks that is all that this owner ever asked for.
    fn only_command(&self, owner: &str) -> Option<&'a Record> {
        let asked = self.asked.get(owner)?;
        let first = asked.first().filter(|first| first.with.len() > 1)?;
        asked.iter().all(|record| record.question() == first.question()).then_some(*first)
    }

    /// The command in which that connection waited at that time, between question and answer, where it can be no other.
    fn waited_in(&self, client: i64, look: &Record) -> Option<&'a Record> {
        let waits = self.waits.get(&client)?;
        let before = &waits[..waits.partition_point(|wait| Some(wait.sent) < look.received)];
        let last = before.last()?;
        let still = |wait: &&&Record| wait.received.is_none_or(|answered| answered > look.sent);
        let others = before.iter().rev().take_while(still).any(|wait| wait.question() != last.question());
        (!others && still(&last)).then_some(*last)
    }

    /// Whether the grant of one of its locks, which was made by that command, may be over by then.
    fn may_have_ended(&self, command: &Record, owner: &str, key: &str, by: Micros) -> bool {
        let own = self.by_owner.get(owner).into_iter().flatten().filter(|record| record.key == key);
        let mut ends = own.chain(self.breaks.get(key).into_iter().flatten());
        self.closed.get(&command.client).is_some_and(|closed| *closed <= by)
            || ends.any(|end| end.sent <= by && end.received.is_none_or(|done| done >= command.sent))
    }
}

/// What one look shows of a lock.
fn shown(look: &Record) -> (&[Shown], &[i64]) {
    match &look.reply {
        Reply::Held { grants, queue } => (grants, queue),
        _ => (&[], &[]),
    }
}

/// Somebody holds a lock, and was told before that he does not get it.
fn though_told_no(looks: &[&Record], owners: &Owners<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for look in looks {
        for grant in shown(look).0 {
            let asked = owners.asked.get(&grant.owner[..]).map_or(&[][..], Vec::as_slice);
            let told_no = |record: &&Record| {
                matches!(record.reply, Reply::Null | Reply::Refused(_))
                    && record.received.is_some_and(|received| received < look.sent)
            };
            if !asked.is_empty() && asked.iter().all(told_no) {
                faults.push(format!("A: held, after the answer was no: {look:?}, {:?}", asked[0]));
            }
        }
    }
    faults
}

/// Of the locks that one command was granted, some are held at that moment and others are not, or by another fence; and nothing can
/// have ended that. And how many were judged.
fn in_part(looks: &[&Record], owners: &Owners<'_>) -> (Vec<Fault>, usize) {
    let (mut faults, mut judged) = (Vec::new(), 0);
    let mut done = HashSet::new();
    for grant in looks.iter().flat_map(|look| shown(look).0) {
        let Some(command) = owners.only_command(&grant.owner).filter(|_| done.insert(&grant.owner)) else {
            continue;
        };
        let Call::Acquire { lease, max_hold, .. } = command.call else { continue };
        let lapses = grant.fence + max_hold.unwrap_or(lease).min(lease) * 1000 - ROUNDED;
        let of_command: Vec<_> = looks.iter().filter(|look| command.with.contains(&look.key)).collect();
        let lasting = of_command.iter().filter(|look| {
            let by = look.received.unwrap_or(Micros::MAX);
            by < lapses && !owners.may_have_ended(command, &grant.owner, &look.key, by)
        });
        let lasting: Vec<_> = lasting.collect();
        judged += usize::from(of_command.len() > 1 && !lasting.is_empty());
        let same = |look: &Record| {
            shown(look).0.iter().any(|other| (&other.owner, other.fence) == (&grant.owner, grant.fence))
        };
        if let Some(look) = lasting.iter().copied().find(|look| !same(look)) {
            faults.push(format!("A: {grant:?} at the same time as {look:?}, of {command:?}"));
        }
    }
    (faults, judged)
}

/// One who waits for several locks stands in some of their queues and not in others. And how many were judged.
fn half_a_place(looks: &[&Record], owners: &Owners<'_>) -> (Vec<Fault>, usize) {
    let (mut faults, mut judged) = (Vec::new(), 0);
    let clients: BTreeSet<i64> = looks.iter().flat_map(|look| shown(look).1).copied().collect();
    for client in clients {
        let Some(command) = owners.waited_in(client, looks[0]) else { continue };
        // A lock that is free for a moment shows no queue.
        let shown_queue = |look: &&&Record| matches!(look.reply, Reply::Held { .. });
        let of_command = looks.iter().filter(|look| command.with.contains(&look.key)).filter(shown_queue);
        let (stands, absent): (Vec<&Record>, Vec<&Record>) =
            of_command.partition(|look| shown(look).1.contains(&client));
        judged += usize::from(stands.len() > 1);
        if let (Some(_), Some(look)) = (stands.first(), absent.first()) {
            faults.push(format!("A: half a place: not in {look:?}, of {command:?}"));
        }
    }
    (faults, judged)
}

/// Of two who wait, one stands in front in one queue and behind in another, or at another time. And how many were seen in several.
pub(super) fn out_of_order(records: &[&Record]) -> (Vec<Fault>, usize) {
    let mut keys: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        keys.entry(&record.key).or_default().push(record);
    }
    let mut behind: HashMap<(Question, Question), BTreeSet<&str>> = HashMap::new();
    for (key, mut records) in keys {
        records.sort_by_key(|record| record.sent);
        for queue in in_line(&records) {
            for (place, front) in queue.iter().enumerate() {
                for back in &queue[place + 1..] {
                    behind.entry((*front, *back)).or_default().insert(key);
                }
            }
        }
    }
    let in_several = behind.values().filter(|keys| keys.len() > 1).count();
    let turned =
        behind.iter().filter(|((front, back), _)| front < back && behind.contains_key(&(*back, *front)));
    let faults = turned
        .map(|(both, keys)| format!("4: one before the other in {keys:?} and behind it elsewhere: {both:?}"));
    (faults.collect(), in_several)
}
