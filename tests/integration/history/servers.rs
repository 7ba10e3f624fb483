//! What a history tells of the servers in it: when each of them was at work, and which connections it closed.

use std::collections::HashMap;

use super::record::{Call, Micros, Record, Reply, process};

/// What is known of the servers, and of the connections to them.
pub(super) struct Servers {
    /// When what was asked, and answered, of each without waiting; in the order of the questions.
    turns: HashMap<i64, Vec<(Micros, Micros)>>,
    /// When a connection was closed for certain.
    closed: HashMap<i64, Micros>,
}

impl Servers {
    pub(super) fn of(history: &[Record]) -> Self {
        let (mut turns, mut closed) = (HashMap::<_, Vec<_>>::new(), HashMap::new());
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
        }
        turns.values_mut().for_each(|turns| turns.sort_unstable());
        Self { turns, closed }
    }

    /// Whether that server was at work for that long between those times: it answered one who asked after the first, and
    /// one who asked so much later, and that before the second.
    pub(super) fn at_work(&self, process: i64, from: Micros, to: Micros, long: Micros) -> bool {
        let Some(turns) = self.turns.get(&process) else { return false };
        let after = |time| turns.get(turns.partition_point(|(sent, _)| *sent <= time));
        let first = after(from).map(|(_, answered)| answered + long);
        first.and_then(after).is_some_and(|(_, answered)| *answered < to)
    }

    /// When that server was heard of first.
    pub(super) fn began(&self, process: i64) -> Micros {
        let turns = self.turns.get(&process).into_iter().flatten();
        turns.map(|(_, answered)| *answered).min().unwrap_or(Micros::MAX)
    }

    pub(super) fn closed(&self, client: i64) -> Micros {
        self.closed.get(&client).copied().unwrap_or(Micros::MAX)
    }
}
