//! What a handover costs with 100, 1,000 and 10,000 clients waiting for the lock.

use std::time::{Duration, Instant};

use crate::net::{Conn, Net, Outbox, PATIENCE};
use crate::pictures::{self, Line};
use crate::plan::{Plan, order, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::{owner, words};
use crate::rivals::LEASE;
use crate::server::{Server, Setup};
use crate::stats::Spread;

const COUNTS: [usize; 3] = [100, 1_000, 10_000];

/// How long a turn may take. (Valkey 9 needs 0.4 s for a `BLMOVE` that 10,000 wait for.)
const LONGEST: Duration = Duration::from_secs(1);

/// A queue that goes round: who has had the lock gives it back and waits again, behind all others.
pub(crate) struct Circle {
    net: Net,
    clients: Vec<Client>,
    holder: Conn,
    /// How the reply begins that gives the lock to a client, and the one that takes it back.
    granted: &'static [u8],
}

struct Client {
    ask: Vec<u8>,
    /// Gives the lock back, and asks again.
    give_back: Vec<u8>,
    /// The next reply is to the giving back.
    giving_back: bool,
}

pub(crate) struct Sample {
    pub(crate) wall_us: f64,
    pub(crate) cpu_us: f64,
}

impl Circle {
    /// All stand in the queue but the first, who has the lock.
    pub(crate) fn new(server: &mut Server, count: usize) -> Self {
        let key = format!("lock:{count}");
        let client = |conn| {
            let owner = owner(conn);
            let ask = words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE}0 BLOCK 0"));
            let release = words(&format!("LOCK.RELEASE {key} {owner}"));
            Client { give_back: [release, ask.clone()].concat(), ask, giving_back: false }
        };
        Self::begin(server, count, (0..count).map(client).collect(), b"*4\r\n")
    }

    /// The same with a token that goes from list to list: the server's own way to wait.
    pub(crate) fn of_tokens(server: &mut Server, count: usize) -> Self {
        let key = format!("token:{count}");
        server.ask(&format!("RPUSH {key} token"));
        let client = |conn| {
            let ask = words(&format!("BLMOVE {key} {key}:{conn} LEFT RIGHT 0"));
            let release = words(&format!("LMOVE {key}:{conn} {key} LEFT RIGHT"));
            Client { give_back: [release, ask.clone()].concat(), ask, giving_back: false }
        };
        Self::begin(server, count, (0..count).map(client).collect(), b"$5\r\n")
    }

    fn begin(server: &mut Server, count: usize, clients: Vec<Client>, granted: &'static [u8]) -> Self {
        let blocked_before = server.blocked_clients();
        let mut net = Net::with(count, server.port);
        for (conn, client) in clients.iter().enumerate() {
            net.out.send(conn, &client.ask);
        }
        let mut holder = 0;
        net.replies(1, |conn, _| holder = conn);
        while server.blocked_clients() < blocked_before + count - 1 {
            net.turn(Duration::from_millis(5), |_, conn, _| panic!("client {conn} does not wait"));
        }
        Self { net, clients, holder, granted }
    }

    /// That many handovers.
    pub(crate) fn run(&mut self, server: &mut Server, handovers: usize) -> Sample {
        self.run_within(server, handovers, Duration::MAX)
    }

    /// That many handovers, or as many as there are in that time.
    fn run_within(&mut self, server: &mut Server, handovers: usize, longest: Duration) -> Sample {
        let Self { net, clients, holder, granted } = self;
        let cpu_before = server.cpu_ns();
        let begin = Instant::now();
        clients[*holder].give_back(&mut net.out, *holder);
        let (mut count, mut enough) = (0, false);
        while !enough {
            net.turn(PATIENCE, |out, conn, reply| {
                let client = &mut clients[conn];
                if std::mem::take(&mut client.giving_back) {
                    return;
                }
                assert!(reply.starts_with(granted), "unexpected reply {}", reply.escape_ascii());
                count += 1;
                *holder = conn;
                enough = count == handovers || begin.elapsed() > longest;
                if !enough {
                    client.give_back(out, conn);
                }
            });
        }
        let wall = begin.elapsed().as_secs_f64();
        let cpu = server.cpu_ns() - cpu_before;
        Sample { wall_us: wall * 1e6 / count as f64, cpu_us: cpu / 1e3 / count as f64 }
    }
}

impl Client {
    fn give_back(&mut self, out: &mut Outbox, conn: Conn) {
        self.giving_back = true;
        out.send(conn, &self.give_back);
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let mut lines = Vec::new();
    for (who, setup, circle, bound) in [
        (
            "Redislock",
            Setup::MODULE,
            Circle::new as fn(&mut Server, usize) -> Circle,
            Some(Bound::AtMost(1.2)),
        ),
        ("BLMOVE of a token", Setup::PLAIN, Circle::of_tokens, None),
    ] {
        let mut server = Server::start(setup);
        let mut circles = COUNTS.map(|count| circle(&mut server, count));
        let mut samples = COUNTS.map(|_| Vec::new());
        let (rounds, handovers) = (plan.pick(30, 10), plan.pick(2_000, 1_000));
        for round in 0..=rounds {
            for place in order(circles.len(), round) {
                let sample = circles[place].run_within(&mut server, handovers, LONGEST);
                // The first round warms up.
                if round > 0 {
                    samples[place].push(sample);
                }
            }
            progress(&format!("  waiters, {who}: {round}/{rounds}"));
        }
        let ratio = |of: fn(&Sample) -> f64| {
            let pairs = samples[COUNTS.len() - 1].iter().zip(&samples[0]);
            Spread::of(pairs.map(|(many, few)| of(many) / of(few)))
        };
        report.row(Row {
            work: format!("a handover of {who} with 10,000 waiters"),
            beside: "with 100".into(),
            bound,
            unit: "x".into(),
            value: ratio(|sample| sample.wall_us),
            cpu: Some(ratio(|sample| sample.cpu_us)),
        });
        let mut points = Vec::new();
        for (count, samples) in COUNTS.iter().zip(&samples) {
            let cpu = Spread::of(samples.iter().map(|sample| sample.cpu_us));
            points.push((*count as f64, cpu));
            report.figure(Figure {
                work: format!("a handover with {count} waiters"),
                who: who.into(),
                unit: "µs".into(),
                value: Spread::of(samples.iter().map(|sample| sample.wall_us)),
                cpu_us: Some(cpu),
                remark: String::new(),
            });
        }
        lines.push(Line { name: who.into(), points });
    }
    pictures::lines(
        plan,
        "waiters",
        "The server's processor time for a handover, and coming back to wait",
        "clients that wait for the lock",
        "µs",
        &lines,
    );
}
