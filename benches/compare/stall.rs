//! What falls due at once, as `stalls.toml` has it: the longest `PING` of another client meanwhile.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use crate::net::Net;
use crate::ping::Ping;
use crate::report::{Figure, Report, Row};
use crate::resp::{said, words};
use crate::rounds::{Plan, Sample, progress, spread};
use crate::server::{Server, Setup};

/// After how many requests they go out.
const BATCH: usize = 500;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    name: String,
    plain: bool,
    count: usize,
    fill: String,
    more: Option<String>,
    waiters: usize,
    wait: String,
    command: Option<String>,
    closes: bool,
    expire: bool,
    holds: Option<(String, u32)>,
    rest: u64,
    watched: Option<u64>,
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let work = "longest PING of another client";
    let events: BTreeMap<String, Vec<Event>> =
        toml::from_str(include_str!("stalls.toml")).expect("a table of events");
    for event in &events["events"] {
        let seen: Vec<Sample> = (0..plan.pick(3, 1)).map(|_| event.stall()).collect();
        let (longest, quiet) = (spread(&seen, |seen| seen.value), spread(&seen, |seen| seen.shares[0]).max);
        progress(&format!("  stall, {}: {:.1} ms", event.name, longest.median));
        if !event.plain {
            report.rows.push(Row::new(work, &event.name, " ms", longest).at_most(10.0));
        }
        let figure = Figure::new(work, &event.name, "ms", longest).cpu(spread(&seen, |seen| seen.cpu_us));
        report.figures.push(figure.remark(format!("before it at most {quiet:.1} ms")));
    }
}

impl Event {
    /// The longest `PING` from then on and, as its first share, before, in ms; and the server's processor time for each of the many,
    /// without that for `PING`.
    fn stall(&self) -> Sample {
        let server = Server::start(if self.plain { Setup::PLAIN } else { Setup::MODULE });
        let mut net = Net::with(1 + self.waiters, server.port);
        if !self.plain {
            // One connection has more places and sessions here than it may by default.
            server.ask("CONFIG SET lock.max-places 0");
        }
        self.prepare(&mut net, &server);
        let mut ping = Ping::new(server.port);
        let idle = server.cpu_ns();
        let (quiet, before) = (ping.longest_for(Duration::from_millis(500)), server.cpu_ns());
        let (quiet, cpu_quiet) = (quiet.longest, (before - idle) / f64::from(quiet.count));
        let begin = Instant::now();
        if self.closes {
            net.close(0);
        }
        let requests = self.command.iter().map(|line| net.out.send(0, &words(line))).count();
        net.out.flush();
        // What is to come by itself comes within that time.
        let pings = ping.until_quick(begin, Duration::from_secs(self.watched.unwrap_or(4)));
        let cpu = server.cpu_ns() - before - cpu_quiet * f64::from(pings.count);
        // All of it has happened.
        net.replies(self.waiters + requests, |_, _| ());
        if let Some((field, value)) = &self.holds {
            assert_eq!(server.info("lock", field), f64::from(*value), "{}: {field}", self.name);
        }
        let many = self.count.max(self.waiters) as f64;
        let cpu_us = cpu.max(0.0) / 1e3 / many;
        Sample { value: pings.longest, cpu_us, shares: [quiet, 0.0], ..Sample::default() }
    }

    /// Brings the server to where the event comes next.
    fn prepare(&self, net: &mut Net, server: &Server) {
        for line in [&self.fill].into_iter().chain(&self.more) {
            net.fill(1, self.count, line, b"");
        }
        thread::sleep(Duration::from_secs(self.rest));
        let due = now() + Duration::from_secs(10);
        for number in 0..self.waiters {
            let timeout = due.saturating_sub(now()).as_millis().max(1).to_string();
            net.out.send(1 + number, &said(&self.wait.replace("{timeout}", &timeout), number));
            if number % BATCH == 0 {
                net.out.flush();
                // Waits are to end together: each is told how long it is to last.
                while server.blocked_clients() < number {}
            }
        }
        net.wait_until(|| server.blocked_clients() >= self.waiters);
        if self.expire {
            let due = (now() + Duration::from_secs(2)).as_millis();
            net.fill(1, self.count, &format!("PEXPIREAT lock:{{number}} {due}"), b":1\r\n");
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970")
}
