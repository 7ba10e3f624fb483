//! Locks with several holders (`SHARED`): what a reader's acquire and release cost beside other readers, what a grant takes in
//! memory, and how many readers come in when a writer gives the lock back.

use std::time::{Duration, Instant};

use crate::load::{CONNECTIONS, Load};
use crate::net::{Conn, Net, PATIENCE};
use crate::notify::{self, granted, name};
use crate::plan::{Plan, order, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::{integer, owner, words};
use crate::server::{Server, Setup};
use crate::stall::Ping;
use crate::stats::{Spread, percentile, sorted};
use crate::throughput::Rounds;

/// In ms; longer than this takes.
const LEASE: &str = "3600000";
/// Of what comes later, and so ends later, as it does where all leases are alike.
const LATER_LEASE: &str = "7200000";

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    pairs(plan, report);
    memory(report);
    batch(plan, report);
}

/// As many holders as there are; else 1,000.
fn without_cap(server: &mut Server) {
    assert_eq!(server.ask("CONFIG SET lock.max-holders 0"), b"+OK\r\n");
}

/// Sends requests on some connections, and looks at how the replies begin.
fn fill(net: &mut Net, conns: usize, requests: impl Iterator<Item = String>, success: &[u8]) {
    let mut requests = requests.peekable();
    while requests.peek().is_some() {
        let mut due = 0;
        for request in requests.by_ref().take(500 * conns) {
            net.out.send(due % conns, &words(&request));
            due += 1;
        }
        net.replies(due, |_, reply| {
            assert!(reply.starts_with(success), "refused: {}", reply.escape_ascii());
        });
    }
}

// Acquire and release.

/// Who takes the locks and gives them back; of readers, how many others hold each lock meanwhile, and how many times as good
/// as a plain pair theirs is to be.
const PAIRS: [(&str, Option<usize>, Option<f64>); 5] = [
    (PLAIN, None, None),
    ("with SHARED, no other holder", Some(0), Some(0.9)),
    ("with SHARED, 1 other holder", Some(1), None),
    ("with SHARED, 10 other holders", Some(10), None),
    ("with SHARED, 1,000 other holders", Some(1_000), Some(0.6)),
];
const PLAIN: &str = "without SHARED";
const PIPELINE: usize = 16;

fn pairs(plan: &Plan, report: &mut Report) {
    let work = format!("acquire + release, P={PIPELINE}, on {CONNECTIONS} locks");
    let (starts, rounds, length) = (plan.pick(6, 2), plan.pick(10, 5), plan.ms(200, 120));
    let mut samples = PAIRS.map(|(who, ..)| (who, Vec::new()));
    for begun in 1..=starts {
        // One server for all: each has locks of its own, and a look-up does not depend on how many there are.
        let mut server = Server::start(Setup::MODULE);
        without_cap(&mut server);
        let mut loads: Vec<Load> = Vec::new();
        for (place, (who, others, _)) in PAIRS.into_iter().enumerate() {
            // One lock for each connection: with 1,000 holders each, more of them would measure the processor's caches.
            let key = |conn: usize| format!("lock:{place}:{conn}");
            let shared = if others.is_some() { " SHARED" } else { "" };
            let others =
                (1..=others.unwrap_or(0)).flat_map(|other| (0..CONNECTIONS).map(move |conn| (other, conn)));
            let requests = others.map(|(other, conn)| {
                format!("LOCK.ACQUIRE {} OWNER {} PX {LEASE}{shared}", key(conn), owner(other))
            });
            fill(&mut Net::with(CONNECTIONS, server.port), CONNECTIONS, requests, b"*4\r\n");
            let pair = |conn| {
                let (key, owner) = (key(conn), owner(0));
                [
                    words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LATER_LEASE}{shared}")),
                    words(&format!("LOCK.RELEASE {key} {owner}")),
                ]
            };
            let pairs = |conn| vec![pair(conn); PIPELINE];
            loads.push(Load::of(who, [b"*4\r\n", b":0\r\n"], &server, PIPELINE, pairs));
        }
        for round in 0..=rounds {
            for place in order(loads.len(), round) {
                let sample = loads[place].run(&mut server, length);
                // The first round warms up.
                if round > 0 {
                    samples[place].1.push(sample);
                }
            }
        }
        progress(&format!("  {work}: {begun}/{starts}"));
    }
    let rounds = Rounds(samples.into());
    rounds.warn(&work, report);
    for (who, _, bound) in PAIRS.into_iter().filter(|(_, others, _)| others.is_some()) {
        report.rows(rounds.row(&format!("acquire + release {who}, P={PIPELINE}"), who, PLAIN, bound));
    }
    for figure in rounds.figures(&work) {
        report.figure(figure);
    }
}

