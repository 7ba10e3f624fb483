//! Who certainly holds a lock, and when: from the moment at which the owner was told, until it sent something that may end the hold, or
//! until the lease ended, counted from before the server began it.

use std::collections::HashMap;

use super::record::{Call, Micros, Record, Reply};

/// A time in which an owner certainly holds a lock.
#[derive(Clone, Debug)]
pub(super) struct Hold<'a> {
    pub(super) owner: &'a str,
    /// The connection that was told of the grant.
    pub(super) client: i64,
    pub(super) fence: i64,
    /// The most holders that the grant allows, itself included.
    pub(super) most: i64,
    /// The grant's slot, as the client was told.
    pub(super) slot: Option<i64>,
    pub(super) from: Micros,
    pub(super) until: Micros,
}

/// Returns who certainly holds the lock, and when, in the order of the beginnings.
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
        // The lease of a waiter began with the grant. The reply to a re-entry has the remaining lease, at some time after the request.
        let began = match (block, holds) {
            (Some(_), 1) => fence.max(&record.sent).to_owned(),
            _ => record.sent,
        };
        // A re-entry may reduce the room of the grant, so the smaller one counts.
        let (client, fence, most, slot) = (record.client, *fence, room.most(), *slot);
        let mut hold = Hold { owner, client, fence, most, slot, from: received, until: began + lease * 1000 };
        let sessions = sessions.get(&owner[..]).map_or(&[][..], Vec::as_slice);
        // Records that ended before this grant was requested do not concern it.
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

/// Returns the earliest time at which this record may end a hold of the owner.
fn end(record: &Record, owner: &str, session: bool, sessions: &[i64]) -> Micros {
    let by_owner = record.owner() == Some(owner);
    let refused = matches!(record.reply, Reply::Refused(_));
    match &record.call {
        // A refused release means that the grant had already ended; a release may leave other holds.
        Call::Release { .. } if by_owner && !matches!(record.reply, Reply::Number(1..)) => record.sent,
        Call::Extend { .. } if by_owner && refused => record.sent,
        Call::Extend { lease, .. } if by_owner => record.sent + lease * 1000,
        Call::Break if record.reply != Reply::Number(0) => record.sent,
        Call::Close if session && sessions.contains(&record.client) => record.sent,
        Call::Kill(client) if session && sessions.contains(client) => record.sent,
        _ => Micros::MAX,
    }
}

/// Records that may end a hold, in the order in which they were sent.
struct Endings<'a> {
    answered: Vec<&'a Record>,
    /// The longest time between a request and its reply.
    longest: Micros,
    /// Requests without a reply, which may be executed at any time.
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

    /// Returns the records that were answered after `from` and sent before `until`. (So each hold looks only at its part of a long
    /// history.)
    fn between(&self, from: Micros, until: Micros) -> impl Iterator<Item = &'a Record> {
        let first = self.answered.partition_point(|record| record.sent < from - self.longest);
        let near = self.answered[first..].iter().take_while(move |record| record.sent < until);
        let near = near.filter(move |record| record.received.is_some_and(|received| received >= from));
        near.chain(&self.unanswered).copied()
    }
}

/// Returns what extensions add to a hold.
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
