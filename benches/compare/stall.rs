//! What falls due at once: the longest `PING` of another client meanwhile.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use crate::net::Net;
use crate::plan::{Plan, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::{owner, words};
use crate::server::{Server, Setup};
use crate::stats::Spread;

/// Clients that wait, each on a connection of its own.
const WAITERS: usize = 18_000;
/// Sessions, or places, of one connection.
const MANY: usize = 100_000;
/// After how many requests they go out.
const BATCH: usize = 500;
/// In ms; longer than this takes.
const LEASE: &str = "600000";

/// Longer than an answer takes on a server that has nothing else to do, in ms.
const SLOW: f64 = 5.0;

/// What falls due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The server's own part of a flush: as many keys with a TTL, and nobody waits.
    FlushPlain,
    Flush,
    /// The server's own part of lapses.
    ExpiryPlain,
    Lapses,
    Timeouts,
    SessionsEnd,
    Renewals,
    PlacesEnd,
    Reentries,
}

impl Event {
    const ALL: [Self; 9] = [
        Self::FlushPlain,
        Self::Flush,
        Self::ExpiryPlain,
        Self::Lapses,
        Self::Timeouts,
        Self::SessionsEnd,
        Self::Renewals,
        Self::PlacesEnd,
        Self::Reentries,
    ];

    fn name(self) -> String {
        match self {
            Self::FlushPlain => format!("FLUSHALL of {WAITERS} plain keys with a TTL"),
            Self::Flush => format!("FLUSHALL of {WAITERS} locks that are waited for"),
            Self::ExpiryPlain => format!("{WAITERS} plain keys expire in one ms"),
            Self::Lapses => format!("{WAITERS} leases end in one ms, each waited for"),
            Self::Timeouts => format!("{WAITERS} clients wait no longer"),
            Self::SessionsEnd => format!("a connection with {MANY} sessions closes"),
            Self::Renewals => format!("{MANY} sessions are renewed"),
            Self::PlacesEnd => format!("a connection with {MANY} places of NOTIFY closes"),
            Self::Reentries => format!("a lock goes to an owner that waits {WAITERS} times"),
        }
    }

    /// Whether it is the server's own part alone, without the module.
    fn is_plain(self) -> bool {
        matches!(self, Self::FlushPlain | Self::ExpiryPlain)
    }

    /// How many fall due at once.
    fn many(self) -> usize {
        match self {
            Self::SessionsEnd | Self::Renewals | Self::PlacesEnd => MANY,
            _ => WAITERS,
        }
    }

    /// The connections beside the first.
    fn waiters(self) -> usize {
        match self {
            Self::Flush | Self::Lapses | Self::Timeouts | Self::Reentries => WAITERS,
            _ => 0,
        }
    }
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
    for event in Event::ALL {
        let seen: Vec<Seen> = (0..plan.pick(3, 1)).map(|_| stall(event)).collect();
        let spread = |of: fn(&Seen) -> f64| Spread::of(seen.iter().map(of));
        let (longest, quiet) = (spread(|seen| seen.longest), spread(|seen| seen.quiet).max);
        progress(&format!("  stall, {}: {:.1} ms", event.name(), longest.median));
        if !event.is_plain() {
            report.row(Row {
                work: "longest PING of another client".into(),
                beside: event.name(),
                bound: Some(Bound::AtMost(10.0)),
                unit: " ms".into(),
                value: longest,
                cpu: None,
            });
        }
        report.figure(Figure {
            work: "longest PING of another client".into(),
            who: event.name(),
            unit: "ms".into(),
            value: longest,
            cpu_us: Some(spread(|seen| seen.cpu_us)),
            remark: format!("before it at most {quiet:.1} ms"),
        });
    }
}

fn stall(event: Event) -> Seen {
    let mut server = Server::start(if event.is_plain() { Setup::PLAIN } else { Setup::MODULE });
    let mut net = Net::with(1 + event.waiters(), server.port);
    if !event.is_plain() {
        // One connection has more places and sessions here than it may by default.
        server.ask("CONFIG SET lock.max-places 0");
    }
    prepare(event, &mut net, &mut server);
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
    net.replies(event.waiters() + requests, |_, _| ());
    let ended = match event {
        Event::SessionsEnd => server.lock_info("lock_sessions_ended") >= MANY as f64,
        Event::Renewals => server.lock_info("lock_sessions") >= MANY as f64,
        Event::PlacesEnd => server.lock_info("lock_places") == 0.0,
        _ => true,
    };
    assert!(ended, "{}: not all of it has happened", event.name());
    Seen { quiet, longest: pings.longest, cpu_us: cpu.max(0.0) / 1e3 / event.many() as f64 }
}

/// Brings the server to where the event comes next.
fn prepare(event: Event, net: &mut Net, server: &mut Server) {
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
            std::thread::sleep(Duration::from_secs(15));
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
    for number in 0..event.waiters() {
        let timeout = if event == Event::Timeouts { (due - now()).as_millis() } else { 0 };
        let lock = if event == Event::Reentries { 0 } else { number };
        let owner = if event == Event::Reentries { owner(WAITERS) } else { owner(WAITERS + number) };
        let request = format!("LOCK.ACQUIRE lock:{lock} OWNER {owner} PX {LEASE} BLOCK {timeout}");
        net.out.send(1 + number, &words(&request));
        if number % BATCH == 0 {
            net.out.flush();
            // Waits are to end together: each is told how long it is to last.
            while server.blocked_clients() < number {}
        }
    }
    while server.blocked_clients() < event.waiters() {
        net.turn(Duration::from_millis(5), |_, conn, _| panic!("client {conn} does not wait"));
    }
    if matches!(event, Event::Lapses | Event::ExpiryPlain) {
        let due = (now() + Duration::from_secs(2)).as_millis();
        net.fill(1, (0..WAITERS).map(|number| format!("PEXPIREAT lock:{number} {due}")), b":1\r\n");
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970")
}

/// How often `PING` was asked, and the longest it took, in ms.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pings {
    pub(crate) count: u32,
    pub(crate) longest: f64,
}

/// Another client, which asks the server for nothing but an answer.
pub(crate) struct Ping(TcpStream);

impl Ping {
    pub(crate) fn new(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection to the server");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self(stream)
    }

    /// How long an answer takes, in ms.
    fn ping(&mut self) -> f64 {
        self.try_ping().expect("an answer")
    }

    /// The same where the server may be gone.
    pub(crate) fn try_ping(&mut self) -> io::Result<f64> {
        let begin = Instant::now();
        self.0.write_all(b"PING\r\n")?;
        let mut answer = [0; 7];
        self.0.read_exact(&mut answer)?;
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    }

    pub(crate) fn longest_for(&mut self, time: Duration) -> Pings {
        let (begin, mut pings) = (Instant::now(), Pings::default());
        while begin.elapsed() < time {
            let took = self.ping();
            pings = Pings { count: pings.count + 1, longest: pings.longest.max(took) };
        }
        pings
    }

    /// Goes on for that long from the beginning at least, and until answers have been quick for a while. On a machine that
    /// has other things to do they may never be.
    pub(crate) fn until_quick(&mut self, begin: Instant, at_least: Duration) -> Pings {
        let (mut pings, mut slow) = (Pings::default(), begin);
        while begin.elapsed() < at_least
            || slow.elapsed() < Duration::from_secs(1) && begin.elapsed() < 3 * at_least
        {
            let took = self.ping();
            pings = Pings { count: pings.count + 1, longest: pings.longest.max(took) };
            if took > SLOW {
                slow = Instant::now();
            }
        }
        pings
    }
}
