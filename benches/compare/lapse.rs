//! From the end of a lease that nobody gave back to the next holder's having its grant, on a server with many other
//! keys that will expire.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::line::Line;
use crate::net::Net;
use crate::pictures::{self, Curve};
use crate::report::{Figure, Report, Row};
use crate::resp::integer;
use crate::rivals::{self, LEASE, PUB_SUB, REDISLOCK, Rival};
use crate::rounds::{Plan, percentiles, progress};
use crate::server::{Server, Setup};
use crate::stats::{Spread, sorted};

/// Keys that will expire, but not while this runs.
const OTHERS: usize = 200_000;
const WAITS: [&str; 4] = [REDISLOCK, PUB_SUB, "SET NX PX every 10 ms", "SET NX PX every 100 ms"];

/// Two clients, the second of which wants what the first forgot to give back.
struct Pair {
    holder: Line,
    waiter: Line,
    wait: Rival,
    lapses: Vec<f64>,
}

impl Pair {
    fn new(wait: &str, servers: [&Server; 2]) -> Self {
        let wait = rivals::wait(wait);
        let server = wait.server(servers);
        let (holder, waiter) = (Line::new(server.port), Line::new(server.port));
        Self { holder, waiter, wait: wait.on(server), lapses: Vec::new() }
    }

    /// How long in ms the waiter had to wait beyond the end of the lease, which lasts so many ms; none: on a machine that does
    /// something else the lease was over before the question for its end came.
    fn lapse(&mut self, number: usize, lease: u64) -> Result<Option<f64>, String> {
        let Self { holder, waiter, wait, .. } = self;
        let key = format!("lapse:{number}");
        let first = wait.acquire(&key, 2 * number, &lease.to_string());
        let second = wait.acquire(&key, 2 * number + 1, LEASE);
        let reply = holder.ask(&first)?;
        assert!(wait.granted(&reply), "refused: {}", reply.escape_ascii());
        let end = holder.say(&format!("PEXPIRETIME {key}"))?;
        let Some(end) = integer(&end) else { return Ok(None) };
        let mut asked = Instant::now();
        let mut reply = waiter.ask(&second)?;
        while !wait.granted(&reply) {
            let pause = match wait.interval() {
                Some(interval) => interval.saturating_sub(asked.elapsed()),
                // It is told how long the lease still lasts, and nobody will announce its end.
                None => Duration::from_millis(integer(&reply).expect("a lease") as u64),
            };
            thread::sleep(pause);
            asked = Instant::now();
            reply = waiter.ask(&second)?;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
        waiter.say(&format!("DEL {key}"))?;
        Ok(Some((now.as_secs_f64() - end as f64 / 1e3) * 1e3))
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let servers = [Setup::PLAIN, Setup::MODULE].map(Server::start);
    for server in &servers {
        Net::with(1, server.port).fill(1, OTHERS, "SET other:{number} x EX 3600", b"+OK\r\n");
    }
    let mut pairs = WAITS.map(|wait| Pair::new(wait, servers.each_ref()));
    let count = plan.pick(1_000, 200);
    for number in 0..count {
        for pair in &mut pairs {
            // Leases of different lengths, so that their ends do not fall in step with those who poll.
            let lease = 15
                + (number as u64 * 37)
                    % pair.wait.interval().map_or(13, |interval| interval.as_millis() as u64);
            // The others are there to compare with, and take long.
            if pair.wait.name == REDISLOCK || number % 5 == 0 {
                let lapse = (0..100).find_map(|_| pair.lapse(number, lease).expect("an answer"));
                pair.lapses.push(lapse.expect("a lease that lasts until its end is asked for"));
            }
        }
        if (number + 1) % (count / 4) == 0 {
            progress(&format!("  lapses: {}/{count}", number + 1));
        }
    }
    let mut curves = Vec::new();
    for Pair { wait, lapses, .. } in pairs {
        let values = sorted(lapses);
        let [_, p99, _] = percentiles(&values);
        if wait.name == REDISLOCK {
            let row =
                Row::new("lapse to next holder, p99", "200,000 other volatile keys", " ms", Spread::one(p99));
            report.rows.push(row.at_most(5.0));
        }
        let spread = Spread::of(values.iter().copied());
        let figure = Figure::new("lapse to next holder", &wait.name, "ms", spread);
        report.figures.push(figure.remark(format!("p99 {p99:.2} ms, {} lapses", values.len())));
        curves.push(Curve { colour: wait.colour, name: wait.name, values });
    }
    pictures::distributions(
        plan,
        "lapse",
        "From the end of a lease to the next holder's grant, with 200,000 other volatile keys",
        "ms",
        &curves,
    );
}
