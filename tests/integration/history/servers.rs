//! What a history tells of its servers: when each of them was at work, and which connections it closed.

use std::collections::HashMap;

use super::record::{Call, Micros, Record, Reply, process};

/// What is known of the servers, and of the connections to them.
pub(super) struct Servers {
    /// For each server, the times of requests and replies of commands that do not wait, in the order of the requests.
    turns: HashMap<i64, Vec<(Micros, Micros)>>,
    /// Those of commands that were refused because the server could not write to its disk, in the same order.
    refused: HashMap<i64, Vec<(Micros, Micros)>>,
    /// The times by which connections were certainly closed.
    closed: HashMap<i64, Micros>,
}

impl Servers {
    pub(super) fn of(history: &[Record]) -> Self {
        let (mut turns, mut refused) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        let mut closed = HashMap::new();
        for record in history {
            let Some(received) = record.received else { continue };
            let gone = match (&record.call, &record.reply) {
                (Call::Close, _) => Some(record.client),
                (Call::Kill(client), Reply::Number(1)) => Some(*client),
                _ => None,
            };
            if let Some(client) = gone {
                closed
                    .entry(client)
                    .and_modify(|at: &mut Micros| *at = received.min(*at))
                    .or_insert(received);
            }
            if !matches!(record.call, Call::Acquire { block: Some(_), .. } | Call::Close) {
                turns.entry(process(record.client)).or_default().push((record.sent, received));
            }
            if matches!(&record.reply, Reply::Refused(error) if error == "MISCONF") {
                refused.entry(process(record.client)).or_default().push((record.sent, received));
            }
        }
        turns.values_mut().chain(refused.values_mut()).for_each(|turns| turns.sort_unstable());
        Self { turns, refused, closed }
    }

    /// Whether a server was at work for `long` between two times: it answered a request sent after `from`, and one sent at least `long`
    /// later, before `to`, and refused none in between because it could not write, as it then hands nothing over.
    pub(super) fn at_work(&self, process: i64, from: Micros, to: Micros, long: Micros) -> bool {
        let Some(turns) = self.turns.get(&process) else { return false };
        let after = |time| turns.get(turns.partition_point(|(sent, _)| *sent <= time));
        let worked = |from, to| {
            let first = after(from).map(|(_, answered)| answered + long);
            first.and_then(after).is_some_and(|(_, answered)| *answered < to)
        };
        let mut start = from;
        let refused = self.refused.get(&process).into_iter().flatten();
        for (sent, received) in refused.filter(|(sent, received)| from < *received && *sent < to) {
            if worked(start, *sent) {
                return true;
            }
            start = start.max(*received);
        }
        worked(start, to)
    }

    /// Returns the first time at which the server was heard of.
    pub(super) fn began(&self, process: i64) -> Micros {
        let turns = self.turns.get(&process).into_iter().flatten();
        turns.map(|(_, answered)| *answered).min().unwrap_or(Micros::MAX)
    }

    pub(super) fn closed(&self, client: i64) -> Micros {
        self.closed.get(&client).copied().unwrap_or(Micros::MAX)
    }
}
