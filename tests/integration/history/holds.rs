//! Who holds a lock for certain, and when: from the moment at which the owner heard of it until it sent something that may end
//! that, or the lease was over by a clock that started before the server's.

use std::collections::HashMap;

use super::record::{Call, Micros, Record, Reply};

/// A time in which an owner holds a lock for certain.
#[derive(Clone, Debug)]
pub(super) struct Hold<'a> {
    pub(super) owner: &'a str,
    /// The connection that was told.
    pub(super) client: i64,
    pub(super) fence: i64,
    /// How many may hold the lock at that time, itself included, or fewer.
    pub(super) most: i64,
    /// The number of its permit, as it was told.
    pub(super) slot: Option<i64>,
    pub(super) from: Micros,
    pub(super) until: Micros,
}

/// Who holds the lock for certain, and when; in the order in which they begin.
pub(super) fn holds<'a>(records: &[&'a Record]) -> Vec<Hold<'a>> {
    let mut all = Vec::new();
    let endings = Endings::of(records);
    let mut sessions: HashMap<&str, Vec<i64>> = HashMap::new();
    for record in records {
        if let Call::Acquire { owner, session: true, .. } = &record.call {
            sessions.entry(owner).or_default().push(record.client);
        }
    }
    for record in records {
        let (Reply::Granted { fence, holds, lease, slot }, Some(received)) = (&record.reply, record.received)
        else {
            continue;
        };
        let Call::Acquire { owner, block, session, room, .. } = &record.call else { continue };
        // The lease of one who waited began with the grant. A re-entry is told what is left, at some time after it was asked.
        let began = match (block, holds) {
            (Some(_), 1) => fence.max(&record.sent).to_owned(),
            _ => record.sent,
        };
        // A re-entry may have less room than the grant, which then has no more either.
        let (client, fence, most, slot) = (record.client, *fence, room.most(), *slot);
        let mut hold = Hold { owner, client, fence, most, slot, from: received, until: began + lease * 1000 };
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
