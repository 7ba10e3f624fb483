//! Reads a history and says what in it contradicts the guarantees of `docs/design.md`.
//!
//! Only what is certain counts. An owner holds a lock for certain from the moment at which it heard of it until it sent
//! something that may end that, or the lease was over by a clock that started before the server's. A grant was made at the
//! time that its fence names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::dead::to_the_dead;
use super::left::left_waiting;
use super::max_hold::too_old;
use super::record::{Call, Micros, Record, Reply};
use super::servers::Servers;

/// What contradicts which guarantee, for people.
pub(crate) type Fault = String;

/// A time in which an owner holds a lock for certain.
#[derive(Clone, Debug)]
struct Hold<'a> {
    owner: &'a str,
    fence: i64,
    from: Micros,
    until: Micros,
}

/// How much was there to be judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) records: usize,
    pub(crate) grants: usize,
    pub(crate) holds: usize,
    /// Waiters of whom it is known that they stood in a queue before others came.
    pub(crate) queued: usize,
    /// Waiters of whom it is known when they left the queue.
    pub(crate) waited: usize,
    /// Waiters who were killed in the step in which the lock was handed on.
    pub(crate) killed: usize,
    /// Replies that tell of a grant with a greatest age.
    pub(crate) limited: usize,
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
    let mut keys: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in history {
        keys.entry(&record.key).or_default().push(record);
    }
    // What concerns all locks has no key.
    let everywhere = keys.remove("").unwrap_or_default();
    for mut records in keys.into_values() {
        records.extend(&everywhere);
        records.sort_by_key(|record| record.sent);
        let holds = holds(&records);
        figures.holds += holds.len();
        faults.extend(two_owners(&holds));
        faults.extend(strangers(&records, &holds));
        let (found, queued) = out_of_turn(&records);
        faults.extend(found);
        figures.queued += queued;
        let (found, waited) = left_waiting(&records, &servers);
        faults.extend(found);
        figures.waited += waited;
    }
    (faults, figures)
}

/// The answers that tell of a new grant, with its fence.
pub(super) fn grants(history: &[Record]) -> impl Iterator<Item = (&Record, i64)> {
    history.iter().filter_map(|record| match (&record.call, &record.reply) {
        (Call::Acquire { once: false, .. }, Reply::Granted { fence, holds: 1, .. }) => Some((record, *fence)),
        _ => None,
    })
}

/// 2: a grant that was known before another was asked for has the lower fence; each fence is one grant's.
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
    let mut told = BTreeSet::new();
    for (record, fence) in grants(history) {
        if !told.insert(fence) {
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

/// Who holds the lock for certain, and when; in the order in which they begin.
fn holds<'a>(records: &[&'a Record]) -> Vec<Hold<'a>> {
    let mut all = Vec::new();
    let endings = Endings::of(records);
    let mut sessions: HashMap<&str, Vec<i64>> = HashMap::new();
    for record in records {
        if let Call::Acquire { owner, session: true, .. } = &record.call {
            sessions.entry(owner).or_default().push(record.client);
        }
    }
    for record in records {
        let (Reply::Granted { fence, holds, lease }, Some(received)) = (&record.reply, record.received)
        else {
            continue;
        };
        let Call::Acquire { owner, block, session, .. } = &record.call else { continue };
        // The lease of one who waited began with the grant: a re-entry's, nobody knows when.
        let began = match (block, holds) {
            (None, _) => record.sent,
            (Some(_), 1) => fence.max(&record.sent).to_owned(),
            _ => continue,
        };
        let mut hold = Hold { owner, fence: *fence, from: received, until: began + lease * 1000 };
        let sessions = sessions.get(&owner[..]).map_or(&[][..], Vec::as_slice);
        // What was over before this grant was asked for does not concern it.
        for other in endings.between(record.sent, hold.until) {
            hold.until = hold.until.min(end(other, owner, *session || !sessions.is_empty(), sessions));
        }
        all.push(hold.clone());
        all.extend(extensions(records, &endings, record, &hold));
    }
    all.retain(|hold| hold.from < hold.until);
    all.sort_by_key(|hold| hold.from);
    all
}

/// When at the earliest a hold of that owner ends by this.
fn end(record: &Record, owner: &str, session: bool, sessions: &[i64]) -> Micros {
    let by_owner = record.owner() == Some(owner);
    let refused = matches!(record.reply, Reply::Refused(_));
    match &record.call {
        // Refused, it had ended before; and one of several holds may be left.
        Call::Release { .. } if by_owner && !matches!(record.reply, Reply::Number(1..)) => record.sent,
        Call::Extend { .. } if by_owner && refused => record.sent,
        Call::Extend { lease, .. } if by_owner => record.sent + lease * 1000,
        Call::Break if record.reply != Reply::Number(0) => record.sent,
        Call::Close if session && sessions.contains(&record.client) => record.sent,
        Call::Kill(client) if session && sessions.contains(client) => record.sent,
        _ => Micros::MAX,
    }
}

/// What may end a hold, in the order in which it was sent.
struct Endings<'a> {
    answered: Vec<&'a Record>,
    /// How long the answer took at most.
    longest: Micros,
    /// What has no answer may come at any time.
    unanswered: Vec<&'a Record>,
}

