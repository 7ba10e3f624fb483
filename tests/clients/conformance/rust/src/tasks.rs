//! Tasks of tokio.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{AbortHandle, Abortable, try_join_all};
use redis::aio::MultiplexedConnection;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, FromRedisValue, cmd};
use redislock::{Error, Locks};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{Tells, acquired, client, cluster, commands, number, options, say, servers, tell, text, texts};

#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    async fn open(command: &Value) -> Self {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
        match text(command, "kind") {
            "cluster" => Self::Cluster(cluster(command).get_async_connection().await.unwrap()),
            _ => {
                let opened = client(command).get_multiplexed_async_connection_with_config(&config).await;
                Self::Single(opened.unwrap())
            }
        }
    }

    async fn query<T: FromRedisValue>(&mut self, words: &Cmd) -> Result<T, Error> {
        match self {
            Self::Single(connection) => words.query_async(connection).await.map_err(Error::Redis),
            Self::Cluster(connection) => words.query_async(connection).await.map_err(Error::Redis),
        }
    }
}

enum Order {
    Release,
    Cancel,
    Extend(Duration),
}

struct Task {
    wait: AbortHandle,
    orders: UnboundedSender<Order>,
}

impl Task {
    fn start(runtime: &Runtime, locks: Locks, command: Value) -> Self {
        let (orders, given) = unbounded_channel();
        let (wait, registration) = AbortHandle::new_pair();
        runtime.spawn(async move {
            let wanted = async { options(locks.acquire_all(texts(&command, "keys")), &command)?.await };
            let waited = Abortable::new(wanted, registration).await;
            let task = text(&command, "task");
            match waited {
                Err(_) => {
                    locks.settled().await;
                    say("cancelled", task, json!({}));
                }
                Ok(Err(error)) => tell(task, &error),
                Ok(Ok(held)) => {
                    acquired(task, &held);
                    if let Err(error) = hold(held, task, given).await {
                        tell(task, &error);
                    }
                }
            }
        });
        Self { wait, orders }
    }
}

async fn hold(held: redislock::Held, task: &str, mut given: UnboundedReceiver<Order>) -> Result<(), Error> {
    loop {
        let order = tokio::select! {
            biased;
            lost = held.lost() => return Err(lost),
            order = given.recv() => order,
        };
        match order {
            Some(Order::Extend(lease)) => {
                let given = held.extend(lease).await?;
                say("extended", task, json!({ "lease": given.as_millis() as u64 }));
            }
            Some(Order::Release) => {
                held.release().await?;
                say("released", task, json!({}));
                return Ok(());
            }
            _ => {
                held.release().await?;
                say("cancelled", task, json!({}));
                return Ok(());
            }
        }
    }
}

async fn rounds(
    locks: Locks,
    mut connection: Connection,
    command: Arc<Value>,
    task: usize,
) -> Result<Duration, Error> {
    let (keys, mut longest) = (texts(&command, "keys"), Duration::ZERO);
    for round in 0..number(&command, "rounds") {
        let (key, begin) = (&keys[(task + round) % keys.len()], Instant::now());
        let held = options(locks.acquire(key), &command)?.await?;
        longest = longest.max(begin.elapsed());
        let count = format!("count:{key}");
        let before: Option<u64> = connection.query(cmd("GET").arg(&count)).await?;
        let () = connection.query(cmd("SET").arg(&count).arg(before.unwrap_or(0) + 1)).await?;
        let () = connection.query(cmd("RPUSH").arg(format!("fences:{key}")).arg(held.fence())).await?;
        held.release().await?;
    }
    Ok(longest)
}

async fn crowd(locks: Locks, connection: Connection, command: Value) {
    let command = Arc::new(command);
    let tasks = (0..number(&command, "tasks")).map(|task| {
        let work = tokio::spawn(rounds(locks.clone(), connection.clone(), command.clone(), task));
        async { work.await.unwrap() }
    });
    match try_join_all(tasks).await {
        Ok(waits) => {
            let longest = waits.into_iter().max().unwrap_or_default().as_millis() as u64;
            say("done", text(&command, "task"), json!({ "longest_wait": longest }));
        }
        Err(error) => tell(text(&command, "task"), &error),
    }
}

pub fn main() {
    let runtime = Runtime::new().unwrap();
    let (mut locks, mut opened, mut tasks) = (None, None, HashMap::new());
    for command in commands() {
        let name = text(&command, "task").to_string();
        match text(&command, "do") {
            "open" => {
                let opens = Locks::new(servers(&command));
                locks = Some(if command["observe"] == true { opens.observer(Tells) } else { opens });
                opened = Some(command);
                say("opened", "", json!({}));
            }
            "acquire" => {
                tasks.insert(name, Task::start(&runtime, locks.clone().unwrap(), command));
            }
            "crowd" => {
                let connection = runtime.block_on(Connection::open(opened.as_ref().unwrap()));
                runtime.spawn(crowd(locks.clone().unwrap(), connection, command));
            }
            "release" => drop(tasks[&name].orders.send(Order::Release)),
            "extend" => {
                let lease = Duration::from_millis(number(&command, "lease") as u64);
                drop(tasks[&name].orders.send(Order::Extend(lease)));
            }
            "cancel" => {
                tasks[&name].wait.abort();
                let _ = tasks[&name].orders.send(Order::Cancel);
            }
            "close" => {
                if let Some(locks) = locks.take() {
                    runtime.block_on(locks.close());
                }
                say("closed", "", json!({}));
            }
            other => panic!("unknown: {other}"),
        }
    }
    if let Some(locks) = locks {
        runtime.block_on(locks.close());
    }
}
