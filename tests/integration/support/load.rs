//! Clients at work, each in a thread: they take locks, hold them, give them back, and write down what they believe.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use redis::Value;

use super::work::Locks;
use super::{Belief, Grant, Ledger, Link, Outcome, Rng, Work, convert};

/// How clients find the server that a lock lives on.
pub(crate) trait Route: Send {
    /// The port to ask at, as far as is known.
    fn port(&mut self, key: &str) -> Option<u16>;

    /// What came of asking there: it may tell where to ask next time.
    fn learn(&mut self, key: &str, port: u16, outcome: &Outcome);
}

/// What the clients met with, by the error's first word or by a name in small letters.
pub(crate) type Tally = BTreeMap<String, u64>;

/// The clients, until `stop`.
pub(crate) struct Load {
    pub(crate) ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Tally>>,
}

impl Load {
    /// A client for each route. `patience` is how long each client in turn waits for an answer.
    pub(crate) fn start<R: Route + 'static>(routes: Vec<R>, work: &Work, patience: &[Duration]) -> Self {
        let ledger = Arc::new(Ledger::default());
        let stop = Arc::new(AtomicBool::new(false));
        let mut rng = Rng::new();
        let threads = routes.into_iter().zip(patience.iter().cycle()).enumerate().map(
            |(number, (route, &patience))| {
                let worker = Worker {
                    number,
                    route,
                    work: work.clone(),
                    patience,
                    links: HashMap::new(),
                    random: rng.fork(),
                    tally: Tally::new(),
                    ledger: Arc::clone(&ledger),
                };
                let stop = Arc::clone(&stop);
                thread::spawn(move || worker.work(&stop))
            },
        );
        let threads = threads.collect();
        Self { ledger, stop, threads }
    }

    /// Ends the work; what all clients together met with.
    pub(crate) fn stop(mut self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Tally::new();
        for thread in self.threads.drain(..) {
            for (what, count) in thread.join().unwrap() {
                *all.entry(what).or_default() += count;
            }
        }
        all
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Worker<R> {
    number: usize,
    route: R,
    work: Work,
    patience: Duration,
    links: HashMap<u16, Link>,
    random: Rng,
    tally: Tally,
    ledger: Arc<Ledger>,
}

impl<R: Route> Worker<R> {
    fn work(mut self, stop: &AtomicBool) -> Tally {
        let mut turn = 0;
        while !stop.load(Ordering::Relaxed) {
            turn += 1;
            let (key, locks) = self.work.next(&mut self.random);
            let owner = format!("{}:{turn}", self.number);
            self.take(&key, locks, &owner);
            sleep(self.random.up_to(4));
        }
        self.tally
    }

    fn count(&mut self, what: &str) {
        *self.tally.entry(what.into()).or_default() += 1;
    }

    /// Sends a command to that server; follows an `ASK`, as a cluster's clients do.
    fn send(&mut self, key: &str, port: u16, line: &str) -> (u16, Outcome) {
        let mut at = port;
        let mut outcome = self.send_to(at, &[line]);
        if let Some(to) = outcome.redirected("ASK") {
            self.count("ASK");
            at = to;
            outcome = self.send_to(at, &["ASKING", line]);
        }
        self.route.learn(key, at, &outcome);
        (at, outcome)
    }

    fn send_to(&mut self, port: u16, lines: &[&str]) -> Outcome {
        if !self.links.contains_key(&port) {
            let Some(link) = Link::open(port, self.patience) else { return Outcome::Unreachable };
            self.links.insert(port, link);
        }
        let Some(link) = self.links.get_mut(&port) else { return Outcome::Gone };
        let mut outcome = Outcome::Gone;
        for line in lines {
            outcome = link.send(line);
        }
        if outcome == Outcome::Gone {
            self.links.remove(&port);
        }
        outcome
    }

    /// One lock or several, from the question to the release.
    fn take(&mut self, key: &str, locks: Locks, owner: &str) {
        let Some(port) = self.route.port(key) else {
            self.count("nobody to ask");
            return sleep(Duration::from_millis(20));
        };
        let block = *self.random.one_of(&["", "", "BLOCK 1500", "BLOCK 0"]);
        let waits = !block.is_empty();
        let (options, sync) = (locks.options(), self.work.option());
        let rest = format!("OWNER {owner} PX {} {block} {options} {sync}", self.work.lease());
        let line = locks.line("ACQUIRE", &rest);
        let mut asked = Instant::now();
        let (mut server, mut outcome) = self.send(key, port, &line);
        if outcome.code() == Some("NOREPLICAS") && self.random.percent(30) {
            // It may be that the next primary has what this one took back.
            self.refused(&outcome);
            asked = Instant::now();
            let port = self.route.port(key).unwrap_or(port);
            (server, outcome) = self.send(key, port, &format!("{line} ONCE"));
        }
        let since = Instant::now();
        let found = match outcome {
            Outcome::Reply(reply) => locks.granted(reply),
            other => return self.refused(&other),
        };
        let Some(found) = found else {
            self.count("null");
            return sleep(self.random.up_to(25));
        };
        self.count(if waits { "granted, would wait" } else { "granted" });
        if locks.names.len() > 1 {
            self.count("granted several");
        }
        let until = if locks.session {
            self.hold_by_session(key, server, &found, since)
        } else {
            self.hold(key, &locks, server, &found, found.ends(asked, waits))
        };
        let (fence, room) = (found.fence, locks.room);
        for key in locks.names {
            let owner = owner.into();
            self.ledger.add(Belief { key, owner, fence, room, server, asked, since, until });
        }
    }

    /// Holds them for a while; until when the owner believes in it.
    fn hold(&mut self, key: &str, locks: &Locks, server: u16, found: &Grant, mut until: Instant) -> Instant {
        let owner = &found.owner;
        match self.random.below(60) {
            // Forgets them: they lapse.
            0 => return until,
            1..4 => {
                sleep(Duration::from_millis(self.work.lease() / 8));
                let asked = Instant::now();
                let line =
                    locks.line("EXTEND", &format!("{owner} PX {} {}", self.work.lease(), self.work.option()));
                let (_, outcome) = self.send(key, server, &line);
                match outcome {
                    Outcome::Reply(Value::Int(lease)) => {
                        self.count("extended");
                        until = asked + Duration::from_millis(lease.unsigned_abs());
                    }
                    other => self.refused(&other),
                }
            }
            _ => {}
        }
        sleep(self.random.up_to(20));
        let given_back = Instant::now();
        self.give_back(key, server, &locks.line("RELEASE", &format!("{owner} FENCE {}", found.fence)));
        until.min(given_back)
    }

    /// Holds a lock by a session, for longer than its lease as a rule; until when the owner believes in it. It counts itself a
    /// holder until its server says that the lock is lost, so it asks on. No answer says anything of the time after the
    /// question, so it is a holder as far as the last question that was answered so.
    fn hold_by_session(&mut self, key: &str, server: u16, found: &Grant, since: Instant) -> Instant {
        self.count("granted by session");
        let ends = since + self.random.up_to(3 * self.work.lease() as usize);
        let mut until = since;
        while Instant::now() < ends {
            let asked = Instant::now();
            let (_, outcome) = self.send(key, server, &format!("LOCK.INFO {key}"));
            let Outcome::Reply(reply) = outcome else {
                self.refused(&outcome);
                return until;
            };
            let info = convert::<Option<HashMap<String, String>>>(reply);
            if info.and_then(|info| info.get("fence").cloned()) != Some(found.fence.to_string()) {
                self.count("session lost");
                return until;
            }
            until = asked;
            sleep(self.random.up_to(10));
        }
        self.give_back(key, server, &format!("LOCK.RELEASE {key} {} FENCE {}", found.owner, found.fence));
        until
    }

    fn give_back(&mut self, key: &str, server: u16, line: &str) {
        let (_, outcome) = self.send(key, server, line);
        if let Outcome::Reply(_) = outcome {
            self.count("released");
        } else {
            self.refused(&outcome);
        }
    }

    fn refused(&mut self, outcome: &Outcome) {
        self.count(match outcome {
            Outcome::Refused(_) => outcome.code().unwrap_or_default(),
            Outcome::Unreachable => "no connection",
            _ => "gone",
        });
        sleep(self.random.up_to(30));
    }
}

impl Rng {
    /// A time of less than so many ms.
    pub(crate) fn up_to(&mut self, ms: usize) -> Duration {
        Duration::from_millis(self.below(ms) as u64)
    }
}

impl Outcome {
    /// The port that a cluster's node sends the client to, by an error with that code.
    pub(crate) fn redirected(&self, code: &str) -> Option<u16> {
        let Self::Refused(text) = self else { return None };
        let mut words = text.split(' ');
        (words.next() == Some(code)).then(|| words.nth(1)?.rsplit(':').next()?.parse().ok())?
    }
}
