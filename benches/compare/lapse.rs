//! From the end of a lease that nobody gave back to the next holder's having its grant, on a server with many other
//! keys that will expire.

use std::time::{Duration, Instant, SystemTime};

use crate::contest::Wait;
use crate::net::{Conn, Net};
use crate::pictures::{self, Curve};
use crate::plan::{Plan, progress};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::{integer, owner, request, words};
use crate::rivals::{LEASE, Rival, Scripts};
use crate::server::{Server, Setup};
use crate::stats::{Spread, percentile, sorted};

/// Keys that will expire, but not while this runs.
const OTHERS: usize = 200_000;
const WAITS: [Wait; 4] = [Wait::Redislock, Wait::PubSub, Wait::Poll(10), Wait::Poll(100)];
const HOLDER: Conn = 0;
const WAITER: Conn = 1;

/// Two clients, the second of which wants what the first forgot to give back.
struct Pair {
    net: Net,
    wait: Wait,
    scripts: Scripts,
}

impl Pair {
    fn new(wait: Wait, server: &mut Server) -> Self {
        Self { net: Net::with(2, server.port), wait, scripts: Scripts::load(server) }
    }

    /// The reply to a request.
    fn ask(&mut self, conn: Conn, request: &[u8]) -> Vec<u8> {
        self.net.out.send(conn, request);
        let mut answer = Vec::new();
        self.net.replies(1, |_, reply| answer = reply.to_vec());
        answer
    }

    /// How long in ms the waiter had to wait beyond the end of the lease, which lasts so many ms.
    fn lapse(&mut self, number: usize, lease: u64) -> f64 {
        let key = format!("lapse:{number}");
        let (first, second) = (owner(2 * number), owner(2 * number + 1));
        let millis = lease.to_string();
        let (first, second) = match self.wait {
            Wait::Redislock => (
                words(&format!("LOCK.ACQUIRE {key} OWNER {first} PX {millis}")),
                words(&format!("LOCK.ACQUIRE {key} OWNER {second} PX {LEASE} BLOCK 0")),
            ),
            wait => {
                let rival = if wait == Wait::PubSub { Rival::HashLua } else { Rival::SetLua };
                (
                    self.scripts.acquire(rival, &key, &first, &millis),
                    self.scripts.acquire(rival, &key, &second, LEASE),
                )
            }
        };
        let reply = self.ask(HOLDER, &first);
        assert!(self.wait.granted(&reply), "refused: {}", reply.escape_ascii());
        let end = self.ask(HOLDER, &request(&["PEXPIRETIME", &key]));
        let Some(end) = integer(&end) else {
            // On a machine that does something else the lease was over before the question came: once more.
            return self.lapse(number, lease);
        };
        let end = Duration::from_millis(end as u64);
        let mut asked = Instant::now();
        let mut reply = self.ask(WAITER, &second);
        while !self.wait.granted(&reply) {
            let pause = match self.wait {
                Wait::Poll(ms) => Duration::from_millis(ms).saturating_sub(asked.elapsed()),
                // It is told how long the lease still lasts, and nobody will announce its end.
                _ => Duration::from_millis(integer(&reply).expect("a lease") as u64),
            };
            std::thread::sleep(pause);
            asked = Instant::now();
            reply = self.ask(WAITER, &second);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
        let late = now.as_secs_f64() - end.as_secs_f64();
        self.ask(WAITER, &request(&["DEL", &key]));
        late * 1e3
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let mut curves = Vec::new();
    let (mut plain, mut module) = (Server::start(Setup::PLAIN), Server::start(Setup::MODULE));
    for server in [&mut plain, &mut module] {
        let mut net = Net::with(1, server.port);
        for number in 0..OTHERS {
            net.out.send(0, &words(&format!("SET other:{number} x EX 3600")));
        }
        net.replies(OTHERS, |_, _| ());
    }
    let mut pairs = WAITS.map(|wait| {
        let server = if wait.needs_module() { &mut module } else { &mut plain };
        Pair::new(wait, server)
    });
    let mut lapses = WAITS.map(|_| Vec::new());
    let count = plan.pick(1_000, 200);
    for number in 0..count {
        for (pair, lapses) in pairs.iter_mut().zip(&mut lapses) {
            // Leases of different lengths, so that their ends do not fall in step with those who poll.
            let span = if let Wait::Poll(ms) = pair.wait { ms } else { 13 };
            // The others are there to compare with, and take long.
            if pair.wait == Wait::Redislock || number % 5 == 0 {
                lapses.push(pair.lapse(number, 15 + (number as u64 * 37) % span));
            }
        }
        if (number + 1) % (count / 4) == 0 {
            progress(&format!("  lapses: {}/{count}", number + 1));
        }
    }
    for (wait, lapses) in WAITS.into_iter().zip(lapses) {
        let values = sorted(lapses);
        let p99 = percentile(&values, 99.0);
        if wait == Wait::Redislock {
            report.row(Row {
                work: "lapse to next holder, p99".into(),
                beside: "200,000 other volatile keys".into(),
                bound: Some(Bound::AtMost(5.0)),
                unit: " ms".into(),
                value: Spread::one(p99),
                cpu: None,
            });
        }
        report.figure(Figure {
            work: "lapse to next holder".into(),
            who: wait.name(),
            unit: "ms".into(),
            value: Spread::of(values.iter().copied()),
            cpu_us: None,
            remark: format!("p99 {p99:.2} ms, {} lapses", values.len()),
        });
        curves.push(Curve { name: wait.name(), colour: wait.colour(), values });
    }
    pictures::distributions(
        plan,
        "lapse",
        "From the end of a lease to the next holder's grant, with 200,000 other volatile keys",
        "ms",
        &curves,
    );
}