// Memory.

/// How many grants there are, on as many locks as that takes.
const GRANTS: usize = 200_000;
const CONNS: usize = 4;

fn memory(report: &mut Report) {
    let work = "memory of a grant, UUID owner";
    let mut plain = 0.0;
    for (who, holders) in [
        ("a plain lock", 1),
        ("SHARED, 1 holder", 1),
        ("SHARED, 2 holders", 2),
        ("SHARED, 100 holders", 100),
        ("SHARED, 1,000 holders", 1_000),
    ] {
        let is_plain = plain == 0.0;
        let shared = if is_plain { "" } else { " SHARED" };
        let mut server = Server::start(Setup::MODULE);
        let (locks, before) = (GRANTS / holders, server.used_memory());
        // The connections go before the memory is read.
        fill(
            &mut Net::with(CONNS, server.port),
            CONNS,
            (0..GRANTS).map(|number| {
                let (lock, owner) = (number % locks, owner(number));
                format!("LOCK.ACQUIRE lock:{lock:08} OWNER {owner} PX {LEASE}{shared}")
            }),
            b"*4\r\n",
        );
        server.wait_for_departures();
        let bytes = (server.used_memory() - before) / GRANTS as f64;
        // To a tenth of a byte: the rest is the server's own housekeeping.
        let bytes = (bytes * 10.0).round() / 10.0;
        let usage = integer(&server.ask("MEMORY USAGE lock:00000000")).expect("the size of a lock");
        progress(&format!("  memory, {who}: {bytes:.1} bytes a grant"));
        if is_plain {
            plain = bytes;
        } else {
            report.row(Row {
                work: format!("memory of a grant, {who}"),
                beside: "a plain lock".into(),
                bound: Some(Bound::AtMost(2.0)),
                unit: "x".into(),
                value: Spread::one(bytes / plain),
                cpu: None,
            });
        }
        report.figure(Figure {
            work: work.into(),
            who: who.into(),
            unit: "bytes".into(),
            value: Spread::one(bytes),
            cpu_us: None,
            remark: format!(
                "MEMORY USAGE of such a lock: {:.1} bytes a grant; {locks} locks",
                usage as f64 / holders as f64
            ),
        });
    }
}

// Readers that wait for one writer.

const READERS: usize = 10_000;
const WRITER: &str = "writer";

/// How they wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each with `BLOCK`, on a connection of its own.
    Blocked,
    /// By `NOTIFY`: places of one connection, told on another; who is told claims its grant.
    Places,
    /// With `XREAD BLOCK`, each on a connection of its own: the server's own way to wake all at once. Nobody is granted anything.
    Xread,
}

impl Way {
    const ALL: [Self; 3] = [Self::Blocked, Self::Places, Self::Xread];

    fn name(self) -> &'static str {
        match self {
            Self::Blocked => "clients blocked in LOCK.ACQUIRE, SHARED",
            Self::Places => "places of NOTIFY, SHARED",
            Self::Xread => "clients blocked in XREAD, and one XADD",
        }
    }
}

