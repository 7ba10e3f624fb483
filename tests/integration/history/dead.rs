//! Guarantee 6: a client that is gone never gets the lock. A grant that was made after the server had reported the connection as closed is
//! a fault. So is a grant made in the step that closed the connection, unless it is taken back: observers may see it for a moment, but not
//! after the server has worked for `BOUND`.

use std::collections::{BTreeSet, HashMap};

use super::check::Fault;
use super::record::{Call, Micros, Record, Reply, Shown, process};
use super::servers::Servers;

/// How long a working server may need to take a grant back.
const BOUND: Micros = 5_000;

/// Returns the faults of a history, and how many clients were killed in the step in which they got a lock.
pub(super) fn to_the_dead(history: &[Record], servers: &Servers) -> (Vec<Fault>, usize) {
    // The clients that were in a queue when a step began, by the client and the time of the step.
    let mut queued: HashMap<(i64, Micros), Vec<i64>> = HashMap::new();
    // The connections over which each owner asked for each lock: a grant is judged only if its owner used one connection.
    let mut asked: HashMap<(&str, &str), BTreeSet<i64>> = HashMap::new();
    for record in history {
        if let Reply::Held { queue, .. } = &record.reply {
            queued.entry(record.question()).or_default().extend(queue);
        }
        if let Call::Acquire { owner, .. } = &record.call {
            asked.entry((&record.key, owner)).or_default().insert(record.client);
        }
    }
    // For each connection: from when a grant to it is a fault, and when its end was known.
    let mut dead: HashMap<i64, (Micros, Micros)> = HashMap::new();
    let mut in_step = 0;
    for record in history {
        let (Call::Kill(client), Reply::Number(1), Some(received)) =
            (&record.call, &record.reply, record.received)
        else {
            continue;
        };
        let seen = queued.get(&record.question()).is_some_and(|queue| queue.contains(client));
        in_step += usize::from(seen);
        dead.insert(*client, (if seen { record.sent } else { received }, received));
    }
    let mut faults = Vec::new();
    for record in history {
        let Reply::Held { grants, .. } = &record.reply else { continue };
        for Shown { owner, fence, .. } in grants {
            let by = asked.get(&(&record.key[..], &owner[..])).filter(|by| by.len() == 1);
            let died = by.and_then(|by| dead.get(by.first()?));
            let Some((since, known)) = died.filter(|(since, _)| fence > since) else { continue };
            if since == known || servers.at_work(process(record.client), *known, record.sent, BOUND) {
                faults.push(format!(
                    "6: granted to one who went away at {since}, known at {known}: {record:?}"
                ));
            }
        }
    }
    (faults, in_step)
}
