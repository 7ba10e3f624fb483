//! Waiting without a connection (`NOTIFY`): what a place takes in memory, what a handover to one costs, beside clients that
//! are blocked, and how soon a holder that keeps its lock gives it up for another.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::line::{Line, Outcome};
use crate::net::{Conn, Net, PATIENCE};
use crate::report::{Figure, Report, Row};
use crate::resp::{said, words};
use crate::rivals::{BLMOVE, LONG_LEASE, REDISLOCK};
use crate::rounds::{Plan, Rounds, Sample, percentiles, progress};
use crate::server::{Server, Setup};
use crate::stats::{Spread, sorted};
use crate::waiters::Circle;

const CHANNEL: &str = "grants:web-7";
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

/// Owners that `granted` knows again.
const NAME: &str = "owner-{number}";

fn place(key: &str, owner: &str) -> String {
    format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LONG_LEASE} BLOCK 0 NOTIFY {CHANNEL} ONCE")
}

/// The connection that asks for places, and the one that hears of them.
const ASKS: Conn = 0;
const HEARS: Conn = 1;

/// One connection with many places, and another that hears of them.
fn connect(server: &Server) -> Net {
    let mut net = Net::with(2, server.port);
    net.out.send(HEARS, &words(&format!("SUBSCRIBE {CHANNEL}")));
    net.replies(1, |_, _| ());
    net
}

/// So many ask for places, by number.
fn queue_up(net: &mut Net, count: usize, line: &str) {
    let asks: Vec<_> = (0..count).map(|number| said(line, number)).collect();
    for some in asks.chunks(500) {
        some.iter().for_each(|ask| net.out.send(ASKS, ask));
        let mut missing = some.len();
        while missing > 0 {
            net.turn(PATIENCE, |_, from, reply| {
                missing -= usize::from(from == ASKS && reply == b"+QUEUED\r\n")
            });
        }
    }
}

/// Bytes for each waiter, beside those of its connection where it needs none of its own.
fn memory(report: &mut Report) {
    let mut figure = |who: &str, bytes: f64, remark| {
        progress(&format!("  memory, {who}: {bytes} bytes"));
        let figure = Figure::new("memory of a waiter", who, "bytes", Spread::one(bytes));
        report.figures.push(figure.remark(remark));
    };
    for (locks, key, who) in [
        (1, "lock", "a place of NOTIFY, all on one lock"),
        (PLACES, "lock:{number}", "a place of NOTIFY, each on a lock of its own"),
    ] {
        let server = Server::start(Setup::MODULE);
        let mut net = connect(&server);
        net.fill(1, locks, &format!("LOCK.ACQUIRE {key} PX {LONG_LEASE}"), b"*4\r\n");
        let places = || queue_up(&mut net, PLACES, &place(key, "{owner}"));
        let bytes = server.bytes_of_each(PLACES, places).round();
        let row = Row::ratio(format!("memory of {who}"), "1,000 bytes", Spread::one(bytes / 1000.0));
        report.rows.push(row.at_most(1.0));
        figure(who, bytes, format!("{PLACES} places of one connection"));
    }
    for (who, setup, before, wait) in [
        (CLIENT, Setup::MODULE, "LOCK.ACQUIRE lock PX 3600000", "LOCK.ACQUIRE lock BLOCK 0"),
        ("a client blocked in BLMOVE", Setup::PLAIN, "PING", "BLMOVE list other LEFT RIGHT 0"),
    ] {
        let server = Server::start(setup);
        server.ask(before);
        // The connections are there before, and after.
        let mut net = Net::with(BLOCKED, server.port);
        net.fill(BLOCKED, BLOCKED, "PING", b"+PONG\r\n");
        let bytes = server.bytes_of_each(BLOCKED, || {
            net.block(0, BLOCKED, wait);
            net.wait_until(|| server.blocked_clients() >= BLOCKED);
        });
        figure(who, bytes.round(), format!("{BLOCKED} clients, beside their connections"));
    }
}

const PLACE: &str = "a place of NOTIFY";
const CLIENT: &str = "a client blocked in LOCK.ACQUIRE";

/// Owners on one connection. Each that is told claims its grant, gives it back, and queues up again.
struct Places {
    server: Rc<Server>,
    net: Net,
    holder: usize,
    /// What each owner sends to claim its grant, and to give it back and queue up again.
    claims: Vec<Vec<u8>>,
    turns: Vec<Vec<u8>>,
}

/// What the next reply is to.
enum Expected {
    Claim(usize),
    Other,
}

const KEY: &str = "lock:places";

impl Places {
    fn new(server: &Rc<Server>) -> Self {
        let mut net = connect(server);
        net.fill(1, 1, &place(KEY, NAME), b"*4\r\n");
        queue_up(&mut net, WAITERS - 1, &place(KEY, "owner-{next}"));
        let each = |line: &str| -> Vec<Vec<u8>> { (0..WAITERS).map(|owner| said(line, owner)).collect() };
        let (claims, releases) = (each(&place(KEY, NAME)), each(&format!("LOCK.RELEASE {KEY} {NAME}")));
        let turns = releases.iter().zip(&claims).map(|(release, claim)| [&release[..], claim].concat());
        Self { server: Rc::clone(server), net, holder: 0, turns: turns.collect(), claims }
    }

