//! Clients at work, each in a thread: they take locks, hold them, give them back, and write down what they believe.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use redis::Value;

use super::{Belief, Grant, Ledger, Link, Outcome, Rng, convert, grant};

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
    /// A client for each route, on locks with these names, with leases of so many ms. `patience` is how long each client in
    /// turn waits for an answer.
    pub(crate) fn start<R: Route + 'static>(
        routes: Vec<R>,
        keys: &[String],
        lease: u64,
        patience: &[Duration],
    ) -> Self {
        let ledger = Arc::new(Ledger::default());
        let stop = Arc::new(AtomicBool::new(false));
        let mut rng = Rng::new();
        let threads = routes.into_iter().zip(patience.iter().cycle()).enumerate().map(
            |(number, (route, &patience))| {
                let worker = Worker {
                    number,
                    route,
                    keys: keys.to_vec(),
                    lease,
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
    keys: Vec<String>,
    lease: u64,
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
            let key = self.random.one_of(&self.keys).clone();
            let owner = format!("{}:{turn}", self.number);
            self.take(&key, &owner);
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
            let Some(link) = Link::open(port, self.patience) else { return Outcome::Gone };
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

    /// That lock, or several at once in its slot.
    fn locks(&mut self, key: &str) -> Locks {
        let mut names = vec![key.to_owned()];
        if self.random.percent(40) {
            names.extend([1, 2].map(|number| format!("{{{key}}}{number}")));
            names.swap_remove(self.random.below(3));
        }
        Locks(names)
    }

    /// One lock or several, from the question to the release.
    fn take(&mut self, key: &str, owner: &str) {
        let Some(port) = self.route.port(key) else {
            self.count("nobody to ask");
            return sleep(Duration::from_millis(20));
        };
        let locks = self.locks(key);
        let block = *self.random.one_of(&["", "", "BLOCK 1500", "BLOCK 0"]);
        let waits = !block.is_empty();
        let line = locks.line("ACQUIRE", &format!("OWNER {owner} PX {} {block}", self.lease));
        let asked = Instant::now();
        let (server, outcome) = self.send(key, port, &line);
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
        if locks.0.len() > 1 {
            self.count("granted several");
        }
        let until = self.hold(key, &locks, server, &found, found.ends(asked, waits));
        for key in locks.0 {
            let owner = owner.into();
            self.ledger.add(Belief { key, owner, fence: found.fence, server, asked, since, until });
        }
    }

    /// Holds them for a while; until when the owner believes in it.
    fn hold(&mut self, key: &str, locks: &Locks, server: u16, found: &Grant, mut until: Instant) -> Instant {
        let owner = &found.owner;
        match self.random.below(60) {
            // Forgets them: they lapse.
            0 => return until,
            1..4 => {
                sleep(Duration::from_millis(self.lease / 8));
                let asked = Instant::now();
                let line = locks.line("EXTEND", &format!("{owner} PX {}", self.lease));
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
        let line = locks.line("RELEASE", &format!("{owner} FENCE {}", found.fence));
        let (_, outcome) = self.send(key, server, &line);
        if let Outcome::Reply(_) = outcome {
            self.count("released");
        } else {
            self.refused(&outcome);
        }
        until.min(given_back)
    }

    fn refused(&mut self, outcome: &Outcome) {
        self.count(outcome.code().unwrap_or("gone"));
        sleep(self.random.up_to(30));
    }
}

/// What one takes, in one command.
struct Locks(Vec<String>);

impl Locks {
    /// A command about them: for one lock, or the one for several.
    fn line(&self, command: &str, rest: &str) -> String {
        match &self.0[..] {
            [key] => format!("LOCK.{command} {key} {rest}"),
            keys => format!("LOCK.M{command} {} {} {rest}", keys.len(), keys.join(" ")),
        }
    }

    /// The grant that is answered: an owner that asks once has the same of each.
    fn granted(&self, reply: Value) -> Option<Grant> {
        if self.0.len() == 1 {
            return grant(reply);
        }
        let (owner, fences, holds, lease): (_, Vec<i64>, Vec<i64>, _) = convert::<Option<_>>(reply)?;
        let count = self.0.len();
        assert_eq!((&fences, holds), (&vec![fences[0]; count], vec![1; count]));
        Some(Grant { owner, fence: fences[0], holds: 1, lease })
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
