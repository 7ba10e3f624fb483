//! A steady load: connections that take locks and give them back, each on keys of its own: one at a time, or several together.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::net::{Net, Outbox, PATIENCE};
use crate::report::Report;
use crate::rivals::{LEASE, Rival};
use crate::rounds::{Plan, Rounds, Sample, busy};
use crate::server::Server;

pub(crate) const CONNECTIONS: usize = 50;
/// How many locks a connection goes round on.
const KEYS: usize = 256;

/// Lets loads take turns of 0.2 s; in the report, figures, and a warning if the server was not at its limit.
pub(crate) fn measure(
    plan: &Plan,
    report: &mut Report,
    work: &str,
    starts: [usize; 2],
    start: impl Fn() -> Vec<(String, Load)>,
) -> Rounds {
    let [full, quick] = starts;
    let (starts, turns, length) = (plan.pick(full, quick), plan.pick(10, 5), plan.ms(200, 120));
    let rounds = Rounds::play(work, "pairs/s", starts, 0..=turns, start, |load| load.run(length));
    rounds.warn(report);
    report.figures.extend(rounds.figures(busy));
    rounds
}

/// A load on one server.
pub(crate) struct Load {
    server: Rc<Server>,
    net: Net,
    clients: Vec<Client>,
    /// How each reply to a pair begins, and how many of them are to its acquire.
    success: Vec<Vec<u8>>,
    acquire: usize,
    pipeline: usize,
    /// How long each acquire takes is measured, too.
    timed: bool,
    /// Clients that wait meanwhile: their places end with them.
    _others: Option<Net>,
}

/// A pair of requests, each of one command or of several.
pub(crate) type Pair = [Vec<u8>; 2];
/// How the replies to both begin.
pub(crate) type Success<'a> = [Vec<&'a [u8]>; 2];

struct Client {
    /// Requests made beforehand, to be sent in turn.
    batches: Vec<Vec<u8>>,
    next: usize,
    /// When the last one was sent, if it is measured.
    sent: Option<Instant>,
    /// How many replies to it are missing.
    due: usize,
    /// How many replies to the pair have come.
    came: usize,
}

impl Load {
    /// A rival's, each connection on `KEYS` locks of its own.
    pub(crate) fn new(rival: Rival, server: &Rc<Server>, pipeline: usize) -> Self {
        let rival = rival.on(server);
        let pairs = |conn| {
            let pair = |number| {
                let (key, client) = (format!("lock:{conn}:{number}"), conn * KEYS + number);
                [rival.acquire(&key, client, LEASE), rival.release(&key, client)]
            };
            (0..KEYS).map(pair).collect()
        };
        let success = rival.success().map(|reply| vec![reply]);
        Self::of(CONNECTIONS, success, server, pipeline, pairs)
    }

    /// Of so many connections, the pairs that each of them goes round on, and the replies to one. `pipeline` pairs are sent at once;
    /// with 1, each half waits for the replies to the one before.
    pub(crate) fn of(
        connections: usize,
        success: Success<'_>,
        server: &Rc<Server>,
        pipeline: usize,
        pairs: impl Fn(usize) -> Vec<Pair>,
    ) -> Self {
        let client = |conn| {
            let pairs = pairs(conn);
            let batches = if pipeline == 1 {
                pairs.into_iter().flatten().collect()
            } else {
                let pairs: Vec<Vec<u8>> = pairs.into_iter().map(|pair| pair.concat()).collect();
                pairs.chunks_exact(pipeline).map(<[_]>::concat).collect()
            };
            Client { batches, next: 0, sent: None, due: 0, came: 0 }
        };
        Self {
            net: Net::with(connections, server.port),
            clients: (0..connections).map(client).collect(),
            acquire: success[0].len(),
            success: success.concat().into_iter().map(<[u8]>::to_vec).collect(),
            pipeline,
            server: Rc::clone(server),
            timed: false,
            _others: None,
        }
    }

    /// The same, with the times that acquires take.
    pub(crate) fn timed(self) -> Self {
        Self { timed: true, ..self }
    }

    /// The same while others wait.
    pub(crate) fn beside(self, others: Net) -> Self {
        Self { _others: Some(others), ..self }
    }

    /// Loads the server for about that long, until all is answered: pairs per second, how busy server and generator are, and the
    /// times of acquires, in ms.
    pub(crate) fn run(&mut self, length: Duration) -> Sample {
        let Self { server, net, clients, success, acquire, pipeline, timed, .. } = self;
        let of_pair = success.len();
        // By whether the pair has begun.
        let at_once = if *pipeline == 1 { [*acquire, of_pair - *acquire] } else { [of_pair * *pipeline; 2] };
        let cpu_before = server.cpu_ns();
        let own_before = own_cpu();
        let begin = Instant::now();
        for (conn, client) in clients.iter_mut().enumerate() {
            client.send(&mut net.out, conn, at_once, *timed);
        }
        let (mut replies, mut times) = (0, Vec::new());
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
                client.came = if client.came + 1 == of_pair { 0 } else { client.came + 1 };
                client.due -= 1;
                replies += 1;
                if client.due == 0 {
                    if let Some(sent) = client.sent.filter(|_| client.came > 0) {
                        times.push(sent.elapsed().as_secs_f64() * 1e3);
                    }
                    // A pair once begun is finished, so that the next stretch begins with free locks.
                    if stopping && client.came == 0 {
                        working -= 1;
                    } else {
                        client.send(out, conn, at_once, *timed);
                    }
                }
            });
            stopping = stopping || begin.elapsed() >= length;
        }
        let wall = begin.elapsed();
        let own = own_cpu() - own_before;
        let cpu = server.cpu_ns() - cpu_before;
        let shares = [cpu / 1e9 / wall.as_secs_f64(), own / wall.as_secs_f64()];
        Sample { shares, times, ..Sample::rate(f64::from(replies) / of_pair as f64, wall, cpu) }
    }
}

/// The processor time that this thread has used, in seconds.
fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Client {
    fn send(&mut self, out: &mut Outbox, conn: usize, at_once: [usize; 2], timed: bool) {
        out.send(conn, &self.batches[self.next]);
        self.next = (self.next + 1) % self.batches.len();
        self.due = at_once[usize::from(self.came > 0)];
        self.sent = timed.then(Instant::now);
    }
}