/// What a batch came to.
struct Batch {
    /// When each had it, in ms from the release on.
    had_ms: Vec<f64>,
    /// The server's processor time, in µs for each reader.
    cpu_us: f64,
    /// The longest `PING` of another client, before another such release, and from then on.
    quiet_ms: f64,
    ping_ms: f64,
}

impl Batch {
    fn last_ms(&self) -> f64 {
        percentile(&self.had_ms, 100.0)
    }
}

/// Readers that wait, with the connections on which they do.
struct Readers {
    way: Way,
    server: Server,
    net: Net,
    writes: Conn,
}

impl Readers {
    fn new(way: Way) -> Self {
        let mut server = Server::start(if way == Way::Xread { Setup::PLAIN } else { Setup::MODULE });
        if way != Way::Xread {
            without_cap(&mut server);
            // While `PING` is asked nobody claims anything.
            server.ask("CONFIG SET lock.claim 60000");
        }
        let mut net = match way {
            Way::Places => notify::connect(&server).0,
            Way::Blocked | Way::Xread => Net::with(READERS, server.port),
        };
        let writes = net.connect(server.port);
        Self { way, server, net, writes }
    }

    /// All have had what they waited for, and wait again.
    fn queue_up(&mut self) {
        let Self { way, server, net, writes } = self;
        if *way != Way::Xread {
            net.out.send(*writes, &words(&format!("LOCK.ACQUIRE lock OWNER {WRITER} PX {LEASE}")));
            net.replies(1, |_, reply| assert!(reply.starts_with(b"*4\r\n"), "{}", reply.escape_ascii()));
        }
        if *way == Way::Places {
            notify::queue_up(net, 0, (0..READERS).map(place));
            return;
        }
        for reader in 0..READERS {
            net.out.send(reader, &way.ask(reader));
            if reader % 500 == 0 {
                net.out.flush();
            }
        }
        while server.blocked_clients() < READERS {
            net.turn(Duration::from_millis(5), |_, conn, _| panic!("client {conn} does not wait"));
        }
    }

    /// The writer gives the lock back.
    fn let_in(&mut self) {
        let request = match self.way {
            Way::Xread => "XADD stream * field value".into(),
            Way::Blocked | Way::Places => format!("LOCK.RELEASE lock {WRITER}"),
        };
        self.net.out.send(self.writes, &words(&request));
        self.net.out.flush();
    }

    /// Waits until all have it: by the reply, or by that to the claim. When each had it, in ms.
    fn hear(&mut self, begin: Instant) -> Vec<f64> {
        let Self { way, net, writes, .. } = self;
        let (mut had, mut released) = (Vec::with_capacity(READERS), false);
        while had.len() < READERS || !released {
            net.turn(PATIENCE, |out, conn, reply| {
                if conn == *writes {
                    released = true;
                } else if *way == Way::Places && conn == 1 {
                    if let Some(reader) = granted(reply) {
                        out.send(0, &place(reader));
                    }
                } else {
                    let expected: &[u8] = if *way == Way::Xread { b"*1\r\n" } else { b"*4\r\n" };
                    assert!(reply.starts_with(expected), "{}", reply.escape_ascii());
                    had.push(begin.elapsed().as_secs_f64() * 1e3);
                }
            });
        }
        sorted(had)
    }

    /// All readers give the lock back.
    fn leave(&mut self) {
        let conns = match self.way {
            Way::Xread => return,
            Way::Places => 1,
            Way::Blocked => READERS,
        };
        let releases = (0..READERS).map(|reader| format!("LOCK.RELEASE lock {}", name(reader)));
        fill(&mut self.net, conns, releases, b":0\r\n");
    }

