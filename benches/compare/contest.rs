//! Clients that contend for one lock, each in the way of its kind: ask, wait, take it, give it back, ask again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::net::{Conn, Net, Outbox, PATIENCE};
use crate::resp::{self, words};
use crate::rivals::{LEASE, Rival, Scripts, channel};
use crate::server::Server;

/// A way to wait for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// `LOCK.ACQUIRE ... BLOCK 0`.
    Redislock,
    /// The same with `SESSION`.
    Session,
    /// A token that `BLMOVE` takes from a list and `LMOVE` puts back: no owner, no lease.
    Blmove,
    /// The hash in Lua, and a subscription that tells of each unlock.
    PubSub,
    /// `SET NX PX` once in that many ms, returned by compare-and-delete in Lua.
    Poll(u64),
}

impl Wait {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Redislock => "Redislock".into(),
            Self::Session => "Redislock, SESSION".into(),
            Self::Blmove => "BLMOVE of a token".into(),
            Self::PubSub => "hash in Lua, PUBLISH/SUBSCRIBE".into(),
            Self::Poll(ms) => format!("SET NX PX every {ms} ms"),
        }
    }

    pub(crate) fn needs_module(self) -> bool {
        matches!(self, Self::Redislock | Self::Session)
    }

    fn option(self) -> &'static str {
        if self == Self::Session { " SESSION" } else { "" }
    }

    /// Its colour in pictures.
    pub(crate) fn colour(self) -> usize {
        match self {
            Self::Redislock => 0,
            Self::Blmove => 1,
            Self::PubSub => 2,
            Self::Poll(..50) => 3,
            Self::Poll(_) => 4,
            Self::Session => 5,
        }
    }
}

/// The contenders for one lock.
pub(crate) struct Contest {
    pub(crate) wait: Wait,
    net: Net,
    clients: Vec<Client>,
    /// Who asks again when.
    alarms: BinaryHeap<Reverse<(Instant, Conn)>>,
}

struct Client {
    acquire: Vec<u8>,
    release: Vec<u8>,
    state: State,
    /// An unlock was announced while the client was asking.
    announced: bool,
    /// The announcement of its own unlock is still to come: that one is for the others.
    own_to_come: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not in the contest.
    Out,
    /// Waits for the reply to its acquire.
    Asking,
    /// Was refused, or has had its turn, and waits for an announcement or its alarm.
    Refused,
    /// Waits for the reply to its release.
    Returning,
}

/// What a stretch of contest came to.
pub(crate) struct Sample {
    /// How often the lock went from one client to another, per second.
    pub(crate) handovers: f64,
    /// The share of the grants that did not go to who had it before.
    pub(crate) to_others: f64,
    /// The server's processor time for one handover.
    pub(crate) cpu_ns: f64,
    /// From a release, as it is sent, to the next holder's having its grant, where that is another client; in µs.
    pub(crate) gaps_us: Vec<f64>,
}

impl Contest {
    pub(crate) fn new(wait: Wait, server: &mut Server, key: &str, count: usize) -> Self {
        let scripts = Scripts::load(server);
        let client = |number| {
            let owner = resp::owner(number);
            let (acquire, release) = match wait {
                Wait::Redislock | Wait::Session => (
                    words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE} BLOCK 0{}", wait.option())),
                    scripts.release(Rival::Redislock, key, &owner),
                ),
                Wait::Blmove => (
                    words(&format!("BLMOVE {key} {key}:{number} LEFT RIGHT 0")),
                    words(&format!("LMOVE {key}:{number} {key} LEFT RIGHT")),
                ),
                Wait::PubSub => (
                    scripts.acquire(Rival::HashLua, key, &owner, LEASE),
                    scripts.release(Rival::HashLua, key, &owner),
                ),
                Wait::Poll(_) => (
                    scripts.acquire(Rival::SetLua, key, &owner, LEASE),
                    scripts.release(Rival::SetLua, key, &owner),
                ),
            };
            Client { acquire, release, state: State::Out, announced: false, own_to_come: false }
        };
        let clients = (0..count).map(client).collect();
        let mut net = Net::with(count, server.port);
        if wait == Wait::Blmove {
            server.ask(&format!("RPUSH {key} token"));
        }
        if wait == Wait::PubSub {
            let subscribe = resp::request(&["SUBSCRIBE", &channel(key)]);
            for _ in 0..count {
                let conn = net.connect(server.port);
                net.out.send(conn, &subscribe);
            }
            net.replies(count, |_, _| ());
        }
        Self { wait, net, clients, alarms: BinaryHeap::new() }
    }

    /// Lets all contend for about that long, until each has had the lock once more and given it back.
    pub(crate) fn run(&mut self, server: &mut Server, length: Duration) -> Sample {
        let Self { wait, net, clients, alarms } = self;
        let cpu_before = server.cpu_ns();
        let begin = Instant::now();
        let mut score = Score { grants: 0, last: None, gaps_us: Vec::new() };
        for (conn, client) in clients.iter_mut().enumerate() {
            if let Wait::Poll(ms) = wait {
                // Each at another time, as they come in life.
                let share = conn as f64 * 0.618;
                client.state = State::Refused;
                alarms.push(Reverse((begin + Duration::from_millis(*ms).mul_f64(share.fract()), conn)));
            } else {
                client.ask(&mut net.out, conn);
            }
        }
        let mut stopping = false;
        loop {
            let now = Instant::now();
            while alarms.peek().is_some_and(|Reverse((at, _))| *at <= now || stopping) {
                let Some(Reverse((_, conn))) = alarms.pop() else { break };
                if stopping {
                    clients[conn].state = State::Out;
                } else {
                    clients[conn].ask(&mut net.out, conn);
                }
            }
            if clients.iter().all(|client| client.state == State::Out) {
                break;
            }
            let alarm = alarms.peek().map(|Reverse((at, _))| at.saturating_duration_since(now));
            net.turn(alarm.unwrap_or(PATIENCE), |out, conn, reply| {
                let count = clients.len();
                let client = &mut clients[conn % count];
                if conn >= count {
                    client.told(out, conn - count);
                } else {
                    let sleeps = client.answered(*wait, out, conn, reply, stopping, &mut score);
                    alarms.extend(sleeps.map(|sleep| Reverse((Instant::now() + sleep, conn))));
                }
            });
            stopping = stopping || begin.elapsed() >= length;
        }
        let wall = begin.elapsed().as_secs_f64();
        let cpu = server.cpu_ns() - cpu_before;
        let handovers = score.gaps_us.len() as f64;
        Sample {
            handovers: handovers / wall,
            to_others: handovers / f64::from(score.grants - 1),
            cpu_ns: cpu / handovers,
            gaps_us: score.gaps_us,
        }
    }
}

