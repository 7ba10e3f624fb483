//! Locks for tasks of tokio.

mod shards;

use std::collections::HashMap;
use std::future::{Future, IntoFuture};
use std::io;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{FutureExt, StreamExt};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as Turn, Notify};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout, timeout_at};

use crate::core::error::{ends_connection, of_one_server};
use crate::core::{Command, Core, LONGEST_PAUSE, SILENCE, TRY_AGAIN};
use crate::servers::Servers;
use crate::shards::{Node, REDIRECTS, Route, Shards, client_of};
use crate::shared::{Acquire, Claim, Driver, Grant, Shared, Use};
use crate::{Error, Observer};

/// The locks of a process. Make one for each client, and share it between all tasks of a runtime. A clone refers to the same locks.
#[derive(Clone)]
pub struct Locks {
    shared: Arc<Use>,
    tasks: Arc<Tasks>,
}

/// A lock that is held. It is renewed as long as this value lives, and released when it is dropped.
#[derive(Debug)]
pub struct Held(Grant);

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
        let tasks = Arc::new(Tasks {
            shards: servers.is_cluster().then(Shards::default),
            servers: Turn::new(servers),
            lanes: Mutex::default(),
            runtime: OnceLock::new(),
            background: Mutex::default(),
            sooner: Notify::new(),
        });
        Self { shared: Arc::new(Use(Shared::new(tasks.clone()))), tasks }
    }

    /// Sets the one observer, which is told what becomes of these locks.
    pub fn observer(self, observer: impl Observer) -> Self {
        self.shared.0.observe(observer);
        self
    }

    /// Asks for a lock, when awaited: `locks.acquire("invoice:42").wait(time).await?`. A wait that is dropped gives up its place.
    pub fn acquire(&self, key: impl AsRef<[u8]>) -> Acquire<'_, Self> {
        self.acquire_all([key])
    }

    /// Asks for several locks together: all or none.
    pub fn acquire_all<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Acquire<'_, Self> {
        Acquire::new(self, keys)
    }

    /// Waits until all releases of dropped guards and waits have reached the server.
    pub async fn settled(&self) {
        let settled = self.shared.0.with(|core, _| core.settled());
        settled.await;
    }

    /// Releases all locks that are held, and ends all waits.
    pub async fn close(&self) {
        self.shared.0.with(|core, now| core.close(now));
        let _ = timeout(SILENCE, self.settled()).await;
        self.shared.0.with(|core, now| core.cut_off(None, now));
        self.tasks.sooner();
    }

    fn start(&self) {
        self.tasks.runtime.get_or_init(|| {
            let (runtime, shared, tasks) = (Handle::current(), self.shared.0.clone(), self.tasks.clone());
            if tasks.shards.is_none() {
                tasks.spawn(&runtime, listen(shared.clone(), tasks.clone()));
            } else {
                shared.with(Core::subscribed); // in a cluster, each command waits for its shard's subscription instead
            }
            runtime.spawn(clock(Runs(shared), tasks));
            runtime
        });
    }
}

impl<'a> IntoFuture for Acquire<'a, Locks> {
    type Output = Result<Held, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let shared = self.locks.shared.clone();
            self.locks.start();
            let (id, acquired) = shared.0.acquire(self.request)?;
            let claim = Claim { shared, id }; // if this future is dropped, so is the claim, which gives up the place
            Ok(Held(Grant { granted: acquired.await?, claim }))
        })
    }
}

impl Held {
    /// Sets the lease, counted from now, and the lease of renewals. Without an argument, the length stays. Returns the lease that the
    /// server gave.
    pub async fn extend(&self, lease: impl Into<Option<Duration>>) -> Result<Duration, Error> {
        let extended = self.claim.with(|core, id, now| core.extend(id, lease.into(), now));
        extended.await
    }

    /// Releases the lock. An [`Error::Lost`] says that the lock had been lost before. The lock is released even if this future is dropped.
    pub async fn release(self) -> Result<(), Error> {
        let released = self.claim.with(|core, id, now| core.release(id, now));
        released.await
    }
}

struct Tasks {
    servers: Turn<Servers>,
    shards: Option<Shards>,
    lanes: Mutex<HashMap<Route, Arc<Turn<Line>>>>,
    /// The runtime that ran the first acquire.
    runtime: OnceLock<Handle>,
    /// The background tasks, which end with the locks.
    background: Mutex<Vec<AbortHandle>>,
    sooner: Notify,
}

/// A connection that the commands of all tasks share.
#[derive(Default)]
struct Line {
    connection: Option<(MultiplexedConnection, Arc<()>)>,
    /// The last failure to connect. Commands that waited meanwhile share it.
    failed: Option<(Instant, RedisError)>,
}

impl Driver for Arc<Tasks> {
    fn send(&self, shared: &Arc<Shared>, command: Command) {
        match &self.shards {
            Some(shards) => self.work(shared, shards.place(command, shared)),
            None => self.forward(shared, command, None),
        }
    }

    fn sooner(&self) {
        self.sooner.notify_one();
    }
}

impl Tasks {
    fn spawn(&self, runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = self.background.lock().unwrap_or_else(PoisonError::into_inner);
        background.retain(|task| !task.is_finished());
        background.push(runtime.spawn(work).abort_handle());
    }