impl<'a> Endings<'a> {
    fn of(records: &[&'a Record]) -> Self {
        let ending = |record: &&&Record| !matches!(record.call, Call::Acquire { .. } | Call::Info);
        let (answered, unanswered): (Vec<_>, Vec<_>) =
            records.iter().filter(ending).partition(|record| record.received.is_some());
        let took = answered.iter().filter_map(|record: &&Record| Some(record.received? - record.sent));
        Self { longest: took.max().unwrap_or(0), answered, unanswered }
    }

    /// Those that were not answered before the one time, and were sent before the other. (So a long history is read in time:
    /// each hold looks at its own part.)
    fn between(&self, from: Micros, until: Micros) -> impl Iterator<Item = &'a Record> {
        let first = self.answered.partition_point(|record| record.sent < from - self.longest);
        let near = self.answered[first..].iter().take_while(move |record| record.sent < until);
        let near = near.filter(move |record| record.received.is_some_and(|received| received >= from));
        near.chain(&self.unanswered).copied()
    }
}

/// What extensions add to a hold.
fn extensions<'a>(
    records: &[&'a Record],
    endings: &Endings<'a>,
    grant: &Record,
    hold: &Hold<'a>,
) -> Vec<Hold<'a>> {
    let mut all = Vec::new();
    let first = records.partition_point(|record| record.sent <= hold.from);
    for record in records[first..].iter().take_while(|record| record.sent < hold.until) {
        let (Call::Extend { owner, .. }, Reply::Number(lease), Some(received)) =
            (&record.call, &record.reply, record.received)
        else {
            continue;
        };
        if owner != hold.owner {
            continue;
        }
        let mut longer = Hold { from: received, until: record.sent + lease * 1000, ..hold.clone() };
        let others = endings.between(record.sent + 1, longer.until);
        for other in others.filter(|other| other.sent != record.sent || other.client != record.client) {
            longer.until = longer.until.min(end(other, owner, true, &[grant.client]));
        }
        all.push(longer);
    }
    all
}

/// 1: two owners at a time.
fn two_owners(holds: &[Hold<'_>]) -> Vec<Fault> {
    let (mut faults, mut open) = (Vec::new(), Vec::<&Hold<'_>>::new());
    for hold in holds {
        open.retain(|earlier| earlier.until > hold.from);
        let others = open.iter().filter(|earlier| earlier.fence != hold.fence);
        faults.extend(others.map(|earlier| format!("1: two at a time: {earlier:?} and {hold:?}")));
        open.push(hold);
    }
    faults
}

/// 3: somebody released or extended what was another's all the time.
fn strangers(records: &[&Record], holds: &[Hold<'_>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let longest = holds.iter().map(|hold| hold.until - hold.from).max().unwrap_or(0);
    for record in records {
        let (Call::Release { owner, .. } | Call::Extend { owner, .. }) = &record.call else { continue };
        let (Reply::Number(_), Some(received)) = (&record.reply, record.received) else { continue };
        let near = holds.partition_point(|hold| hold.from < record.sent - longest)
            ..holds.partition_point(|hold| hold.from < record.sent);
        let owned = holds[near].iter().find(|hold| hold.owner != owner && received < hold.until);
        if let Some(hold) = owned {
            faults.push(format!("3: {record:?} while {hold:?}"));
        }
    }
    faults
}

/// 4: somebody got the lock before one who stood in the queue already when he came. And how many stood there.
fn out_of_turn(records: &[&Record]) -> (Vec<Fault>, usize) {
    let (mut faults, mut queued) = (Vec::new(), 0);
    let looks: Vec<(Micros, &[i64])> = records
        .iter()
        .filter_map(|record| match &record.reply {
            Reply::Held { queue, .. } => Some((record.received?, &queue[..])),
            _ => None,
        })
        .collect();
    let mut granted: Vec<(i64, &Record)> = grants_of(records).collect();
    granted.sort_by_key(|(fence, _)| *fence);
    for waiter in records {
        let Call::Acquire { owner, block: Some(block), .. } = &waiter.call else { continue };
        let leaves = match (&waiter.reply, waiter.received) {
            (Reply::Granted { fence, holds: 1, .. }, _) => *fence,
            (Reply::Null, _) => waiter.sent + block * 1000,
            // Killed, or gone with its server, by itself or by a grant of its owner's: that may be at any time.
            _ => continue,
        };
        let after = looks.partition_point(|(at, _)| *at < waiter.sent);
        let seen = looks[after..].iter().take_while(|(at, _)| *at < leaves);
        let Some((seen, _)) = seen.into_iter().find(|(_, queue)| queue.contains(&waiter.client)) else {
            continue;
        };
        queued += 1;
        let from = granted.partition_point(|(fence, _)| fence <= seen);
        let to = granted.partition_point(|(fence, _)| *fence < leaves);
        let late = granted.get(from..to).unwrap_or_default();
        let late = late.iter().find(|(_, other)| other.sent > *seen && other.owner() != Some(owner));
        if let Some((_, other)) = late {
            faults.push(format!("4: {waiter:?} was in the queue at {seen}, but first came {other:?}"));
        }
    }
    (faults, queued)
}

fn grants_of<'a>(records: &[&'a Record]) -> impl Iterator<Item = (i64, &'a Record)> {
    records
        .iter()
        .flat_map(|record| grants(std::slice::from_ref(*record)).map(|(record, fence)| (fence, record)))
}
