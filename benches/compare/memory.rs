//! How much memory a held lock takes.

use crate::net::Net;
use crate::pictures::{self, Bar, Group};
use crate::plan::{Plan, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::owner;
use crate::rivals::{Rival, Scripts};
use crate::server::{Server, Setup};
use crate::stats::Spread;

const LOCKS: usize = 1_000_000;
/// In ms; longer than this takes.
const LEASE: &str = "3600000";
const CONNECTIONS: usize = 4;
/// How many requests go out before their replies are read.
const BATCH: usize = 500;

/// The bytes that each lock takes, with a UUID as its owner and a name of 13 bytes.
fn bytes_per_lock(rival: Rival) -> f64 {
    let setup = if rival.needs_module() { Setup::MODULE } else { Setup::PLAIN };
    let mut server = Server::start(setup);
    let scripts = Scripts::load(&mut server);
    let before = server.used_memory();
    // The connections go before the memory is read: their buffers are no part of a lock.
    acquire(&mut Net::with(CONNECTIONS, server.port), &scripts, rival);
    server.wait_for_departures();
    let bytes = (server.used_memory() - before) / LOCKS as f64;
    // To a tenth of a byte: the rest is the server's own housekeeping.
    (bytes * 10.0).round() / 10.0
}

fn acquire(net: &mut Net, scripts: &Scripts, rival: Rival) {
    let [success, _] = rival.success();
    let mut numbers = (0..LOCKS).peekable();
    while numbers.peek().is_some() {
        let mut due = 0;
        for number in numbers.by_ref().take(BATCH * CONNECTIONS) {
            let name = format!("lock:{number:08}");
            net.out.send(number % CONNECTIONS, &scripts.acquire(rival, &name, &owner(number), LEASE));
            due += 1;
        }
        net.replies(due, |_, reply| {
            assert!(reply.starts_with(success), "refused: {}", reply.escape_ascii());
        });
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let rivals = [Rival::Redislock, Rival::SetDel, Rival::HashLua];
    let bytes = rivals.map(|rival| {
        let bytes = bytes_per_lock(rival);
        progress(&format!("  memory, {}: {bytes:.1} bytes a lock", who(rival)));
        bytes
    });
    for (place, bound) in [(1, Some(Bound::AtMost(1.0))), (2, None)] {
        report.row(Row {
            work: "memory of a held lock, UUID owner".into(),
            beside: who(rivals[place]).into(),
            bound,
            unit: "x".into(),
            value: Spread::one(bytes[0] / bytes[place]),
            cpu: None,
        });
    }
    let mut bars = Vec::new();
    for (rival, bytes) in rivals.into_iter().zip(bytes) {
        bars.push(Bar { name: who(rival).into(), value: bytes });
        report.figure(Figure {
            work: "memory of a held lock, UUID owner".into(),
            who: who(rival).into(),
            unit: "bytes".into(),
            value: Spread::one(bytes),
            cpu_us: None,
            remark: "1,000,000 locks, 13-byte names".into(),
        });
    }
    let title = "Memory of a held lock with a UUID as owner, over 1,000,000 locks";
    pictures::bars(plan, "memory", title, &[Group { title: "bytes".into(), bars }]);
}

fn who(rival: Rival) -> &'static str {
    match rival {
        Rival::SetDel => "SET of the token with PX",
        Rival::HashLua => "re-entrant hash in Lua",
        rival => rival.name(),
    }
}
