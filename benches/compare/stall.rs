//! Events that cause much work at once, as `stalls.toml` lists them, by themselves or as attacks: the longest `PING` of another client
//! meanwhile.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use crate::line::Line;
use crate::net::Net;
use crate::ping::Ping;
use crate::report::{Report, Row, table};
use crate::resp::{said, words};
use crate::rounds::{Plan, progress, spread};
use crate::server::{Server, Setup};
use crate::stats::Spread;

/// How many requests are sent at once.
const BATCH: usize = 500;
/// How many locks a command names: the most that are allowed by default, and the most that can be allowed.
const LOCKS: [usize; 2] = [100, 1000];
/// Here, one connection has more places, holders and locks than the defaults allow.
const SETTINGS: [&str; 4] =
    ["lock.max-places 0", "lock.max-holders 0", "lock.max-keys 1000", "lock.claim 60000"];

#[derive(Deserialize)]
struct Tables {
    events: Vec<Event>,
    attacks: Vec<Event>,
    attacks_on_several: Vec<Event>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    name: String,
    plain: bool,
    before: Vec<(usize, String)>,
    waiters: usize,
    wait: String,
    commands: Vec<String>,
    closes: bool,
    expire: bool,
    holds: Option<(String, u32)>,
    rest: u64,
    watched: Option<u64>,
}

/// Returns the tables, filled in for this many locks where a command names several.
fn tables(locks: usize) -> Tables {
    let others: Vec<_> = (1..locks).map(|lock| format!("lock:{lock}")).collect();
    let text = include_str!("stalls.toml").replace("{locks}", &locks.to_string());
    toml::from_str(&text.replace("{others}", &others.join(" "))).expect("tables of events")
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let work = "longest PING of another client";
    for event in tables(1).events {
        let [longest, _] = event.watch(plan, 1);
        let row = Row::new(work, &event.name, " ms", longest);
        report.rows.push(row.at_most((!event.plain).then_some(10.0)));
    }
}

/// Measures what one malicious client can do to all others.
pub(crate) fn run_hostile(plan: &Plan, report: &mut Report) {
    let on_one = tables(1).attacks.into_iter().map(|attack| (1, attack));
    let on_several = LOCKS
        .into_iter()
        .flat_map(|locks| tables(locks).attacks_on_several.into_iter().map(move |attack| (locks, attack)));
    let rows = on_one.chain(on_several).map(|(locks, attack)| {
        let [longest, quiet] = attack.watch(plan, locks);
        let more = Spread::one((longest.median - quiet.median).max(0.0));
        [attack.name].into_iter().chain([longest, quiet, more].map(|ms| ms.to_string())).collect()
    });
    report.more = table(&["attack", "longest PING", "without it", "more"], rows);
}

impl Event {
    /// Returns the longest `PING` after the event and before it, for each repetition, which has its own server.
    fn watch(&self, plan: &Plan, locks: usize) -> [Spread; 2] {
        let seen: Vec<[f64; 2]> = (0..plan.pick(3, 1)).map(|_| self.stall(locks)).collect();
        let longest = [0, 1].map(|when| spread(&seen, |seen| seen[when]));
        progress(&format!(
            "  {}: {:.1} ms, {:.1} ms before",
            self.name, longest[0].median, longest[1].median
        ));
        longest
    }

    /// Returns the longest `PING` after the event and before it, in ms.
    fn stall(&self, locks: usize) -> [f64; 2] {
        let server = Server::start(if self.plain { Setup::PLAIN } else { Setup::MODULE });
        let mut net = Net::with(1 + self.waiters, server.port);
        if !self.plain {
            SETTINGS.iter().for_each(|setting| _ = server.ask(&format!("CONFIG SET {setting}")));
        }
        // Places get messages about their grants. Nobody needs to read these quickly.
        let mut hears = Line::new(server.port);
        hears.say("SUBSCRIBE told").expect("a subscription");
        self.prepare(&mut net, &server, locks);
        let mut ping = Ping::new(server.port);
        let quiet = ping.longest_for(Duration::from_millis(500));
        let begin = Instant::now();
        if self.closes {
            net.close(0);
        }
        self.commands.iter().for_each(|line| net.out.send(0, &words(line)));
        net.out.flush();
        // Events that happen by themselves happen within this time.
        let longest = ping.until_quick(begin, Duration::from_secs(self.watched.unwrap_or(4)));
        // All replies have arrived, so the event is over.
        net.replies(self.waiters + self.commands.len(), |_, _| ());
        if let Some((field, value)) = &self.holds {
            assert_eq!(server.info("lock", field), f64::from(*value), "{}: {field}", self.name);
        }
        [longest, quiet]
    }

    /// Returns the number of locks or places.
    fn count(&self) -> usize {
        self.before.iter().map(|(times, _)| *times).max().unwrap_or_default()
    }

    /// Does everything that comes before the event.
    fn prepare(&self, net: &mut Net, server: &Server, locks: usize) {
        for (times, line) in &self.before {
            let each = if line.contains("{lock}") { locks } else { 1 };
            let line = |number: usize| line.replace("{lock}", &(number % locks).to_string());
            net.send_all(1, (0..times * each).map(|number| said(&line(number), number)), b"");
        }
        thread::sleep(Duration::from_secs(self.rest));
        let due = now() + Duration::from_secs(10);
        for number in 0..self.waiters {
            let timeout = due.saturating_sub(now()).as_millis().max(1).to_string();
            net.out.send(1 + number, &said(&self.wait.replace("{timeout}", &timeout), number));
            if number % BATCH == 0 {
                net.out.flush();
                // All waits are to end at the same time, so each gets a timeout of its own.
                while server.blocked_clients() < number {}
            }
        }
        net.wait_until(|| server.blocked_clients() >= self.waiters);
        if self.expire {
            let due = (now() + Duration::from_secs(2)).as_millis();
            net.fill(1, self.count(), &format!("PEXPIREAT lock:{{number}} {due}"), b":1\r\n");
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970")
}
