//! Waiting without a connection (`NOTIFY`): what a place takes in memory, what a handover to one costs, beside clients that
//! are blocked, and how soon a holder that keeps its lock gives it up for another.

use std::collections::VecDeque;
use std::time::Instant;

use crate::net::{Conn, Net, PATIENCE};
use crate::plan::{Plan, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::{owner, request, words};
use crate::server::{Server, Setup};
use crate::stats::{Spread, percentile, sorted};
use crate::waiters::{Circle, Sample};

pub(crate) const CHANNEL: &str = "grants:web-7";
/// In ms; longer than this takes.
const LEASE: &str = "3600000";
/// How many wait, for a handover.
const WAITERS: usize = 100;
/// How many places are taken, for the memory; and clients blocked.
const PLACES: usize = 10_000;
const BLOCKED: usize = 1_000;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    memory(report);
    handovers(plan, report);
    wishes(plan, report);
}

fn place(key: &str, owner: &str) -> Vec<u8> {
    words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE} BLOCK 0 NOTIFY {CHANNEL} ONCE"))
}

/// One connection with many places, and another that hears of them.
pub(crate) fn connect(server: &Server) -> (Net, Conn, Conn) {
    let mut net = Net::new();
    let (asks, hears) = (net.connect(server.port), net.connect(server.port));
    net.out.send(hears, &request(&["SUBSCRIBE", CHANNEL]));
    net.replies(1, |_, _| ());
    (net, asks, hears)
}

pub(crate) fn queue_up(net: &mut Net, conn: Conn, asks: impl Iterator<Item = Vec<u8>>) {
    let asks: Vec<_> = asks.collect();
    for some in asks.chunks(500) {
        some.iter().for_each(|ask| net.out.send(conn, ask));
        let mut missing = some.len();
        while missing > 0 {
            net.turn(PATIENCE, |_, from, reply| {
                missing -= usize::from(from == conn && reply == b"+QUEUED\r\n")
            });
        }
    }
}

/// Bytes for each waiter, beside those of its connection where it needs none of its own.
fn memory(report: &mut Report) {
    let measure = |server: &mut Server, count: usize, wait: &mut dyn FnMut(&mut Server)| {
        let before = server.used_memory();
        wait(server);
        ((server.used_memory() - before) / count as f64).round()
    };
    let names = |locks: usize| (0..PLACES).map(move |number| format!("lock:{}", number % locks));
    let mut figures = Vec::new();
    for (locks, who) in
        [(1, "a place of NOTIFY, all on one lock"), (PLACES, "a place of NOTIFY, each on a lock of its own")]
    {
        let mut server = Server::start(Setup::MODULE);
        let (mut net, conn, _) = connect(&server);
        for key in names(locks).take(locks) {
            net.out.send(conn, &words(&format!("LOCK.ACQUIRE {key} PX {LEASE}")));
        }
        net.replies(locks, |_, _| ());
        let bytes = measure(&mut server, PLACES, &mut |_| {
            let asks = names(locks).enumerate().map(|(number, key)| place(&key, &owner(number)));
            queue_up(&mut net, conn, asks);
        });
        report.row(Row {
            work: format!("memory of {who}"),
            beside: "1,000 bytes".into(),
            bound: Some(Bound::AtMost(1.0)),
            unit: "x".into(),
            value: Spread::one(bytes / 1000.0),
            cpu: None,
        });
        figures.push((who, bytes, format!("{PLACES} places of one connection")));
    }
    for (who, setup, wait) in [
        ("a client blocked in LOCK.ACQUIRE", Setup::MODULE, "LOCK.ACQUIRE lock BLOCK 0"),
        ("a client blocked in BLMOVE", Setup::PLAIN, "BLMOVE list other LEFT RIGHT 0"),
    ] {
        let mut server = Server::start(setup);
        if setup.module {
            server.ask("LOCK.ACQUIRE lock PX 3600000");
        }
        // The connections are there before, and after.
        let mut net = Net::with(BLOCKED, server.port);
        (0..BLOCKED).for_each(|conn| net.out.send(conn, &words("PING")));
        net.replies(BLOCKED, |_, _| ());
        let bytes = measure(&mut server, BLOCKED, &mut |server| {
            (0..BLOCKED).for_each(|conn| net.out.send(conn, &words(wait)));
            net.out.flush();
            while server.blocked_clients() < BLOCKED {}
        });
        figures.push((who, bytes, format!("{BLOCKED} clients, beside their connections")));
    }
    for (who, bytes, remark) in figures {
        progress(&format!("  memory, {who}: {bytes} bytes"));
        report.figure(Figure {
            work: "memory of a waiter".into(),
            who: who.into(),
            unit: "bytes".into(),
            value: Spread::one(bytes),
            cpu_us: None,
            remark,
        });
    }
}