    fn forward(self: &Arc<Self>, shared: &Arc<Shared>, command: Command, node: Option<Node>) {
        let (tasks, shared) = (self.clone(), shared.clone());
        if let Some(runtime) = self.runtime.get() {
            runtime.spawn(async move {
                let reply = match &tasks.shards {
                    Some(shards) => tasks.reply_of_cluster(&shared, shards, &command, node).await,
                    None => tasks.reply(&command, None, false).await.map_err(of_one_server),
                };
                shared.answered(command.id, reply);
            });
        }
    }

    async fn reply_of_cluster(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        shards: &Shards,
        command: &Command,
        mut node: Option<Node>,
    ) -> RedisResult<Value> {
        let (mut asking, mut redirects) = (false, 0);
        loop {
            let reply = self.reply(command, node.clone(), asking).await;
            let Err(error) = &reply else { return reply };
            redirects += 1;
            match shards.redirected(error, node.as_ref(), shared) {
                Some((there, asks)) if redirects <= REDIRECTS => (node, asking) = (Some(there), asks),
                _ => {
                    self.work(shared, shards.failed(error));
                    return reply;
                }
            }
        }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Route, Arc<Turn<Line>>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn reply(&self, command: &Command, node: Option<Node>, asking: bool) -> RedisResult<Value> {
        let key = (command.lane, node);
        let (lane, began) = (self.lanes().entry(key.clone()).or_default().clone(), Instant::now());
        let (mut connection, mark) = {
            let mut line = lane.lock().await;
            match (&line.connection, &line.failed) {
                (Some(connected), _) => connected.clone(),
                (None, Some((at, error))) if *at >= began => return Err(error.clone()),
                // Boxed, since connecting is rare, but its future is large: unboxed, it would enlarge the task of each command.
                _ => match in_time(command.patience, Box::pin(self.connect(key.1))).await {
                    Ok(connection) => line.connection.insert((connection, Arc::default())).clone(),
                    Err(error) => {
                        line.failed = Some((Instant::now(), error.clone()));
                        return Err(error);
                    }
                },
            }
        };
        let reply = in_time(command.patience, async {
            if asking {
                let mut both = redis::pipe();
                both.cmd("ASKING").add_command(command.words.clone());
                let mut replies = Box::pin(connection.send_packed_commands(&both, 0, 2)).await?;
                return replies.pop().unwrap_or(Value::Nil).extract_error();
            }
            connection.send_packed_command(&command.words).await?.extract_error()
        });
        let reply = reply.await;
        if let Err(error) = &reply
            && ends_connection(error)
        {
            let mut line = lane.lock().await;
            line.connection.take_if(|(_, other)| Arc::ptr_eq(other, &mark));
        }
        reply
    }

    async fn connect(&self, node: Option<Node>) -> RedisResult<MultiplexedConnection> {
        let client = match node {
            Some(node) => client_of(&self.client().await?, &node)?,
            None => self.client().await?,
        };
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn client(&self) -> RedisResult<Client> {
        self.servers.lock().await.async_client().await
    }

    async fn subscribe(&self, channel: &str) -> RedisResult<PubSub> {
        let mut messages = self.client().await?.get_async_pubsub().await?;
        messages.subscribe(channel).await?;
        Ok(messages)
    }
}

/// Not an `async fn`, which would reserve memory for the work twice.
fn in_time<T>(
    time: Duration,
    work: impl Future<Output = RedisResult<T>>,
) -> impl Future<Output = RedisResult<T>> {
    timeout(time, work).map(|done| {
        done.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()))
    })
}

/// Keeps one subscription open for all locks, and makes it anew whenever it is lost.
async fn listen(shared: Arc<Shared>, tasks: Arc<Tasks>) {
    let (channel, mut pause) = (shared.with(|core, _| core.channel.clone()), Duration::ZERO);
    loop {
        match in_time(SILENCE, tasks.subscribe(&channel)).await {
            Ok(messages) => {
                let began = Instant::now();
                shared.with(Core::subscribed);
                hear(&shared, messages).await;
                if began.elapsed() > LONGEST_PAUSE {
                    pause = Duration::ZERO;
                }
            }
            Err(error) => shared.with(|core, now| core.unreachable(&error, now)),
        }
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause + TRY_AGAIN);
    }
}

async fn hear(shared: &Arc<Shared>, messages: PubSub) {
    let (mut sink, mut messages) = messages.split();
    loop {
        match timeout(SILENCE, messages.next()).await {
            Ok(Some(message)) => shared.with(|core, now| core.heard(message.get_payload_bytes(), now)),
            Ok(None) => return,
            Err(_) => {
                if in_time(SILENCE, sink.ping::<Value>()).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Is dropped with its task when the runtime ends: then all locks end.
struct Runs(Arc<Shared>);

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.with(Core::abandon);
    }
}

/// Runs one timer for all locks, and ends the background tasks.
async fn clock(runs: Runs, tasks: Arc<Tasks>) {
    loop {
        let (next, over) = runs.0.with(Core::tick);
        if over {
            break;
        }
        let sooner = tasks.sooner.notified();
        match next {
            Some(at) => drop(timeout_at(at.into(), sooner).await),
            None => sooner.await,
        }
    }
    tasks.background.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(AbortHandle::abort);
    tasks.lanes().clear();
}