    /// That many handovers, from a release to the next one's claim: how long one takes, in µs.
    fn run(&mut self, handovers: usize) -> Sample {
        let Self { server, net, holder, claims, turns } = self;
        // The release, and the ask for the next time.
        let mut expected = VecDeque::from([Expected::Other, Expected::Other]);
        let (cpu, begin) = (server.cpu_ns(), Instant::now());
        net.out.send(ASKS, &turns[*holder]);
        let mut count = 0;
        while count < handovers || !expected.is_empty() {
            net.turn(PATIENCE, |out, conn, reply| {
                if conn == HEARS {
                    if let Some(owner) = granted(reply) {
                        expected.push_back(Expected::Claim(owner));
                        out.send(ASKS, &claims[owner]);
                    }
                } else if let Some(Expected::Claim(owner)) = expected.pop_front() {
                    assert!(reply.starts_with(b"*4\r\n"), "not claimed: {}", reply.escape_ascii());
                    count += 1;
                    *holder = owner;
                    if count < handovers {
                        expected.extend([Expected::Other, Expected::Other]);
                        out.send(ASKS, &turns[owner]);
                    }
                }
            });
        }
        let wall = begin.elapsed();
        Sample::each(count, wall, server.cpu_ns() - cpu)
    }
}

/// Whom a message tells that it has the lock.
fn granted(message: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(message.strip_suffix(b"\r\n")?).ok()?;
    text.lines().next_back().filter(|line| line.starts_with("granted "))?.rsplit('-').next()?.parse().ok()
}

fn handovers(plan: &Plan, report: &mut Report) {
    type Run = Box<dyn FnMut(usize) -> Sample>;
    let (turns, handovers) = (plan.pick(30, 10), plan.pick(2_000, 1_000));
    let start = || {
        let [module, plain] = [Setup::MODULE, Setup::PLAIN].map(Server::shared);
        let mut places = Places::new(&module);
        let [mut blocked, mut tokens] =
            [(REDISLOCK, module), (BLMOVE, plain)].map(|(who, server)| Circle::new(who, &server, WAITERS));
        vec![
            (PLACE.into(), Box::new(move |count| places.run(count)) as Run),
            (CLIENT.into(), Box::new(move |count| blocked.run(count, Duration::MAX))),
            (BLMOVE.into(), Box::new(move |count| tokens.run(count, Duration::MAX))),
        ]
    };
    let rounds = Rounds::play("a handover, 100 waiters", "µs", 1, 0..=turns, start, |run| run(handovers));
    for (beside, bound) in [(CLIENT, Some(1.5)), (BLMOVE, None)] {
        let work = "a handover by NOTIFY, with its claim, 100 places on one connection";
        report.rows.extend(rounds.row(work, PLACE, beside).map(|row| row.at_most(bound)));
    }
    report.figures.extend(rounds.figures(|_| String::new()));
}

/// A holder keeps its lock until it hears that it is wanted: from the wish of another to its grant.
fn wishes(plan: &Plan, report: &mut Report) {
    let server = Server::start(Setup::MODULE);
    let [mut holder, mut hears, mut other] = [0; 3].map(|_| Line::new(server.port));
    let wish = format!("LOCK.ACQUIRE lock:kept OWNER {NAME} PX {LONG_LEASE} BLOCK 0");
    let keep = said(&format!("{wish} NOTIFY {CHANNEL} WANTED ONCE"), 0);
    let wish = said(&wish, 1);
    let [release, back] = [0, 1].map(|owner| said(&format!("LOCK.RELEASE lock:kept {NAME}"), owner));
    hears.say(&format!("SUBSCRIBE {CHANNEL}")).expect("a subscription");
    let mut waited = Vec::new();
    let mut turn = || -> Outcome<_> {
        holder.ask(&keep)?;
        let begin = Instant::now();
        other.send(&wish)?;
        hears.reply()?;
        holder.send(&release)?;
        other.reply()?;
        waited.push(begin.elapsed().as_secs_f64() * 1e3);
        holder.reply()?;
        other.ask(&back)
    };
    (0..plan.pick(2_000, 500)).try_for_each(|_| turn().map(|_| ())).expect("grants");
    let waited = sorted(waited);
    let [_, p99, max] = percentiles(&waited);
    let work = "from a wish to the grant, p99, where the holder keeps its lock until it is wanted";
    report.rows.push(Row::new(work, "a wish at a time", " ms", Spread::one(p99)).at_most(5.0));
    let (work, spread) = (work.replace(", p99", ""), Spread::of(waited));
    let figure = Figure::new(work, "Redislock, NOTIFY", "ms", spread);
    report.figures.push(figure.remark(format!("p99 {p99:.2}, max {max:.2} ms")));
}
