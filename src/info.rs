//! `INFO lock`: what has happened since the server was started, and what there is now.

use crate::keyspace;
use crate::server::InfoWriter;
use crate::serving;
use crate::stats::{COUNTERS, WAITED, WAITS, WAITS_MS};

/// Writes the section.
pub(crate) fn write(info: &mut InfoWriter) {
    if !info.section(c"stats") {
        return;
    }
    for (field, counter) in COUNTERS {
        info.field(field, counter.get());
    }
    let (waiters, sessions) = serving::totals();
    info.field(c"keys", keyspace::locks());
    info.field(c"waiters", waiters);
    info.field(c"sessions", sessions);
    info.field(c"places", serving::places());
    info.field(c"syncing", serving::syncing());
    for ((_, field), counter) in WAITS.iter().zip(&WAITED) {
        info.field(field, counter.get());
    }
    info.field(c"most_work", serving::most_work());
    info.field(c"waits_ms", WAITS_MS.get());
    info.field(c"waits_ungranted", serving::ungranted());
    let now = serving::now();
    info.field(c"oldest_wait_ms", serving::oldest_wait(now).unsigned_abs());
    info.field(c"longest_held_ms", serving::longest_held(&info.ctx(), now).unsigned_abs());
    info.field(c"grace_ms", serving::grace(&info.ctx()).unsigned_abs());
}
