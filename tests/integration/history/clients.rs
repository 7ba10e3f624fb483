//! Connections of clients that record all requests and replies.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use redis::Value;

use super::record::{Call, Micros, Record, Reply, number};
use super::wire::{Locks, line, outcome_of, replies};
use crate::support::{Link, Outcome, PATIENCE, convert};

/// The longest lease, in ms.
pub(super) const LEASE: i64 = 200;

/// What all clients share.
pub(super) struct Shared {
    pub(super) port: AtomicU16,
    pub(super) over: AtomicBool,
    /// How many clients are working.
    pub(super) working: Mutex<usize>,
    /// The longest lease, in ms, of clients that end it themselves.
    long: i64,
    history: Mutex<Vec<Record>>,
    zero: (SystemTime, Instant),
}

impl Shared {
    pub(super) fn new(port: u16, long: i64) -> Self {
        Self {
            long,
            port: port.into(),
            over: false.into(),
            working: Mutex::default(),
            history: Mutex::default(),
            zero: (SystemTime::now(), Instant::now()),
        }
    }

    /// Returns the time since 1970, from a monotonic clock.
    pub(super) fn now(&self) -> Micros {
        let (wall, began) = self.zero;
        (wall.duration_since(UNIX_EPOCH).unwrap() + began.elapsed()).as_micros() as Micros
    }

    pub(super) fn history(&self) -> MutexGuard<'_, Vec<Record>> {
        self.history.lock().unwrap()
    }

    /// Notes that a client has finished.
    pub(super) fn done(&self) {
        *self.working.lock().unwrap() -= 1;
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// A connection, and the server's id for it.
pub(super) struct Caller<'a> {
    shared: &'a Shared,
    link: Link,
    id: i64,
    /// The number of the server's process.
    process: i64,
}

impl<'a> Caller<'a> {
    pub(super) fn open(shared: &'a Shared) -> Option<Self> {
        let mut link = Link::open(shared.port.load(Ordering::Relaxed), PATIENCE)?;
        let Outcome::Reply(Value::Int(id)) = link.send("CLIENT ID") else { return None };
        let Outcome::Reply(info) = link.send("INFO server") else { return None };
        let info: String = convert(info);
        let process = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
        Some(Self { shared, link, id, process: process.parse().unwrap() })
    }

    pub(super) fn own_number(&self) -> i64 {
        self.number(self.id)
    }

    /// Returns the longest lease of a client that ends it itself.
    pub(super) fn long_lease(&self) -> i64 {
        self.shared.long
    }

    /// Returns a connection's number, which is unique over all servers.
    fn number(&self, id: i64) -> i64 {
        number(self.process, id)
    }

    /// Returns the reply with this server's numbers of connections.
    fn numbered(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Held { grants, queue } => {
                let queue = queue.into_iter().map(|id| self.number(id)).collect();
                Reply::Held { grants, queue }
            }
            reply => reply,
        }
    }

    /// Sends a command without waiting for the reply. Returns when.
    pub(super) fn begin(&mut self, locks: &Locks<'_>, call: &Call) -> Micros {
        let sent = self.shared.now();
        self.link.begin(&line(locks, call));
        sent
    }

    /// Sends commands, several as a transaction. Returns the reply for each lock of each command; `None`: the connection is closed.
    pub(super) fn send(&mut self, calls: Vec<(Locks<'_>, Call)>) -> Option<Vec<Vec<Reply>>> {
        let sent = self.shared.now();
        let several = calls.len() > 1;
        if several {
            self.link.begin("MULTI");
        }
        for (locks, call) in &calls {
            self.link.begin(&line(locks, call));
        }
        if several {
            self.link.begin("EXEC");
            (0..=calls.len()).for_each(|_| _ = self.link.finish());
        }
        let outcome = self.link.finish();
        let received = (outcome != Outcome::Gone).then(|| self.shared.now());
        let outcomes = match outcome {
            Outcome::Reply(Value::Array(replies)) if several => replies.into_iter().map(outcome_of).collect(),
            outcome => vec![outcome; calls.len()],
        };
        let mut all = Vec::new();
        for ((locks, call), outcome) in calls.into_iter().zip(outcomes) {
            let replies = replies(&locks, &call, outcome).into_iter().map(|reply| match reply {
                // The connection is still open, so the client is still waiting.
                Reply::Gone if self.shared.now() - sent > PATIENCE.as_micros() as Micros => Reply::Waits,
                reply => self.numbered(reply),
            });
            let replies: Vec<_> = replies.collect();
            self.note(&locks, &call, sent, received, &replies);
            all.push(replies);
        }
        received.map(|_| all)
    }

    /// Records the reply for each of these locks.
    fn note(
        &self,
        locks: &Locks<'_>,
        call: &Call,
        sent: Micros,
        received: Option<Micros>,
        replies: &[Reply],
    ) {
        let (client, with) = (self.own_number(), locks.with());
        for (key, reply) in locks.keys.iter().zip(replies) {
            let (key, with, call, reply) = ((*key).into(), with.clone(), call.clone(), reply.clone());
            self.shared.history().push(Record { client, sent, received, key, with, call, reply });
        }
    }

    /// Sends a command for one lock.
    pub(super) fn call(&mut self, key: &str, call: Call) -> Option<Reply> {
        self.ask(Locks::one(key), call)?.pop()
    }

    /// Sends one command. Returns the reply for each lock.
    pub(super) fn ask(&mut self, locks: Locks<'_>, call: Call) -> Option<Vec<Reply>> {
        self.send(vec![(locks, call)])?.pop()
    }

    /// Runs `LOCK.INFO` for all these locks, in one transaction.
    pub(super) fn look_at(&mut self, keys: &[&str]) -> Option<Vec<Reply>> {
        let looks = keys.iter().map(|key| (Locks::one(key), Call::Info)).collect();
        Some(self.send(looks)?.concat())
    }

    /// Kills a connection. The record names no lock.
    pub(super) fn kill(&mut self, number: i64) -> Option<Reply> {
        self.call("", Call::Kill(number))
    }

    /// Closes the connection, on which a command may still wait.
    pub(super) fn close(self, waits: Option<(Locks<'_>, Call, Micros)>) {
        if let Some((locks, call, sent)) = waits {
            self.note(&locks, &call, sent, None, &vec![Reply::Gone; locks.keys.len()]);
        }
        let (client, shared, sent) = (self.own_number(), self.shared, self.shared.now());
        drop(self.link);
        let (received, key, with) = (Some(shared.now()), String::new(), Vec::new());
        let (call, reply) = (Call::Close, Reply::Gone);
        shared.history().push(Record { client, sent, received, key, with, call, reply });
    }
}
