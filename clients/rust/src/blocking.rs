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

#[cfg(feature = "cluster")]
mod shards;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

#[cfg(feature = "cluster")]
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Connection, RedisResult, Value};

use crate::core::error::{ends_connection, of_one_server};
use crate::core::promise::Promise;
use crate::core::{Command, Core, LONGEST_PAUSE, Lane, SILENCE, TRY_AGAIN};
use crate::servers::Servers;
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
            #[cfg(feature = "cluster")]
            shards: servers.of_cluster().is_some().then(crate::shards::Shards::default),
            servers: Mutex::new(servers),
            lanes: Mutex::default(),
            clock: OnceLock::new(),
        });
        Self { shared: Arc::new(Use(Shared::new(threads.clone()))), threads }
    }

    /// Has the observer told what becomes of these locks. There can be one.
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
            #[cfg(feature = "cluster")]
            let alone = threads.shards.is_none();
            #[cfg(not(feature = "cluster"))]
            let alone = true;
            if alone {
                spawn(move || listen(&shared, &threads));
            } else {
                shared.with(Core::subscribed); // each command waits for the subscription of its shard
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

struct Threads {
    servers: Mutex<Servers>,
    #[cfg(feature = "cluster")]
    shards: Option<crate::shards::Shards>,
    lanes: Mutex<HashMap<Lane, Sender<Command>>>,
    clock: OnceLock<Thread>,
}

impl Driver for Arc<Threads> {
    fn send(&self, shared: &Arc<Shared>, command: Command) {
        #[cfg(feature = "cluster")]
        if let Some(shards) = &self.shards {
            return self.work(shared, shards.place(command, shared));
        }
        self.forward(shared, command);
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
    fn forward(self: &Arc<Self>, shared: &Arc<Shared>, command: Command) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(command.lane).or_insert_with(|| {
            let ((jobs, wanted), shared, threads) = (channel(), shared.clone(), self.clone());
            spawn(move || work(&shared, &threads, &wanted));
            jobs
        });
        let _ = lane.send(command); // its thread ends only with this end
    }

    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> RedisResult<redis::Client> {
        self.servers().client()
    }

    fn connect(&self) -> RedisResult<Line> {
        #[cfg(feature = "cluster")]
        if let Some(client) = self.servers().of_cluster() {
            return client.get_connection().map(|connection| Line::Cluster(Box::new(connection)));
        }
        self.client()?.get_connection_with_timeout(SILENCE).map(Line::Single)
    }
}

enum Line {
    Single(Connection),
    #[cfg(feature = "cluster")]
    Cluster(Box<redis::cluster::ClusterConnection>),
}

/// Sends all commands that have come meanwhile together, so that one connection serves any number of threads.
fn work(shared: &Arc<Shared>, threads: &Threads, wanted: &Receiver<Command>) {
    const MOST: usize = 100;
    let mut line = None;
    while let Ok(first) = wanted.recv() {
        let mut batch: Vec<Command> = std::iter::once(first).chain(wanted.try_iter().take(MOST)).collect();
        let mut answered = 0;
        let done = exchange(&mut line, threads, &batch, |id, reply| {
            answered += 1;
            shared.answered(id, reply);
        });
        if let Err(error) = done {
            line = None;
            for command in batch.drain(answered..) {
                shared.answered(command.id, Err(error.clone()));
            }
        }
    }
}

/// Sends the commands and reads the replies. After an error, some commands may not have been answered.
fn exchange(
    line: &mut Option<Line>,
    threads: &Threads,
    batch: &[Command],
    mut answered: impl FnMut(u64, RedisResult<Value>),
) -> RedisResult<()> {
    let line = match line {
        Some(line) => line,
        None => line.insert(threads.connect()?),
    };
    let patience = batch.iter().map(|command| command.patience).max();
    match line {
        Line::Single(connection) => {
            connection.set_read_timeout(patience)?;
            connection.set_write_timeout(patience)?;
            let packed: Vec<u8> =
                batch.iter().flat_map(|command| command.words.get_packed_command()).collect();
            connection.send_packed_command(&packed)?;
            for command in batch {
                let reply = loop {
                    match connection.recv_response()? {
                        Value::Push { .. } => {}
                        reply => break reply.extract_error().map_err(of_one_server),
                    }
                };
                let ended = reply.as_ref().err().filter(|error| ends_connection(error)).cloned();
                answered(command.id, reply);
                if let Some(error) = ended {
                    return Err(error);
                }
            }
        }
        #[cfg(feature = "cluster")]
        Line::Cluster(connection) => {
            connection.set_read_timeout(patience)?;
            for command in batch {
                let mut reply = redis::ConnectionLike::req_command(&mut **connection, &command.words);
                if reply.as_ref().is_err_and(ends_connection) {
                    // redis-rs reads the slots again only if another node redirects it.
                    reply = connection.route_command(
                        &command.words,
                        RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random),
                    );
                }
                answered(command.id, reply.and_then(Value::extract_error));
            }
        }
    }
    Ok(())
}

/// Keeps up one subscription for all locks. It is made again whenever it is lost.
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
    messages.set_read_timeout(Some(Duration::from_millis(1)))?; // to end it waits for an answer
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
