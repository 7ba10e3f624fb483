//! How much memory a held lock takes.

use crate::net::Net;
use crate::report::{Figure, Report, Row};
use crate::rivals::{self, HASH_LUA, LONG_LEASE, REDISLOCK, SET_DEL};
use crate::rounds::{Plan, progress};
use crate::server::Server;
use crate::stats::Spread;

const LOCKS: usize = 1_000_000;
const CONNECTIONS: usize = 4;
/// Who, under which name here, and how many times as much Redislock may take.
const RIVALS: [(&str, &str, Option<f64>); 3] = [
    (REDISLOCK, REDISLOCK, None),
    (SET_DEL, "SET of the token with PX", Some(1.0)),
    (HASH_LUA, "re-entrant hash in Lua", None),
];

/// The bytes that each lock takes, with a UUID as its owner and a name of 13 bytes.
fn bytes_per_lock(rival: &str) -> f64 {
    let server = Server::start(rivals::pair(rival).setup());
    let rival = rivals::pair(rival).on(&server);
    server.bytes_of_each(LOCKS, || {
        let requests =
            (0..LOCKS).map(|number| rival.acquire(&format!("lock:{number:08}"), number, LONG_LEASE));
        // The connections go before the memory is read: their buffers are no part of a lock.
        Net::with(CONNECTIONS, server.port).send_all(CONNECTIONS, requests, rival.success()[0]);
        server.wait_for_departures();
    })
}

pub(crate) fn run(_: &Plan, report: &mut Report) {
    let work = "memory of a held lock, UUID owner";
    let mut ours = 0.0;
    for (rival, who, bound) in RIVALS {
        let bytes = bytes_per_lock(rival);
        progress(&format!("  memory, {who}: {bytes:.1} bytes a lock"));
        if rival == REDISLOCK {
            ours = bytes;
        } else {
            report.rows.push(Row::ratio(work, who, Spread::one(ours / bytes)).at_most(bound));
        }
        let figure = Figure::new(work, who, "bytes", Spread::one(bytes));
        report.figures.push(figure.remark("1,000,000 locks, 13-byte names"));
    }
}