/// Owners on one connection. Each that is told claims its grant, gives it back, and queues up again.
struct Places {
    net: Net,
    asks: Conn,
    hears: Conn,
    key: &'static str,
    /// Who has the lock.
    holder: usize,
}

/// What the next reply is to.
enum Expected {
    Claim(usize),
    Other,
}

impl Places {
    fn new(server: &mut Server) -> Self {
        let key = "lock:places";
        let (mut net, asks, hears) = connect(server);
        net.out.send(asks, &place(key, &name(0)));
        net.replies(1, |_, reply| assert!(reply.starts_with(b"*4\r\n")));
        queue_up(&mut net, asks, (1..WAITERS).map(|number| place(key, &name(number))));
        Self { net, asks, hears, key, holder: 0 }
    }

    /// That many handovers, from a release to the next one's claim.
    fn run(&mut self, server: &mut Server, handovers: usize) -> Sample {
        let Self { net, asks, hears, key, holder } = self;
        let (asks, hears) = (*asks, *hears);
        let give_back = |owner: usize| {
            let release = words(&format!("LOCK.RELEASE {key} {}", name(owner)));
            [release, place(key, &name(owner))].concat()
        };
        // The release, and the ask for the next time.
        let mut expected = VecDeque::from([Expected::Other, Expected::Other]);
        let (cpu, begin) = (server.cpu_ns(), Instant::now());
        net.out.send(asks, &give_back(*holder));
        let mut count = 0;
        while count < handovers || !expected.is_empty() {
            net.turn(PATIENCE, |out, conn, reply| {
                if conn == hears {
                    if let Some(owner) = granted(reply) {
                        expected.push_back(Expected::Claim(owner));
                        out.send(asks, &place(key, &name(owner)));
                    }
                } else if let Some(Expected::Claim(owner)) = expected.pop_front() {
                    assert!(reply.starts_with(b"*4\r\n"), "not claimed: {}", reply.escape_ascii());
                    count += 1;
                    *holder = owner;
                    if count < handovers {
                        expected.extend([Expected::Other, Expected::Other]);
                        out.send(asks, &give_back(owner));
                    }
                }
            });
        }
        let wall = begin.elapsed().as_secs_f64();
        let cpu = server.cpu_ns() - cpu;
        Sample { wall_us: wall * 1e6 / count as f64, cpu_us: cpu / 1e3 / count as f64 }
    }
}

/// The same length for all.
pub(crate) fn name(owner: usize) -> String {
    format!("owner-{owner:06}")
}

