//! Locks for threads, without an executor.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! let locks = redislock::blocking::Locks::new(redis::Client::open("redis://localhost:6379")?);
//! let held = locks.acquire("invoice:42").wait(Duration::from_secs(10)).block()?;
//! println!("held with fence {}", held.fence());
//! held.check()?; // in between: was it lost?
//! held.release()?;
//! # Ok(())
//! # }
//! ```

mod shards;

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, Value, cmd};

use crate::core::error::{ends_connection, of_one_server};
use crate::core::promise::Promise;
use crate::core::{Command, Core, LONGEST_PAUSE, SILENCE, TRY_AGAIN};
use crate::servers::Servers;
use crate::shards::{Node, REDIRECTS, Route, Shards, client_of};
use crate::shared::{Acquire, Claim, Driver, Grant, Shared, Use};
use crate::{Error, Observer};

/// The locks of a process. Make one for each client, and share it between all threads. A clone refers to the same locks.
#[derive(Clone)]
pub struct Locks {
    shared: Arc<Use>,
    threads: Arc<Threads>,
}

/// A lock that is held. It is renewed as long as this value lives, and released when it is dropped.
#[derive(Debug)]
pub struct Held(Grant);

/// Ends a wait from another thread: see [`Acquire::cancelled_by`]. Make one for each wait.
#[derive(Clone, Default)]
pub struct Cancel(Promise<()>);

impl Cancel {
    /// Ends the wait with [`Error::Cancelled`], and gives up its place in the queue.
    pub fn cancel(&self) {
        self.0.set(());
    }
}

impl Deref for Held {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.0
    }
}

impl Locks {
    /// Makes a handle. It connects when the first lock is acquired.
    pub fn new(servers: impl Into<Servers>) -> Self {
        let servers = servers.into();
        let threads = Arc::new(Threads {
            shards: servers.is_cluster().then(Shards::default),
            servers: Mutex::new(servers),
            lanes: Mutex::default(),
            clock: OnceLock::new(),
        });
        Self { shared: Arc::new(Use(Shared::new(threads.clone()))), threads }
    }

    /// Sets the one observer, which is told what becomes of these locks.
    pub fn observer(self, observer: impl Observer) -> Self {
        self.shared.0.observe(observer);
        self
    }

    /// Asks for a lock: `locks.acquire("invoice:42").wait(time).block()?`.
    pub fn acquire(&self, key: impl AsRef<[u8]>) -> Acquire<'_, Self> {
        self.acquire_all([key])
    }

    /// Asks for several locks together: all or none.
    pub fn acquire_all<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Acquire<'_, Self> {
        Acquire::new(self, keys)
    }

    /// Blocks until all releases of dropped guards have reached the server.
    pub fn settled(&self) {
        self.shared.0.with(|core, _| core.settled()).wait(None);
    }

    /// Releases all locks that are held, and ends all waits.
    pub fn close(&self) {
        self.shared.0.with(|core, now| core.close(now));
        self.shared.0.with(|core, _| core.settled()).wait(Some(SILENCE));
        self.shared.0.with(|core, now| core.cut_off(None, now));
        self.threads.sooner();
    }

    fn start(&self) {
        self.threads.clock.get_or_init(|| {
            let (shared, threads) = (self.shared.0.clone(), self.threads.clone());
            if threads.shards.is_none() {
                spawn(move || listen(&shared, &threads));
            } else {
                shared.with(Core::subscribed); // in a cluster, each command waits for its shard's subscription instead
            }
            let (shared, threads) = (self.shared.0.clone(), self.threads.clone());
            spawn(move || clock(&shared, &threads))
        });
    }
}

