//! Connections of clients, who write down all that they ask and hear.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use redis::Value;

use super::record::{Call, Micros, Record, Reply, Room, Shown, id, number};
use crate::support::{Link, Outcome, PATIENCE, convert, grant};

/// The longest lease, in ms.
pub(super) const LEASE: i64 = 200;

/// What all clients share.
pub(super) struct Shared {
    pub(super) port: AtomicU16,
    pub(super) over: AtomicBool,
    /// Clients at work.
    pub(super) working: Mutex<usize>,
    /// The longest lease of those who will end it themselves, in ms.
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

    /// The time: that of 1970 on, and as steady as the machine's own.
    pub(super) fn now(&self) -> Micros {
        let (wall, began) = self.zero;
        (wall.duration_since(UNIX_EPOCH).unwrap() + began.elapsed()).as_micros() as Micros
    }

    pub(super) fn history(&self) -> MutexGuard<'_, Vec<Record>> {
        self.history.lock().unwrap()
    }

    /// One that worked is done.
    pub(super) fn done(&self) {
        *self.working.lock().unwrap() -= 1;
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// A connection, and the server's number for it.
pub(super) struct Caller<'a> {
    shared: &'a Shared,
    link: Link,
    id: i64,
    /// The server's.
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

    /// The longest lease of one who will end it himself.
    pub(super) fn long_lease(&self) -> i64 {
        self.shared.long
    }

    /// The number of a connection, over all servers.
    fn number(&self, id: i64) -> i64 {
        number(self.process, id)
    }

    /// What the watcher is told of numbers is of this server.
    fn numbered(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Held { grants, queue } => {
                let queue = queue.into_iter().map(|id| self.number(id)).collect();
                Reply::Held { grants, queue }
            }
            reply => reply,
        }
    }

    /// Asks, and does not wait for the answer. When that was.
    pub(super) fn begin(&mut self, key: &str, call: &Call) -> Micros {
        let sent = self.shared.now();
        self.link.begin(&line(key, call));
        sent
    }

    /// Sends commands, as one transaction where there are several; what came of each. None: the connection is gone.
    pub(super) fn send(&mut self, key: &str, calls: Vec<Call>) -> Option<Vec<Reply>> {
        let sent = self.shared.now();
        let several = calls.len() > 1;
        if several {
            self.link.begin("MULTI");
        }
        for call in &calls {
            self.link.begin(&line(key, call));
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
        let mut replies = Vec::new();
        for (call, outcome) in calls.into_iter().zip(outcomes) {
            let reply = match reply(&call, outcome) {
                // Nobody closed the connection.
                Reply::Gone if self.shared.now() - sent > PATIENCE.as_micros() as Micros => Reply::Waits,
                reply => self.numbered(reply),
            };
            replies.push(reply.clone());
            let client = self.own_number();
            // A connection is no lock's.
            let key = if matches!(call, Call::Kill(_)) { String::new() } else { key.into() };
            self.shared.history().push(Record { client, sent, received, key, call, reply });
        }
        received.map(|_| replies)
    }

    pub(super) fn call(&mut self, key: &str, call: Call) -> Option<Reply> {
        self.send(key, vec![call])?.pop()
    }

    /// Closes the connection, which may wait for that.
    pub(super) fn close(self, waits: Option<(&str, Call, Micros)>) {
        let (client, shared, reply) = (self.own_number(), self.shared, Reply::Gone);
        if let Some((key, call, sent)) = waits {
            let (key, reply) = (key.into(), reply.clone());
            shared.history().push(Record { client, sent, received: None, key, call, reply });
        }
        let (sent, key, call) = (shared.now(), String::new(), Call::Close);
        drop(self.link);
        shared.history().push(Record { client, sent, received: Some(shared.now()), key, call, reply });
    }
}

fn outcome_of(value: Value) -> Outcome {
    match value {
        Value::ServerError(error) => Outcome::Refused(error.code().into()),
        value => Outcome::Reply(value),
    }
}

fn line(key: &str, call: &Call) -> String {
    match call {
        Call::Acquire { owner, lease, block, once, session, max_hold, room } => {
            let block = block.map_or_else(String::new, |block| format!("BLOCK {block}"));
            let once = if *once { "ONCE" } else { "" };
            let session = if *session { "SESSION" } else { "" };
            let max_hold = max_hold.map_or_else(String::new, |age| format!("MAXHOLD {age}"));
            let room = words(*room);
            format!("LOCK.ACQUIRE {key} OWNER {owner} PX {lease} {block} {once} {session} {max_hold} {room}")
        }
        Call::Release { owner, all } => {
            format!("LOCK.RELEASE {key} {owner} {}", if *all { "ALL" } else { "" })
        }
        Call::Extend { owner, lease } => format!("LOCK.EXTEND {key} {owner} PX {lease}"),
        Call::Break => format!("LOCK.BREAK {key}"),
        Call::Info => format!("LOCK.INFO {key} FULL"),
        Call::Kill(number) => format!("CLIENT KILL ID {}", id(*number)),
        Call::Close => "QUIT".into(),
    }
}

fn reply(call: &Call, outcome: Outcome) -> Reply {
    match outcome {
        Outcome::Gone => Reply::Gone,
        Outcome::Refused(text) => Reply::Refused(text.split(' ').next().unwrap_or_default().into()),
        Outcome::Reply(Value::Int(number)) => Reply::Number(number),
        Outcome::Reply(Value::Nil) => Reply::Null,
        Outcome::Reply(value) if *call == Call::Info => held(value),
        Outcome::Reply(value) => match grant(value) {
            Some(grant) => Reply::Granted { fence: grant.fence, holds: grant.holds, lease: grant.lease },
            None => Reply::Null,
        },
    }
}

fn words(room: Room) -> String {
    match room {
        Room::Plain => String::new(),
        Room::Limit(most) => format!("LIMIT {most}"),
        Room::Shared => "SHARED".into(),
    }
}

fn held(value: Value) -> Reply {
    let mut info: HashMap<String, Value> = convert(value);
    let mut all = |name| -> Vec<HashMap<String, String>> { convert(info.remove(name).unwrap()) };
    let grants = all("grants").into_iter().map(|mut grant| Shown {
        fence: grant["fence"].parse().unwrap(),
        // 0: any number.
        most: Some(grant["limit"].parse().unwrap()).filter(|most| *most > 0).unwrap_or(i64::MAX),
        owner: grant.remove("owner").unwrap(),
    });
    let grants = grants.collect();
    let queue = all("queue").iter().map(|waiter| waiter["client-id"].parse().unwrap()).collect();
    Reply::Held { grants, queue }
}