    fn run(mut self) -> Batch {
        // The first time warms up.
        self.queue_up();
        self.let_in();
        self.hear(Instant::now());
        self.leave();

        self.queue_up();
        let (cpu, begin) = (self.server.cpu_ns(), Instant::now());
        self.let_in();
        let had_ms = self.hear(begin);
        let cpu_us = (self.server.cpu_ns() - cpu) / 1e3 / READERS as f64;
        self.leave();

        // Nothing is read meanwhile, so that this program is not what a `PING` waits for.
        self.queue_up();
        let mut ping = Ping::new(self.server.port);
        let quiet = ping.longest_for(Duration::from_millis(500));
        let begin = Instant::now();
        self.let_in();
        let pings = ping.until_quick(begin, Duration::from_secs(2));
        self.hear(begin);
        Batch { had_ms, cpu_us, quiet_ms: quiet.longest, ping_ms: pings.longest }
    }
}

impl Way {
    fn ask(self, reader: usize) -> Vec<u8> {
        match self {
            Self::Xread => words("XREAD BLOCK 0 STREAMS stream $"),
            Self::Places => place(reader),
            Self::Blocked => {
                words(&format!("LOCK.ACQUIRE lock OWNER {} PX {LATER_LEASE} SHARED BLOCK 0", name(reader)))
            }
        }
    }
}

fn place(reader: usize) -> Vec<u8> {
    let (owner, channel) = (name(reader), notify::CHANNEL);
    words(&format!("LOCK.ACQUIRE lock OWNER {owner} PX {LATER_LEASE} SHARED BLOCK 0 NOTIFY {channel} ONCE"))
}

fn batch(plan: &Plan, report: &mut Report) {
    let rounds = plan.pick(3, 2);
    let mut batches = [const { Vec::new() }; Way::ALL.len()];
    for round in 1..=rounds {
        for place in order(Way::ALL.len(), round) {
            batches[place].push(Readers::new(Way::ALL[place]).run());
        }
        progress(&format!("  {READERS} readers behind a writer: {round}/{rounds}"));
    }
    let [blocked, places, xread] = &batches;
    // A place has a message and a claim, which is a command.
    let ours = [(Way::Blocked, blocked, 2.0), (Way::Places, places, 5.0)];
    for (way, batches, bound) in ours {
        let pairs = || batches.iter().zip(xread);
        report.row(Row {
            work: format!("until {READERS} {} have it", way.name()),
            beside: Way::Xread.name().into(),
            bound: Some(Bound::AtMost(bound)),
            unit: "x".into(),
            value: Spread::of(pairs().map(|(ours, theirs)| ours.last_ms() / theirs.last_ms())),
            cpu: Some(Spread::of(pairs().map(|(ours, theirs)| ours.cpu_us / theirs.cpu_us))),
        });
    }
    for (way, batches, _) in ours {
        report.row(Row {
            work: "longest PING of another client".into(),
            beside: format!("a writer lets in {READERS} {}", way.name()),
            bound: Some(Bound::AtMost(10.0)),
            unit: " ms".into(),
            value: Spread::of(batches.iter().map(|batch| batch.ping_ms)),
            cpu: None,
        });
    }
    for (way, batches) in Way::ALL.into_iter().zip(&batches) {
        let had = sorted(batches.iter().flat_map(|batch| batch.had_ms.iter().copied()));
        report.figure(Figure {
            work: format!("until {READERS} readers behind a writer have it"),
            who: way.name().into(),
            unit: "ms".into(),
            value: Spread::of(batches.iter().map(Batch::last_ms)),
            cpu_us: Some(Spread::of(batches.iter().map(|batch| batch.cpu_us))),
            remark: format!(
                "one of them p50 {:.1}, p99 {:.1} ms",
                percentile(&had, 50.0),
                percentile(&had, 99.0)
            ),
        });
    }
    for (way, batches) in Way::ALL.into_iter().zip(&batches) {
        let quiet = Spread::of(batches.iter().map(|batch| batch.quiet_ms)).max;
        report.figure(Figure {
            work: "longest PING of another client".into(),
            who: format!("a writer lets in {READERS} {}", way.name()),
            unit: "ms".into(),
            value: Spread::of(batches.iter().map(|batch| batch.ping_ms)),
            cpu_us: None,
            remark: format!("before it at most {quiet:.1} ms"),
        });
    }
}
