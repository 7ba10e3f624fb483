//! Many readers (`SHARED`) that wait for one writer: how soon all are in when it gives the lock back, and how long another
//! client waits for an answer meanwhile.

use std::time::{Duration, Instant};

use crate::net::{Conn, Net, PATIENCE};
use crate::notify::{self, ASKS, HEARS, NAME, granted};
use crate::ping::Ping;
use crate::report::{Figure, Report, Row};
use crate::resp::{said, words};
use crate::rivals::LONG_LEASE;
use crate::rounds::{Plan, Rounds, Sample, percentiles, spread, times};
use crate::server::{Server, Setup};
use crate::stats::sorted;

/// Of what comes later, and so ends later, as it does where all leases are alike.
pub(crate) const LATER_LEASE: &str = "7200000";
/// As many holders as there are; else 1,000.
pub(crate) const WITHOUT_CAP: &str = "CONFIG SET lock.max-holders 0";

const READERS: usize = 10_000;
const WRITER: &str = "writer";

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

/// Readers that wait, with the connections on which they do.
struct Readers {
    way: Way,
    server: Server,
    net: Net,
    writes: Conn,
    /// What each reader asks.
    asks: Vec<Vec<u8>>,
}

impl Readers {
    fn new(way: Way) -> Self {
        let server = Server::start(if way == Way::Xread { Setup::PLAIN } else { Setup::MODULE });
        if way != Way::Xread {
            server.ask(WITHOUT_CAP);
            // While `PING` is asked nobody claims anything.
            server.ask("CONFIG SET lock.claim 60000");
        }
        let mut net = match way {
            Way::Places => notify::connect(&server),
            Way::Blocked | Way::Xread => Net::with(READERS, server.port),
        };
        let writes = net.connect(server.port);
        Self { way, server, net, writes, asks: (0..READERS).map(|reader| said(&way.ask(), reader)).collect() }
    }

    /// All have had what they waited for, and wait again.
    fn queue_up(&mut self) {
        let Self { way, server, net, writes, .. } = self;
        if *way != Way::Xread {
            net.out.send(*writes, &words(&format!("LOCK.ACQUIRE lock OWNER {WRITER} PX {LONG_LEASE}")));
            net.replies(1, |_, reply| assert!(reply.starts_with(b"*4\r\n"), "{}", reply.escape_ascii()));
        }
        if *way == Way::Places {
            return notify::queue_up(net, READERS, &way.ask());
        }
        net.block(0, READERS, &way.ask());
        net.wait_until(|| server.blocked_clients() >= READERS);
    }

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
        let Self { way, net, writes, asks, .. } = self;
        let (mut had, mut released) = (Vec::with_capacity(READERS), false);
        while had.len() < READERS || !released {
            net.turn(PATIENCE, |out, conn, reply| {
                if conn == *writes {
                    released = true;
                } else if *way == Way::Places && conn == HEARS {
                    if let Some(reader) = granted(reply) {
                        out.send(ASKS, &asks[reader]);
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

    fn leave(&mut self) {
        let conns = match self.way {
            Way::Xread => return,
            Way::Places => 1,
            Way::Blocked => READERS,
        };
        self.net.fill(conns, READERS, &format!("LOCK.RELEASE lock {NAME}"), b":0\r\n");
    }

    /// Until the last had it, in ms, when each had it, and the longest `PING` of another client: before such a release, and from
    /// it on.
    fn run(mut self) -> Sample {
        // The first time warms up.
        self.queue_up();
        self.let_in();
        self.hear(Instant::now());
        self.leave();

        self.queue_up();
        let (cpu, begin) = (self.server.cpu_ns(), Instant::now());
        self.let_in();
        let times = self.hear(begin);
        let cpu_us = (self.server.cpu_ns() - cpu) / 1e3 / READERS as f64;
        self.leave();

        // Nothing is read meanwhile, so that this program is not what a `PING` waits for.
        self.queue_up();
        let mut ping = Ping::new(self.server.port);
        let quiet = ping.longest_for(Duration::from_millis(500)).longest;
        let begin = Instant::now();
        self.let_in();
        let longest = ping.until_quick(begin, Duration::from_secs(2)).longest;
        self.hear(begin);
        Sample { value: times[READERS - 1], cpu_us, shares: [quiet, longest], times }
    }
}

impl Way {
    /// What the reader of each number asks.
    fn ask(self) -> String {
        let wait = format!("LOCK.ACQUIRE lock OWNER {NAME} PX {LATER_LEASE} SHARED BLOCK 0");
        match self {
            Self::Xread => "XREAD BLOCK 0 STREAMS stream $".into(),
            Self::Places => format!("{wait} NOTIFY {} ONCE", notify::CHANNEL),
            Self::Blocked => wait,
        }
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let start = || Way::ALL.map(|way| (way.name().into(), way)).into();
    let work = format!("until {READERS} readers behind a writer have it");
    let rounds = Rounds::play(&work, "ms", 1, 1..=plan.pick(3, 2), start, |way| Readers::new(*way).run());
    // A place has a message and a claim, which is a command.
    let ours = [(Way::Blocked, 2.0), (Way::Places, 5.0)];
    for (way, bound) in ours {
        let work = format!("until {READERS} {} have it", way.name());
        let row = rounds.row(&work, way.name(), Way::Xread.name());
        report.rows.extend(row.map(|row| row.at_most(bound)));
    }
    report.figures.extend(rounds.figures(|samples| {
        let [half, most, _] = percentiles(&times(samples));
        format!("one of them p50 {half:.1}, p99 {most:.1} ms")
    }));
    let work = "longest PING of another client";
    for way in Way::ALL {
        let samples = rounds.of(way.name()).unwrap_or_default();
        let [quiet, longest] = [0, 1].map(|share| spread(samples, |sample| sample.shares[share]));
        let event = format!("a writer lets in {READERS} {}", way.name());
        if way != Way::Xread {
            report.rows.push(Row::new(work, &event, " ms", longest).at_most(10.0));
        }
        let figure = Figure::new(work, &event, "ms", longest);
        report.figures.push(figure.remark(format!("before it at most {:.1} ms", quiet.max)));
    }
}
