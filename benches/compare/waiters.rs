//! What a handover costs with 100, 1,000 and 10,000 clients waiting for the lock.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::net::{Conn, Net, Outbox, PATIENCE};
use crate::report::{Figure, Report, Row};
use crate::rivals::{self, BLMOVE, LONG_LEASE, REDISLOCK, Rival};
use crate::rounds::{Plan, Rounds, Sample, ratio, spread};
use crate::server::Server;

const COUNTS: [usize; 3] = [100, 1_000, 10_000];

/// How long a turn may take. (Valkey 9 needs 0.4 s for a `BLMOVE` that 10,000 wait for.)
const LONGEST: Duration = Duration::from_secs(1);

/// A queue that goes round: the holder releases the lock and waits again, behind all others.
pub(crate) struct Circle {
    wait: Rival,
    server: Rc<Server>,
    net: Net,
    clients: Vec<Client>,
    holder: Conn,
}

struct Client {
    /// The requests that release the lock and ask for it again.
    give_back: Vec<u8>,
    /// Whether the next reply is to the release.
    giving_back: bool,
}

impl Circle {
    /// All clients wait in the server in this way, except the first, which has the lock.
    pub(crate) fn new(wait: &str, server: &Rc<Server>, count: usize) -> Self {
        let (wait, key) = (rivals::wait(wait).on(server), format!("lock:{count}"));
        wait.make(server, &key);
        let blocked_before = server.blocked_clients();
        let mut net = Net::with(count, server.port);
        let client = |conn| {
            let ask = wait.acquire(&key, conn, LONG_LEASE);
            net.out.send(conn, &ask);
            Client { give_back: [wait.release(&key, conn), ask].concat(), giving_back: false }
        };
        let clients = (0..count).map(client).collect();
        let mut holder = 0;
        net.replies(1, |conn, _| holder = conn);
        net.wait_until(|| server.blocked_clients() >= blocked_before + count - 1);
        Self { wait, server: Rc::clone(server), net, clients, holder }
    }

    /// Makes this many handovers, or as many as fit into `longest`. Returns how long one takes, in µs.
    pub(crate) fn run(&mut self, handovers: usize, longest: Duration) -> Sample {
        let Self { wait, server, net, clients, holder } = self;
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
                assert!(wait.granted(reply), "unexpected reply {}", reply.escape_ascii());
                count += 1;
                *holder = conn;
                enough = count == handovers || begin.elapsed() > longest;
                if !enough {
                    client.give_back(out, conn);
                }
            });
        }
        let wall = begin.elapsed();
        Sample::each(count, wall, server.cpu_ns() - cpu_before)
    }
}

impl Client {
    fn give_back(&mut self, out: &mut Outbox, conn: Conn) {
        self.giving_back = true;
        out.send(conn, &self.give_back);
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for (who, bound) in [(REDISLOCK, Some(1.2)), (BLMOVE, None)] {
        let start = || {
            let server = Server::shared(rivals::wait(who).setup());
            COUNTS.map(|count| (count.to_string(), Circle::new(who, &server, count))).into()
        };
        let (turns, handovers) = (plan.pick(30, 10), plan.pick(2_000, 1_000));
        let what = format!("waiters, {who}");
        let rounds = Rounds::play(&what, "µs", 1, 0..=turns, start, |circle| circle.run(handovers, LONGEST));
        let samples = COUNTS.map(|count| rounds.of(&count.to_string()).unwrap_or_default());
        let [few, _, many] = samples;
        let work = format!("a handover of {who} with 10,000 waiters");
        let row = Row::ratio(work, "with 100", ratio(many, few, |sample| sample.value));
        report.rows.push(row.at_most(bound).cpu(ratio(many, few, |sample| sample.cpu_us)));
        for (count, samples) in COUNTS.iter().zip(samples) {
            let (wall, cpu) =
                (spread(samples, |sample| sample.value), spread(samples, |sample| sample.cpu_us));
            report
                .figures
                .push(Figure::new(format!("a handover with {count} waiters"), who, "µs", wall).cpu(cpu));
        }
    }
}
