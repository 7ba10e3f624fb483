//! What falls due at once: the longest `PING` of another client meanwhile.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::net::Net;
use crate::ping::Ping;
use crate::report::{Figure, Report, Row};
use crate::resp::{owner, words};
use crate::rounds::{Plan, progress, spread};
use crate::server::{Server, Setup};

/// Clients that wait, each on a connection of its own.
const WAITERS: usize = 18_000;
/// Sessions, or places, of one connection.
const MANY: usize = 100_000;
/// After how many requests they go out.
const BATCH: usize = 500;
/// In ms; longer than this takes.
const LEASE: &str = "600000";

/// What falls due, how many at once, and how many wait for it on connections beside the first. The first and the third are the
/// server's own part, without the module.
const EVENTS: [(Event, usize, usize, &str); 9] = [
    (Event::FlushPlain, WAITERS, 0, "FLUSHALL of 18000 plain keys with a TTL"),
    (Event::Flush, WAITERS, WAITERS, "FLUSHALL of 18000 locks that are waited for"),
    (Event::ExpiryPlain, WAITERS, 0, "18000 plain keys expire in one ms"),
    (Event::Lapses, WAITERS, WAITERS, "18000 leases end in one ms, each waited for"),
    (Event::Timeouts, WAITERS, WAITERS, "18000 clients wait no longer"),
    (Event::SessionsEnd, MANY, 0, "a connection with 100000 sessions closes"),
    (Event::Renewals, MANY, 0, "100000 sessions are renewed"),
    (Event::PlacesEnd, MANY, 0, "a connection with 100000 places of NOTIFY closes"),
    (Event::Reentries, WAITERS, WAITERS, "a lock goes to an owner that waits 18000 times"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    FlushPlain,
    Flush,
    ExpiryPlain,
    Lapses,
    Timeouts,
    SessionsEnd,
    Renewals,
    PlacesEnd,
    Reentries,
}

/// What was seen of an event.
struct Seen {
    /// The longest `PING` before it, in ms.
    quiet: f64,
    longest: f64,
    /// The server's processor time for it, in µs for each of the many; without that for `PING`.
    cpu_us: f64,
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let work = "longest PING of another client";
    for (event, many, waiters, name) in EVENTS {
        let is_plain = matches!(event, Event::FlushPlain | Event::ExpiryPlain);
        let setup = if is_plain { Setup::PLAIN } else { Setup::MODULE };
        let seen: Vec<Seen> =
            (0..plan.pick(3, 1)).map(|_| stall(event, many, waiters, Server::start(setup))).collect();
        let (longest, quiet) = (spread(&seen, |seen| seen.longest), spread(&seen, |seen| seen.quiet).max);
        progress(&format!("  stall, {name}: {:.1} ms", longest.median));
        if !is_plain {
            report.rows.push(Row::new(work, name, " ms", longest).at_most(10.0));
        }
        let figure = Figure::new(work, name, "ms", longest).cpu(spread(&seen, |seen| seen.cpu_us));
        report.figures.push(figure.remark(format!("before it at most {quiet:.1} ms")));
    }
}

fn stall(event: Event, many: usize, waiters: usize, server: Server) -> Seen {
    let mut net = Net::with(1 + waiters, server.port);
    if !matches!(event, Event::FlushPlain | Event::ExpiryPlain) {
        // One connection has more places and sessions here than it may by default.
        server.ask("CONFIG SET lock.max-places 0");
    }
    prepare(event, waiters, &mut net, &server);
    let mut ping = Ping::new(server.port);
    let idle = server.cpu_ns();
    let (quiet, before) = (ping.longest_for(Duration::from_millis(500)), server.cpu_ns());
    let (quiet, cpu_quiet) = (quiet.longest, (before - idle) / f64::from(quiet.count));
    let begin = Instant::now();
    let request = match event {
        Event::FlushPlain | Event::Flush => Some("FLUSHALL SYNC"),
        Event::Reentries => Some("LOCK.BREAK lock:0"),
        Event::SessionsEnd | Event::PlacesEnd => {
            net.close(0);
            None
        }
        Event::ExpiryPlain | Event::Lapses | Event::Timeouts | Event::Renewals => None,
    };
    let requests = request.iter().map(|request| net.out.send(0, &words(request))).count();
    net.out.flush();
    // What is to come by itself comes within that time.
    let at_least = Duration::from_secs(if event == Event::Renewals { 9 } else { 4 });
    let pings = ping.until_quick(begin, at_least);
    let cpu = server.cpu_ns() - before - cpu_quiet * f64::from(pings.count);
    // All of it has happened.
    net.replies(waiters + requests, |_, _| ());
    let ended = match event {
        Event::SessionsEnd => server.lock_info("lock_sessions_ended") >= many as f64,
        Event::Renewals => server.lock_info("lock_sessions") >= many as f64,
        Event::PlacesEnd => server.lock_info("lock_places") == 0.0,
        _ => true,
    };
    assert!(ended, "not all of it has happened");
    Seen { quiet, longest: pings.longest, cpu_us: cpu.max(0.0) / 1e3 / many as f64 }
}

/// Brings the server to where the event comes next.
fn prepare(event: Event, waiters: usize, net: &mut Net, server: &Server) {
    let lock = |number: usize, more: &str| {
        format!("LOCK.ACQUIRE lock:{number} OWNER {} PX {LEASE}{more}", owner(number))
    };
    let mut take = |count, more| net.fill(1, (0..count).map(|number| lock(number, more)), b"*4\r\n");
    match event {
        Event::FlushPlain | Event::ExpiryPlain => {
            let keys = (0..WAITERS).map(|number| format!("SET lock:{number} {} PX {LEASE}", owner(number)));
            net.fill(1, keys, b"+OK\r\n");
        }
        Event::SessionsEnd => take(MANY, " SESSION"),
        Event::Renewals => {
            // All are renewed in one pass, after 20 s.
            let sessions = (0..MANY).map(|number| lock(number, " SESSION").replace(LEASE, "60000"));
            net.fill(1, sessions, b"*4\r\n");
            thread::sleep(Duration::from_secs(15));
        }
        Event::PlacesEnd => {
            take(MANY, "");
            let places = (0..MANY).map(|number| {
                let owner = owner(MANY + number);
                format!("LOCK.ACQUIRE lock:{number} OWNER {owner} BLOCK 0 NOTIFY told ONCE")
            });
            net.fill(1, places, b"+QUEUED\r\n");
        }
        Event::Reentries => take(1, ""),
        Event::Flush | Event::Lapses | Event::Timeouts => take(WAITERS, ""),
    }
    let due = now() + Duration::from_secs(10);
    for number in 0..waiters {
        let timeout = if event == Event::Timeouts { (due - now()).as_millis() } else { 0 };
        let (lock, owner) =
            if event == Event::Reentries { (0, owner(WAITERS)) } else { (number, owner(WAITERS + number)) };
        let request = format!("LOCK.ACQUIRE lock:{lock} OWNER {owner} PX {LEASE} BLOCK {timeout}");
        net.out.send(1 + number, &words(&request));
        if number % BATCH == 0 {
            net.out.flush();
            // Waits are to end together: each is told how long it is to last.
            while server.blocked_clients() < number {}
        }
    }
    net.wait_until(|| server.blocked_clients() >= waiters);
    if matches!(event, Event::Lapses | Event::ExpiryPlain) {
        let due = (now() + Duration::from_secs(2)).as_millis();
        net.fill(1, (0..WAITERS).map(|number| format!("PEXPIREAT lock:{number} {due}")), b":1\r\n");
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970")
}
