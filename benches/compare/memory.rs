//! How much memory is taken by a held lock, compared with other locks; by a grant of a lock that is shared; and by a waiter.

use crate::net::Net;
use crate::notify;
use crate::report::{Figure, Report, Row};
use crate::resp::said;
use crate::rivals::{self, HASH_LUA, LONG_LEASE, REDISLOCK, SET_DEL};
use crate::rounds::{Plan, progress};
use crate::server::{Server, Setup};
use crate::stats::Spread;

const LOCKS: usize = 1_000_000;
const CONNECTIONS: usize = 4;
/// Each contestant, its name here, and how many times the contestant's memory Redislock may take.
const RIVALS: [(&str, &str, Option<f64>); 3] = [
    (REDISLOCK, REDISLOCK, None),
    (SET_DEL, "SET of the token with PX", Some(1.0)),
    (HASH_LUA, "re-entrant hash in Lua", None),
];

/// Returns the bytes of each lock, with a UUID as its owner and a name of 13 bytes.
fn bytes_per_lock(rival: &str) -> f64 {
    let server = Server::start(rivals::pair(rival).setup());
    let rival = rivals::pair(rival).on(&server);
    server.bytes_of_each(LOCKS, || {
        let requests =
            (0..LOCKS).map(|number| rival.acquire(&format!("lock:{number:08}"), number, LONG_LEASE));
        // The connections close before the memory is read, because their buffers are not part of a lock.
        Net::with(CONNECTIONS, server.port).send_all(CONNECTIONS, requests, rival.success()[0]);
        server.wait_for_departures();
    })
}

/// How many grants there are, and how many share a lock.
const GRANTS: usize = 200_000;
const SHARED: [usize; 4] = [1, 2, 100, 1_000];

/// Returns the bytes of each grant of a lock with this many holders.
fn bytes_per_grant(holders: usize) -> f64 {
    let server = Server::start(Setup::MODULE);
    let locks = GRANTS / holders;
    server.bytes_of_each(GRANTS, || {
        let requests = (0..GRANTS).map(|number| {
            let lock = number % locks;
            said(&format!("LOCK.ACQUIRE lock:{lock:08} OWNER {{owner}} PX {LONG_LEASE} SHARED"), number)
        });
        Net::with(CONNECTIONS, server.port).send_all(CONNECTIONS, requests, b"*4\r\n");
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
    for holders in SHARED {
        let bytes = bytes_per_grant(holders);
        let work = format!("memory of a grant with SHARED, holders of a lock: {holders}");
        progress(&format!("  {work}: {bytes:.1} bytes"));
        report
            .rows
            .push(Row::ratio(&work, "a lock that is not shared", Spread::one(bytes / ours)).at_most(2.0));
        report.figures.push(Figure::new(work, REDISLOCK, "bytes", Spread::one(bytes)));
    }
    notify::memory(report);
}
