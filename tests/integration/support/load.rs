//! Clients, each in a thread, that acquire, hold and release locks, and record what they believe.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use redis::Value;

use super::work::Locks;
use super::{Belief, Grant, Ledger, Link, Outcome, Rng, Work, convert};

/// How clients find a lock's server.
pub(crate) trait Route: Send {
    /// Returns the port of the server, as far as is known.
    fn port(&mut self, key: &str) -> Option<u16>;

    /// Handles an outcome, which may tell where to ask next time.
    fn learn(&mut self, key: &str, port: u16, outcome: &Outcome);
}

/// How often each kind of outcome occurred, by the error's first word, or by a name in lower case.
pub(crate) type Tally = BTreeMap<String, u64>;

/// The running clients, until `stop`.
pub(crate) struct Load {
    pub(crate) ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Tally>>,
}

impl Load {
    /// Starts a client for each route. `patience` gives the clients, in turn, their timeouts for a reply.
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

    /// Ends the work. Returns the outcomes of all clients together.
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

    /// Sends a command to this server. Follows an `ASK`, as clients of a cluster do.
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

    /// Acquires one lock or several, holds them and releases them.
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
            // The next primary may have the grant that this one took back, so the client asks again.
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

    /// Holds the locks for a while. Returns until when the owner relies on them.
    fn hold(&mut self, key: &str, locks: &Locks, server: u16, found: &Grant, mut until: Instant) -> Instant {
        let owner = &found.owner;
        match self.random.below(60) {
            // The client does not release the locks: they lapse.
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

    /// Holds a lock with a session, usually for longer than its lease. Returns until when the owner relies on it. It counts as a holder
    /// until its server says that the lock is lost, so it keeps asking. An answer only proves the time up to its request, so the last
    /// request with a positive answer counts.
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
    /// Returns a random time of less than this many ms.
    pub(crate) fn up_to(&mut self, ms: usize) -> Duration {
        Duration::from_millis(self.below(ms) as u64)
    }
}

impl Outcome {
    /// Returns the port to which a cluster's node redirects the client, by an error with this code.
    pub(crate) fn redirected(&self, code: &str) -> Option<u16> {
        let Self::Refused(text) = self else { return None };
        let mut words = text.split(' ');
        (words.next() == Some(code)).then(|| words.nth(1)?.rsplit(':').next()?.parse().ok())?
    }
}
