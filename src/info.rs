//! Writes `INFO lock`: counters since the server's start (`stats`), and the present state (`waiting::shown`), such as the numbers of locks,
//! waiters, sessions and places (positions in queues, taken with `NOTIFY`).

use crate::keyspace;
use crate::server::InfoWriter;
use crate::serving;
use crate::stats::{COUNTERS, WAITED, WAITS, WAITS_MS};

/// Writes the section `stats`, the module's only section of `INFO`.
pub(crate) fn write(info: &mut InfoWriter) {
    if !info.section(c"stats") {
        return;
    }
    for (field, counter) in COUNTERS {
        info.field(field, counter.get());
    }
    let gauges = serving::view(|table| table.counts());
    info.field(c"keys", keyspace::locks());
    for (field, gauge) in [c"waiters", c"sessions", c"places", c"syncing"].into_iter().zip(gauges) {
        info.field(field, gauge as u64);
    }
    for ((_, field), counter) in WAITS.iter().zip(&WAITED) {
        info.field(field, counter.get());
    }
    info.field(c"most_work", serving::most_work());
    info.field(c"waits_ms", WAITS_MS.get());
    info.field(c"waits_ungranted", serving::view(|table| table.ungranted()));
    let now = serving::now();
    let oldest_wait = serving::view(|table| table.oldest_wait(now));
    info.field(c"oldest_wait_ms", oldest_wait.unsigned_abs());
    info.field(c"longest_held_ms", serving::longest_held(&info.ctx(), now).unsigned_abs());
    info.field(c"grace_ms", serving::grace(&info.ctx()).unsigned_abs());
}