impl Acquire<'_, Locks> {
    /// Blocks the thread until the lock is held, or the wait is over.
    pub fn block(self) -> Result<Held, Error> {
        self.cancelled_by(&Cancel::default())
    }

    /// Like `block`, but another thread can end the wait.
    pub fn cancelled_by(self, cancel: &Cancel) -> Result<Held, Error> {
        let shared = self.locks.shared.clone();
        self.locks.start();
        let (id, acquired) = shared.0.acquire(self.request)?;
        let claim = Claim { shared: shared.clone(), id };
        cancel.0.then(move |()| shared.0.with(|core, now| core.cancel(id, now)));
        let granted = acquired.wait(None).unwrap_or(Err(Error::Closed))?;
        Ok(Held(Grant { granted, claim }))
    }
}

impl Held {
    /// Sets the lease, counted from now, and the lease of renewals. Without an argument, the length stays. Returns the lease that the
    /// server gave.
    pub fn extend(&self, lease: impl Into<Option<Duration>>) -> Result<Duration, Error> {
        self.claim
            .with(|core, id, now| core.extend(id, lease.into(), now))
            .wait(None)
            .unwrap_or(Err(Error::Closed))
    }

    /// Calls this function as soon as the lock is lost, or the locks are closed. The function must not block: the thread that calls it
    /// serves all locks.
    pub fn on_lost(&self, call: impl FnOnce(Error) + Send + 'static) {
        self.granted.lost.then(call);
    }

    /// Releases the lock. An [`Error::Lost`] says that the lock had been lost before.
    pub fn release(self) -> Result<(), Error> {
        self.claim.with(|core, id, now| core.release(id, now)).wait(None).unwrap_or(Err(Error::Closed))
    }
}

/// A command to be sent, and the route for it.
struct Wanted {
    command: Command,
    asking: bool,
    redirects: u32,
}

struct Threads {
    servers: Mutex<Servers>,
    shards: Option<Shards>,
    lanes: Mutex<HashMap<Route, Sender<Wanted>>>,
    clock: OnceLock<Thread>,
}

impl Driver for Arc<Threads> {
    fn send(&self, shared: &Arc<Shared>, command: Command) {
        match &self.shards {
            Some(shards) => self.work(shared, shards.place(command, shared)),
            None => self.forward(shared, None, Wanted { command, asking: false, redirects: 0 }),
        }
    }

