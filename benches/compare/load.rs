//! A steady load: 50 connections that take locks and give them back, each on keys of its own: one at a time, or several together.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::net::{Net, Outbox, PATIENCE};
use crate::resp;
use crate::rivals::{LEASE, Rival, Scripts};
use crate::server::Server;

pub(crate) const CONNECTIONS: usize = 50;
/// How many locks a connection goes round on.
const KEYS: usize = 256;

/// A load on one server.
pub(crate) struct Load {
    name: String,
    net: Net,
    clients: Vec<Client>,
    halves: Halves,
    /// How many replies there are to what is sent at once.
    replies: usize,
}

/// The replies to a pair: to its acquire, and to its release.
#[derive(Clone)]
pub(crate) struct Halves {
    /// How each of them begins.
    pub(crate) success: [Vec<u8>; 2],
    /// How many each half has: one, or where it is several commands as many.
    pub(crate) each: usize,
}

impl Halves {
    pub(crate) fn one(success: [&[u8]; 2]) -> Self {
        Self { success: success.map(<[u8]>::to_vec), each: 1 }
    }
}

struct Client {
    /// Requests made beforehand, to be sent in turn.
    batches: Vec<Vec<u8>>,
    next: usize,
    /// How many replies of the last batch are missing.
    due: usize,
    /// How many replies to the pair have come.
    came: usize,
}

/// What a stretch of load came to.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Acquire and release, per second.
    pub(crate) per_second: f64,
    /// The server's processor time for one acquire and release.
    pub(crate) cpu_ns: f64,
    /// The shares of the time in which the server was at work, and this program.
    pub(crate) busy: f64,
    pub(crate) generator_busy: f64,
}

impl Load {
    /// A rival's, each connection on `KEYS` locks of its own.
    pub(crate) fn new(rival: Rival, server: &mut Server, pipeline: usize) -> Self {
        let scripts = Scripts::load(server);
        let pairs = |conn| {
            let pair = |number| {
                let key = format!("lock:{conn}:{number}");
                let owner = resp::owner(conn * KEYS + number);
                [scripts.acquire(rival, &key, &owner, LEASE), scripts.release(rival, &key, &owner)]
            };
            (0..KEYS).map(pair).collect()
        };
        Self::of(rival.name(), Halves::one(rival.success()), server, pipeline, pairs)
    }

    /// Of the pairs of requests that each connection goes round on, and the replies to those. `pipeline` pairs are sent at
    /// once; with 1, each half waits for the replies to the one before.
    pub(crate) fn of(
        name: &str,
        halves: Halves,
        server: &Server,
        pipeline: usize,
        pairs: impl Fn(usize) -> Vec<[Vec<u8>; 2]>,
    ) -> Self {
        let client = |conn| {
            let pairs = pairs(conn);
            let batches = if pipeline == 1 {
                pairs.into_iter().flatten().collect()
            } else {
                let pairs: Vec<Vec<u8>> = pairs.into_iter().map(|pair| pair.concat()).collect();
                pairs.chunks_exact(pipeline).map(<[_]>::concat).collect()
            };
            Client { batches, next: 0, due: 0, came: 0 }
        };
        Self {
            name: name.into(),
            net: Net::with(CONNECTIONS, server.port),
            clients: (0..CONNECTIONS).map(client).collect(),
            replies: halves.each * if pipeline == 1 { 1 } else { 2 * pipeline },
            halves,
        }
    }

    /// Loads the server for about that long, until all is answered.
    pub(crate) fn run(&mut self, server: &mut Server, length: Duration) -> Sample {
        let Self { name, net, clients, halves: Halves { success, each }, replies: at_once } = self;
        let (each, at_once) = (*each, *at_once);
        let cpu_before = server.cpu_ns();
        let own_before = own_cpu();
        let begin = Instant::now();
        for (conn, client) in clients.iter_mut().enumerate() {
            client.send(&mut net.out, conn, at_once);
        }
        let mut replies = 0;
        let mut stopping = false;
        let mut working = clients.len();
        while working > 0 {
            net.turn(PATIENCE, |out, conn, reply| {
                let client = &mut clients[conn];
                assert!(
                    reply.starts_with(&success[client.came / each]),
                    "{name}: unexpected reply {}",
                    reply.escape_ascii()
                );
                client.came = (client.came + 1) % (2 * each);
                client.due -= 1;
                replies += 1;
                if client.due == 0 {
                    // A pair once begun is finished, so that the next stretch begins with free locks.
                    if stopping && client.came == 0 {
                        working -= 1;
                    } else {
                        client.send(out, conn, at_once);
                    }
                }
            });
            stopping = stopping || begin.elapsed() >= length;
        }
        let wall = begin.elapsed().as_secs_f64();
        let own = own_cpu() - own_before;
        let cpu = server.cpu_ns() - cpu_before;
        let pairs = f64::from(replies) / (2 * each) as f64;
        Sample {
            per_second: pairs / wall,
            cpu_ns: cpu / pairs,
            busy: cpu / 1e9 / wall,
            generator_busy: own / wall,
        }
    }
}

/// The processor time that this thread has used, in seconds.
fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Client {
    fn send(&mut self, out: &mut Outbox, conn: usize, replies: usize) {
        out.send(conn, &self.batches[self.next]);
        self.next = (self.next + 1) % self.batches.len();
        self.due = replies;
    }
}
