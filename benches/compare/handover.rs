//! One lock, eight clients, each in the way of its kind: ask, wait, take it, give it back, ask again. How often it changes hands, and
//! how long it lies idle in between.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::net::{Conn, Net, Outbox, PATIENCE};
use crate::report::Report;
use crate::resp::words;
use crate::rivals::{self, BLMOVE, LEASE, PUB_SUB, REDISLOCK, Rival, SESSION};
use crate::rounds::{Plan, Rounds, Sample, percentiles, spread, times};
use crate::server::{Server, Setup};

const CLIENTS: usize = 8;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let length = plan.ms(200, 150);
    let waits = rivals::waits();
    let start = || {
        let servers = [Setup::PLAIN, Setup::MODULE].map(Server::shared);
        let contests = waits.iter().enumerate().map(|(place, wait)| {
            let (server, key) = (wait.server(servers.each_ref()), format!("contested:{place}"));
            (wait.name.clone(), Contest::new(wait.clone(), server, &key, CLIENTS))
        });
        contests.collect()
    };
    let work = "handovers, 8 clients on one lock";
    let (starts, turns) = (plan.pick(5, 2), plan.pick(10, 6));
    let rounds = Rounds::play(work, "per second", starts, 0..=turns, start, |contest| contest.run(length));

    let beside = [
        (BLMOVE, Some(0.9)),
        (PUB_SUB, Some(2.0)),
        ("SET NX PX every 10 ms", None),
        ("SET NX PX every 100 ms", None),
    ];
    for (beside, bound) in beside {
        let row = rounds.row("handovers/s, 8 clients on one lock", REDISLOCK, beside);
        report.rows.extend(row.map(|row| row.at_least(bound)));
    }
    let row = rounds.row("handovers/s with SESSION, 8 clients on one lock", SESSION, REDISLOCK);
    let row = row.map(|row| row.at_least(0.9).beside("Redislock without it"));
    report.rows.extend(row);
    report.figures.extend(rounds.figures(|samples| {
        let [half, most, max] = percentiles(&times(samples));
        let share = 100.0 * spread(samples, |sample| sample.shares[0]).median;
        format!("gap p50 {half:.0}, p99 {most:.0}, max {max:.0} µs; grants to another client {share:.0} %")
    }));
}

struct Contest {
    wait: Rival,
    server: Rc<Server>,
    net: Net,
    clients: Vec<Client>,
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
    Out,
    Asking,
    /// Was refused, or has had its turn, and waits for an announcement or its alarm.
    Refused,
    Returning,
}

impl Contest {
    fn new(wait: Rival, server: &Rc<Server>, key: &str, count: usize) -> Self {
        let wait = wait.on(server);
        let client = |number| Client {
            acquire: wait.acquire(key, number, LEASE),
            release: wait.release(key, number),
            state: State::Out,
            announced: false,
            own_to_come: false,
        };
        let clients = (0..count).map(client).collect();
        let mut net = Net::with(count, server.port);
        wait.make(server, key);
        if let Some(channel) = wait.channel(key) {
            let subscribe = words(&format!("SUBSCRIBE {channel}"));
            for _ in 0..count {
                let conn = net.connect(server.port);
                net.out.send(conn, &subscribe);
            }
            net.replies(count, |_, _| ());
        }
        Self { wait, server: Rc::clone(server), net, clients, alarms: BinaryHeap::new() }
    }

    /// Lets all contend for about that long, until each has had the lock once more and given it back: handovers per second, the
    /// share of grants that did not go to who had it before, and how long the lock lay idle before those, in µs.
    fn run(&mut self, length: Duration) -> Sample {
        let Self { wait, server, net, clients, alarms } = self;
        let cpu_before = server.cpu_ns();
        let begin = Instant::now();
        let mut score = Score { grants: 0, last: None, gaps_us: Vec::new() };
        for (conn, client) in clients.iter_mut().enumerate() {
            if let Some(interval) = wait.interval() {
                // Each at another time, as they come in life.
                let share = conn as f64 * 0.618;
                client.state = State::Refused;
                alarms.push(Reverse((begin + interval.mul_f64(share.fract()), conn)));
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
                    let sleeps = client.answered(wait, out, conn, reply, stopping, &mut score);
                    alarms.extend(sleeps.map(|sleep| Reverse((Instant::now() + sleep, conn))));
                }
            });
            stopping = stopping || begin.elapsed() >= length;
        }
        let wall = begin.elapsed();
        let cpu = server.cpu_ns() - cpu_before;
        let handovers = score.gaps_us.len() as f64;
        let shares = [handovers / f64::from(score.grants - 1), 0.0];
        Sample { shares, times: score.gaps_us, ..Sample::rate(handovers, wall, cpu) }
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
        wait: &Rival,
        out: &mut Outbox,
        conn: Conn,
        reply: &[u8],
        stopping: bool,
        score: &mut Score,
    ) -> Option<Duration> {
        let (interval, by_channel) = (wait.interval(), wait.channel.is_some());
        let in_the_server = interval.is_none() && !by_channel;
        match self.state {
            State::Asking if wait.granted(reply) => {
                self.state = State::Returning;
                self.own_to_come = by_channel;
                out.send(conn, &self.release);
                score.granted(conn);
            }
            State::Asking if by_channel && self.announced => self.ask(out, conn),
            State::Asking => {
                assert!(!in_the_server, "refused: {}", reply.escape_ascii());
                self.state = State::Refused;
                return interval;
            }
            State::Returning => {
                assert!(wait.released(reply), "not returned: {}", reply.escape_ascii());
                if stopping {
                    self.state = State::Out;
                } else if in_the_server {
                    self.ask(out, conn);
                } else {
                    // It has had its turn, and waits as the others do. Asking again at once, it would nearly always be
                    // quicker than they, and keep the lock for itself.
                    self.state = State::Refused;
                    return interval;
                }
            }
            State::Refused | State::Out => panic!("unexpected reply {}", reply.escape_ascii()),
        }
        None
    }
}