/// Who had the lock last, and what has been counted.
struct Score {
    grants: u32,
    last: Option<(Conn, Instant)>,
    gaps_us: Vec<f64>,
}

impl Score {
    fn granted(&mut self, conn: Conn) {
        self.grants += 1;
        let now = Instant::now();
        if let Some((last, released)) = self.last
            && last != conn
        {
            self.gaps_us.push((now - released).as_secs_f64() * 1e6);
        }
        self.last = Some((conn, now));
    }
}

impl Client {
    fn ask(&mut self, out: &mut Outbox, conn: Conn) {
        self.announced = false;
        self.state = State::Asking;
        out.send(conn, &self.acquire);
    }

    /// An unlock was announced.
    fn told(&mut self, out: &mut Outbox, conn: Conn) {
        match self.state {
            _ if std::mem::take(&mut self.own_to_come) => (),
            State::Refused => self.ask(out, conn),
            State::Asking => self.announced = true,
            State::Returning | State::Out => (),
        }
    }

    /// A command was answered; how long the client sleeps before it asks again.
    fn answered(
        &mut self,
        wait: Wait,
        out: &mut Outbox,
        conn: Conn,
        reply: &[u8],
        stopping: bool,
        score: &mut Score,
    ) -> Option<Duration> {
        let interval = match wait {
            Wait::Poll(ms) => Some(Duration::from_millis(ms)),
            _ => None,
        };
        match self.state {
            State::Asking if wait.granted(reply) => {
                self.state = State::Returning;
                self.own_to_come = wait == Wait::PubSub;
                out.send(conn, &self.release);
                score.granted(conn);
            }
            State::Asking if wait == Wait::PubSub && self.announced => self.ask(out, conn),
            State::Asking => {
                assert!(matches!(wait, Wait::PubSub | Wait::Poll(_)), "refused: {}", reply.escape_ascii());
                self.state = State::Refused;
                return interval;
            }
            State::Returning => {
                assert!(wait.returned(reply), "not returned: {}", reply.escape_ascii());
                match wait {
                    _ if stopping => self.state = State::Out,
                    Wait::Redislock | Wait::Session | Wait::Blmove => self.ask(out, conn),
                    // It has had its turn, and waits as the others do. Asking again at once, it would nearly always be
                    // quicker than they, and keep the lock for itself.
                    Wait::PubSub | Wait::Poll(_) => {
                        self.state = State::Refused;
                        return interval;
                    }
                }
            }
            State::Refused | State::Out => panic!("unexpected reply {}", reply.escape_ascii()),
        }
        None
    }
}

impl Wait {
    pub(crate) fn granted(self, reply: &[u8]) -> bool {
        match self {
            Self::Redislock | Self::Session => reply.starts_with(b"*4\r\n"),
            Self::Blmove => reply.starts_with(b"$5\r\n"),
            Self::PubSub => reply.starts_with(b"$-1\r\n"),
            Self::Poll(_) => reply.starts_with(b"+OK\r\n"),
        }
    }

    fn returned(self, reply: &[u8]) -> bool {
        match self {
            Self::Redislock | Self::Session => reply.starts_with(b":0\r\n"),
            Self::Blmove => reply.starts_with(b"$5\r\n"),
            Self::PubSub | Self::Poll(_) => reply.starts_with(b":1\r\n"),
        }
    }
}