/// Whom a message tells that it has the lock.
pub(crate) fn granted(message: &[u8]) -> Option<usize> {
    let text = message.strip_suffix(b"\r\n")?;
    let is_grant = text.split(|&byte| byte == b'\n').next_back()?.starts_with(b"granted ");
    let digits = text.get(text.len() - 6..).filter(|_| is_grant)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn handovers(plan: &Plan, report: &mut Report) {
    let (mut module, mut plain) = (Server::start(Setup::MODULE), Server::start(Setup::PLAIN));
    let mut places = Places::new(&mut module);
    let mut blocked = Circle::new(&mut module, WAITERS);
    let mut tokens = Circle::of_tokens(&mut plain, WAITERS);
    let (rounds, handovers) = (plan.pick(30, 10), plan.pick(2_000, 1_000));
    let mut samples = [const { Vec::new() }; 3];
    for round in 0..=rounds {
        let turn = [
            places.run(&mut module, handovers),
            blocked.run(&mut module, handovers),
            tokens.run(&mut plain, handovers),
        ];
        // The first round warms up.
        if round > 0 {
            samples.iter_mut().zip(turn).for_each(|(samples, sample)| samples.push(sample));
        }
        progress(&format!("  handovers by NOTIFY: {round}/{rounds}"));
    }
    let [places, blocked, tokens] = &samples;
    for (beside, others, bound) in [
        ("a client blocked in LOCK.ACQUIRE", blocked, Some(Bound::AtMost(1.5))),
        ("BLMOVE of a token", tokens, None),
    ] {
        let ratio = |of: fn(&Sample) -> f64| {
            Spread::of(places.iter().zip(others).map(|(ours, theirs)| of(ours) / of(theirs)))
        };
        report.row(Row {
            work: "a handover by NOTIFY, with its claim, 100 places on one connection".into(),
            beside: beside.into(),
            bound,
            unit: "x".into(),
            value: ratio(|sample| sample.wall_us),
            cpu: Some(ratio(|sample| sample.cpu_us)),
        });
    }
    for (who, samples) in [
        ("a place of NOTIFY", places),
        ("a client blocked in LOCK.ACQUIRE", blocked),
        ("BLMOVE of a token", tokens),
    ] {
        report.figure(Figure {
            work: "a handover, 100 waiters".into(),
            who: who.into(),
            unit: "µs".into(),
            value: Spread::of(samples.iter().map(|sample| sample.wall_us)),
            cpu_us: Some(Spread::of(samples.iter().map(|sample| sample.cpu_us))),
            remark: String::new(),
        });
    }
}

/// A holder keeps its lock until it hears that it is wanted: from the wish of another to its grant.
fn wishes(plan: &Plan, report: &mut Report) {
    let server = Server::start(Setup::MODULE);
    let (mut net, asks, hears) = connect(&server);
    let other = net.connect(server.port);
    let keep = words(&format!(
        "LOCK.ACQUIRE lock:kept OWNER {} PX {LEASE} BLOCK 0 NOTIFY {CHANNEL} WANTED ONCE",
        name(0)
    ));
    let (release, back) = (
        words(&format!("LOCK.RELEASE lock:kept {}", name(0))),
        words(&format!("LOCK.RELEASE lock:kept {}", name(1))),
    );
    let wish = words(&format!("LOCK.ACQUIRE lock:kept OWNER {} PX {LEASE} BLOCK 0", name(1)));
    let mut waited = Vec::new();
    for _ in 0..plan.pick(2_000, 500) {
        net.out.send(asks, &keep);
        net.replies(1, |_, reply| assert!(reply.starts_with(b"*4\r\n")));
        let begin = Instant::now();
        net.out.send(other, &wish);
        let (mut granted, mut released) = (None, false);
        while granted.is_none() || !released {
            net.turn(PATIENCE, |out, conn, _| {
                if conn == hears {
                    out.send(asks, &release);
                }
                released |= conn == asks;
                if conn == other {
                    granted = Some(begin.elapsed());
                }
            });
        }
        waited.extend(granted.map(|after| after.as_secs_f64() * 1e3));
        net.out.send(other, &back);
        net.replies(1, |_, _| ());
    }
    let waited = sorted(waited);
    report.row(Row {
        work: "from a wish to the grant, p99, where the holder keeps its lock until it is wanted".into(),
        beside: "a wish at a time".into(),
        bound: Some(Bound::AtMost(5.0)),
        unit: " ms".into(),
        value: Spread::one(percentile(&waited, 99.0)),
        cpu: None,
    });
    report.figure(Figure {
        work: "from a wish to the grant, where the holder keeps its lock until it is wanted".into(),
        who: "Redislock, NOTIFY".into(),
        unit: "ms".into(),
        value: Spread::of(waited.iter().copied()),
        cpu_us: None,
        remark: format!("p99 {:.2}, max {:.2} ms", percentile(&waited, 99.0), percentile(&waited, 100.0)),
    });
}
