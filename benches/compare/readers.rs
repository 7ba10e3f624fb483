//! Many readers (`SHARED`) that wait for one writer: how soon all are in when it gives the lock back, and how long another
//! client waits for an answer meanwhile.

use std::time::{Duration, Instant};

use crate::net::{Conn, Net, PATIENCE};
use crate::notify::{self, granted, name};
use crate::plan::{Plan, order, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::words;
use crate::server::{Server, Setup};
use crate::shared::{LATER_LEASE, LEASE, without_cap};
use crate::stall::Ping;
use crate::stats::{Spread, percentile, sorted};

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
        self.net.fill(conns, releases, b":0\r\n");
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

pub(crate) fn run(plan: &Plan, report: &mut Report) {
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
