//! Waiting without a connection (`NOTIFY`): the memory of a place in the queue, and the cost of a handover to such a place, compared with
//! blocked clients.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::net::{Conn, Net, Outbox, PATIENCE};
use crate::report::{Figure, Report, Row};
use crate::resp::{said, words};
use crate::rivals::{BLMOVE, LONG_LEASE, REDISLOCK};
use crate::rounds::{Plan, Rounds, Sample, progress};
use crate::server::{Server, Setup};
use crate::stats::Spread;
use crate::waiters::Circle;

const CHANNEL: &str = "grants:web-7";
/// How many owners wait while handovers are measured.
const WAITERS: usize = 100;
/// How many places and how many blocked clients there are while memory is measured.
const PLACES: usize = 10_000;
const BLOCKED: usize = 1_000;

/// The names of owners, which `granted` parses.
const NAME: &str = "owner-{number}";

fn place(key: &str, owner: &str, channel: &str) -> String {
    format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LONG_LEASE} BLOCK 0 NOTIFY {channel} ONCE")
}

/// The connection that asks for places, and the one that receives the messages about grants.
const ASKS: Conn = 0;
const HEARS: Conn = 1;

/// Opens the connection for all places, and the one that receives the messages.
fn connect(server: &Server) -> Net {
    let mut net = Net::with(2, server.port);
    net.out.send(HEARS, &words(&format!("SUBSCRIBE {CHANNEL}")));
    net.replies(1, |_, _| ());
    net
}

/// This many owners, by number, ask for places.
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

/// Measures the bytes for each waiter. A blocked client also needs a connection, whose memory is not included.
pub(crate) fn memory(report: &mut Report) {
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
        let places = || queue_up(&mut net, PLACES, &place(key, "{owner}", CHANNEL));
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
        // The connections are open before and after, so they do not count.
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

/// The server of some locks, and where one listens for their messages.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) server: Rc<Server>,
    /// The suffix of the locks' names: a hash tag.
    pub(crate) tag: String,
    /// The server on which one subscribes to the channel, and the command for it.
    pub(crate) hears: (Rc<Server>, &'static str),
    pub(crate) channel: String,
}

/// Owners that share one connection to each server. An owner that is told of its grant claims it, releases it, and queues up again.
pub(crate) struct Places {
    servers: Vec<Rc<Server>>,
    net: Net,
    /// The holder of each lock.
    holders: Vec<usize>,
    owners: Vec<Owner>,
}

struct Owner {
    lock: usize,
    asks: Conn,
    /// The commands with which the owner claims its grant, and with which it releases the lock and queues up again.
    claim: Vec<u8>,
    turn: Vec<u8>,
}

/// The request to which the next reply belongs.
enum Expected {
    Claim(usize),
    Other,
}

impl Places {
    /// This many locks on each server, and this many owners that want each lock.
    pub(crate) fn new(homes: &[Home], locks: usize, waiters: usize) -> Self {
        let mut places = Self {
            servers: homes.iter().map(|home| Rc::clone(&home.server)).collect(),
            net: Net::new(),
            holders: Vec::new(),
            owners: Vec::new(),
        };
        let Self { net, holders, owners, .. } = &mut places;
        for Home { server, tag, hears: (heard_at, subscribe), channel } in homes {
            let asks = net.connect(server.port);
            let hears = net.connect(heard_at.port);
            net.out.send(hears, &words(&format!("{subscribe} {channel}")));
            net.replies(1, |_, _| ());
            for lock in holders.len()..holders.len() + locks {
                let (key, holder) = (format!("lock:{lock}{tag}"), owners.len());
                holders.push(holder);
                for number in holder..holder + waiters {
                    let claim = said(&place(&key, NAME, channel), number);
                    let release = said(&format!("LOCK.RELEASE {key} {NAME}"), number);
                    net.out.send(asks, &claim);
                    owners.push(Owner { lock, asks, turn: [release, claim.clone()].concat(), claim });
                }
                net.replies(waiters, |_, _| ());
            }
        }
        places
    }

    /// Makes this many handovers, at least one of each lock. Returns how long one takes, from a release to the next owner's claim, in µs.
    pub(crate) fn run(&mut self, handovers: usize) -> Sample {
        let Self { servers, net, holders, owners } = self;
        let mut expected: Vec<VecDeque<Expected>> = Vec::new();
        let give_back = |out: &mut Outbox, expected: &mut Vec<VecDeque<Expected>>, owner: &Owner| {
            expected.resize_with(expected.len().max(owner.asks + 1), VecDeque::new);
            // Two replies: one to the release, and one to the request for the next turn.
            expected[owner.asks].extend([Expected::Other, Expected::Other]);
            out.send(owner.asks, &owner.turn);
        };
        let cpu_ns = || servers.iter().map(|server| server.cpu_ns()).sum::<f64>();
        let (cpu, begin) = (cpu_ns(), Instant::now());
        holders.iter().for_each(|holder| give_back(&mut net.out, &mut expected, &owners[*holder]));
        let (mut begun, mut going_round) = (holders.len(), holders.len());
        while going_round > 0 || expected.iter().any(|replies| !replies.is_empty()) {
            net.turn(PATIENCE, |out, conn, reply| {
                if let Some(owner) = granted(reply) {
                    expected[owners[owner].asks].push_back(Expected::Claim(owner));
                    out.send(owners[owner].asks, &owners[owner].claim);
                } else if let Some(Expected::Claim(owner)) = expected[conn].pop_front() {
                    assert!(reply.starts_with(b"*4\r\n"), "not claimed: {}", reply.escape_ascii());
                    holders[owners[owner].lock] = owner;
                    if begun < handovers {
                        begun += 1;
                        give_back(out, &mut expected, &owners[owner]);
                    } else {
                        going_round -= 1;
                    }
                }
            });
        }
        let wall = begin.elapsed();
        Sample::each(begun, wall, cpu_ns() - cpu)
    }
}

/// Returns the owner that the message tells of its grant.
fn granted(message: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(message.strip_suffix(b"\r\n")?).ok()?;
    text.lines().next_back().filter(|line| line.starts_with("granted "))?.rsplit('-').next()?.parse().ok()
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    type Run = Box<dyn FnMut(usize) -> Sample>;
    let (turns, handovers) = (plan.pick(30, 10), plan.pick(2_000, 1_000));
    let start = || {
        let [module, plain] = [Setup::MODULE, Setup::PLAIN].map(Server::shared);
        let home = Home {
            server: Rc::clone(&module),
            tag: String::new(),
            hears: (Rc::clone(&module), "SUBSCRIBE"),
            channel: CHANNEL.into(),
        };
        let mut places = Places::new(&[home], 1, WAITERS);
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