    fn sooner(&self) {
        if let Some(clock) = self.clock.get() {
            clock.unpark();
        }
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Thread {
    thread::spawn(work).thread().clone()
}

impl Threads {
    fn forward(self: &Arc<Self>, shared: &Arc<Shared>, node: Option<Node>, wanted: Wanted) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry((wanted.command.lane, node.clone())).or_insert_with(|| {
            let ((jobs, jobs_here), shared, threads) = (channel(), shared.clone(), self.clone());
            spawn(move || work(&shared, &threads, node.as_ref(), &jobs_here));
            jobs
        });
        let _ = lane.send(wanted); // the receiving thread lives longer than this
    }

    fn answered(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        node: Option<&Node>,
        wanted: Wanted,
        reply: RedisResult<Value>,
    ) {
        if let (Some(shards), Err(error)) = (&self.shards, &reply) {
            match shards.redirected(error, node, shared) {
                Some((there, asking)) if wanted.redirects < REDIRECTS => {
                    let redirects = wanted.redirects + 1;
                    return self.forward(shared, Some(there), Wanted { asking, redirects, ..wanted });
                }
                _ => self.work(shared, shards.failed(error)),
            }
        }
        shared.answered(
            wanted.command.id,
            reply.map_err(|error| match &self.shards {
                Some(_) => error,
                None => of_one_server(error),
            }),
        );
    }

    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> RedisResult<redis::Client> {
        self.servers().client()
    }

    fn connect(&self, node: Option<&Node>) -> RedisResult<Connection> {
        let client = match node {
            Some(node) => client_of(&self.client()?, node)?,
            None => self.client()?,
        };
        client.get_connection_with_timeout(SILENCE)
    }
}

/// Sends all commands that are waiting together, so that one connection serves any number of threads.
fn work(shared: &Arc<Shared>, threads: &Arc<Threads>, node: Option<&Node>, wanted: &Receiver<Wanted>) {
    const MOST: usize = 100;
    let mut line = None;
    while let Ok(first) = wanted.recv() {
        let mut batch: VecDeque<Wanted> =
            std::iter::once(first).chain(wanted.try_iter().take(MOST)).collect();
        let done = exchange(
            &mut line,
            || threads.connect(node),
            &mut batch,
            |wanted, reply| {
                threads.answered(shared, node, wanted, reply);
            },
        );
        if let Err(error) = done {
            line = None;
            for wanted in batch {
                threads.answered(shared, node, wanted, Err(error.clone()));
            }
        }
    }
}

/// Sends the commands and reads the replies. After an error, some commands may have no answer.
fn exchange(
    line: &mut Option<Connection>,
    connect: impl FnOnce() -> RedisResult<Connection>,
    batch: &mut VecDeque<Wanted>,
    mut answered: impl FnMut(Wanted, RedisResult<Value>),
) -> RedisResult<()> {
    let connection = match line {
        Some(connection) => connection,
        None => line.insert(connect()?),
    };
    let patience = batch.iter().map(|wanted| wanted.command.patience).max();
    connection.set_read_timeout(patience)?;
    connection.set_write_timeout(patience)?;
    let mut packed = Vec::new();
    for Wanted { command, asking, .. } in &*batch {
        if *asking {
            packed.extend(cmd("ASKING").get_packed_command());
        }
        packed.extend(command.words.get_packed_command());
    }
    connection.send_packed_command(&packed)?;
    while let Some(first) = batch.front() {
        let mut replies = 1 + usize::from(first.asking);
        let reply = loop {
            match connection.recv_response()? {
                Value::Push { .. } => {}
                reply if replies == 1 => break reply.extract_error(),
                _ => replies -= 1,
            }
        };
        let ended = reply.as_ref().err().filter(|error| ends_connection(error)).cloned();
        if let Some(wanted) = batch.pop_front() {
            answered(wanted, reply);
        }
        if let Some(error) = ended {
            return Err(error);
        }
    }
    Ok(())
}

/// Keeps one subscription open for all locks, and makes it anew whenever it is lost.
fn listen(shared: &Arc<Shared>, threads: &Threads) {
    let (channel, mut pause) = (shared.with(|core, _| core.channel.clone()), Duration::ZERO);
    while !shared.with(|core, _| core.is_over()) {
        let began = Instant::now();
        if let Err(error) = hear(shared, threads, &channel) {
            shared.with(|core, now| core.unreachable(&error, now));
        }
        if began.elapsed() > LONGEST_PAUSE {
            pause = Duration::ZERO;
        }
        thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause + TRY_AGAIN);
    }
}

fn hear(shared: &Arc<Shared>, threads: &Threads, channel: &str) -> RedisResult<()> {
    let mut connection = threads.client()?.get_connection_with_timeout(SILENCE)?;
    connection.set_read_timeout(Some(SILENCE))?;
    connection.set_write_timeout(Some(SILENCE))?;
    let mut messages = connection.as_pubsub();
    messages.subscribe(channel)?;
    shared.with(Core::subscribed);
    let ended = loop {
        match messages.get_message() {
            Ok(message) => shared.with(|core, now| core.heard(message.get_payload_bytes(), now)),
            Err(_) if shared.with(|core, _| core.is_over()) => break Ok(()),
            Err(error) if !error.is_timeout() => break Err(error),
            Err(_) => {
                if let Err(error) = messages.ping::<Value>() {
                    break Err(error);
                }
            }
        }
    };
    messages.set_read_timeout(Some(Duration::from_millis(1)))?; // dropping it waits for an answer
    ended
}

/// Runs one timer for all locks, and ends the background threads.
fn clock(shared: &Arc<Shared>, threads: &Threads) {
    loop {
        let (next, over) = shared.with(Core::tick);
        if over {
            break;
        }
        match next {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
    threads.lanes.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
