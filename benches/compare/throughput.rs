//! Acquire and release, with 16 pairs in flight on each connection and with one command at a time: each connection sends a steady load, on
//! locks of its own.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::net::{Net, Outbox, PATIENCE};
use crate::report::Report;
use crate::rivals::{self, LEASE, REDISLOCK, Rival};
use crate::rounds::{Plan, Rounds, Sample, busy};
use crate::server::{Server, Setup};

const CONNECTIONS: usize = 50;
/// How many locks each connection uses in turn.
const KEYS: usize = 256;

/// Compares Redislock, which comes first, with the others, on two servers: without the module, and with it.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let rivals = rivals::known_pairs(report);
    let (starts, turns, length) = (plan.pick(6, 3), plan.pick(10, 5), plan.ms(200, 120));
    for pipeline in [16, 1] {
        let work = format!("acquire + release, P={pipeline}");
        let start = || {
            let servers = [Setup::PLAIN, Setup::MODULE].map(Server::shared);
            let load = |rival: &Rival| Load::new(rival.clone(), rival.server(servers.each_ref()), pipeline);
            rivals.iter().map(|rival| (rival.name.clone(), load(rival))).collect()
        };
        let rounds = Rounds::play(&work, "pairs/s", starts, 0..=turns, start, |load| load.run(length));
        rounds.warn(report);
        report.figures.extend(rounds.figures(busy));
        for beside in &rivals[1..] {
            let target = beside.targets.get(&work).copied();
            report.rows.extend(rounds.row(&work, REDISLOCK, &beside.name).map(|row| row.at_least(target)));
        }
    }
}

/// A load on one server.
struct Load {
    server: Rc<Server>,
    net: Net,
    clients: Vec<Client>,
    /// How the replies to acquire and release begin.
    success: [Vec<u8>; 2],
    /// How many commands are sent together.
    at_once: usize,
}

struct Client {
    /// Requests made beforehand, which are sent in turn.
    batches: Vec<Vec<u8>>,
    next: usize,
    /// How many replies to the last batch are missing.
    due: usize,
    /// How many replies to the current pair have arrived.
    came: usize,
}

impl Load {
    /// A rival's load: each connection has `KEYS` locks of its own, and this many pairs in flight; 1 means a single command at a time.
    fn new(rival: Rival, server: &Rc<Server>, pipeline: usize) -> Self {
        let rival = rival.on(server);
        let client = |conn| {
            let pair = |number| {
                let (key, client) = (format!("lock:{conn}:{number}"), conn * KEYS + number);
                [rival.acquire(&key, client, LEASE), rival.release(&key, client)]
            };
            let commands: Vec<Vec<u8>> = (0..KEYS).flat_map(pair).collect();
            let at_once = if pipeline == 1 { 1 } else { 2 * pipeline };
            let batches = commands.chunks_exact(at_once).map(<[_]>::concat).collect();
            Client { batches, next: 0, due: 0, came: 0 }
        };
        Self {
            net: Net::with(CONNECTIONS, server.port),
            clients: (0..CONNECTIONS).map(client).collect(),
            success: rival.success().map(<[u8]>::to_vec),
            at_once: if pipeline == 1 { 1 } else { 2 * pipeline },
            server: Rc::clone(server),
        }
    }

    /// Loads the server for about this long, until all is answered. Returns pairs per second, and how busy server and generator were.
    fn run(&mut self, length: Duration) -> Sample {
        let Self { server, net, clients, success, at_once } = self;
        let cpu_before = server.cpu_ns();
        let own_before = own_cpu();
        let begin = Instant::now();
        for (conn, client) in clients.iter_mut().enumerate() {
            client.send(&mut net.out, conn, *at_once);
        }
        let mut replies = 0;
        let mut stopping = false;
        let mut working = clients.len();
        while working > 0 {
            net.turn(PATIENCE, |out, conn, reply| {
                let client = &mut clients[conn];
                assert!(
                    reply.starts_with(&success[client.came]),
                    "unexpected reply {}",
                    reply.escape_ascii()
                );
                client.came = 1 - client.came;
                client.due -= 1;
                replies += 1;
                if client.due == 0 {
                    // A pair that has begun is finished, so that the next turn begins with free locks.
                    if stopping && client.came == 0 {
                        working -= 1;
                    } else {
                        client.send(out, conn, *at_once);
                    }
                }
            });
            stopping = stopping || begin.elapsed() >= length;
        }
        let wall = begin.elapsed();
        let own = own_cpu() - own_before;
        let cpu = server.cpu_ns() - cpu_before;
        let shares = [cpu / 1e9 / wall.as_secs_f64(), own / wall.as_secs_f64()];
        Sample { shares, ..Sample::rate(f64::from(replies) / 2.0, wall, cpu) }
    }
}

/// The processor time that this thread has used, in seconds.
fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Client {
    fn send(&mut self, out: &mut Outbox, conn: usize, at_once: usize) {
        out.send(conn, &self.batches[self.next]);
        self.next = (self.next + 1) % self.batches.len();
        self.due = at_once;
    }
}
