//! `INFO lock`: what has happened since the server was started, and what there is now.

use crate::keyspace;
use crate::server::InfoWriter;
use crate::serving;
use crate::stats::{COUNTERS, WAITED, WAITS};

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
    for ((_, field), counter) in WAITS.iter().zip(&WAITED) {
        info.field(field, counter.get());
    }
}
