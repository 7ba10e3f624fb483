//! Clients that want one lock; benches/compare starts them, and docs/bench.md tells what it counts.
//!
//! `contest contend ADDRESS WHO SECONDS MS` says "ready", waits for a line, and has 8 tasks, each with a client of its own, contend for so
//! long and keep each grant for MS. It prints a line for each: when it came and was released, in ns of the one clock that all processes
//! read, and which task's it was.

use std::error::Error;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Value};
use redislock::{Held, Locks, Servers};
use rustix::time::{ClockId, clock_gettime};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const CLIENTS: usize = 8;
const KEY: &str = "contested";
const LEASE: Duration = Duration::from_secs(30);

/// A client of its own, and its lock, used as its users would use it.
enum Lock {
    Package(Locks),
    Raw(MultiplexedConnection),
}

enum Grant {
    Package(Held),
    Raw { connection: MultiplexedConnection, owner: String, fence: u64 },
}

impl Lock {
    async fn open(address: &str, who: &str) -> Result<Self> {
        let urls: Vec<String> = address.split(',').map(|node| format!("redis://{node}")).collect();
        if urls.len() > 1 {
            let nodes =
                urls.iter().map(|url| Client::open(&url[..])).collect::<redis::RedisResult<Vec<_>>>()?;
            return Ok(Self::Package(Locks::new(Servers::cluster(nodes))));
        }
        let client = Client::open(&urls[0][..])?;
        if who == "package" {
            return Ok(Self::Package(Locks::new(client)));
        }
        // A wait has no time limit.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(Self::Raw(client.get_multiplexed_async_connection_with_config(&config).await?))
    }

    async fn acquire(&self) -> Result<Grant> {
        match self {
            Self::Package(locks) => Ok(Grant::Package(locks.acquire(KEY).lease(LEASE).await?)),
            Self::Raw(connection) => {
                let (mut connection, owner) = (connection.clone(), uuid::Uuid::new_v4().to_string());
                let mut command = redis::cmd("LOCK.ACQUIRE");
                command.arg(KEY).arg("OWNER").arg(&owner).arg("PX").arg(LEASE.as_millis() as u64);
                command.arg("BLOCK").arg(0).arg("ONCE");
                let (_, fence, _, _): (Value, u64, Value, Value) =
                    command.query_async(&mut connection).await?;
                Ok(Grant::Raw { connection, owner, fence })
            }
        }
    }
}

impl Grant {
    async fn release(self) -> Result<()> {
        match self {
            Self::Package(held) => Ok(held.release().await?),
            Self::Raw { mut connection, owner, fence } => {
                let mut command = redis::cmd("LOCK.RELEASE");
                command.arg(KEY).arg(owner).arg("FENCE").arg(fence);
                Ok(command.query_async(&mut connection).await?)
            }
        }
    }
}

fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Acquires and releases until `end`. Returns when each grant came and was released.
async fn contend(lock: Lock, end: Instant, keep: Duration) -> Result<Vec<[i64; 2]>> {
    let mut grants = Vec::new();
    while Instant::now() < end {
        let grant = lock.acquire().await?;
        let granted = now();
        if !keep.is_zero() {
            tokio::time::sleep(keep).await;
        }
        grants.push([granted, now()]);
        grant.release().await?;
    }
    Ok(grants)
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [_mode, address, who, seconds, keep] = &arguments[..] else {
        return Err("usage: contest contend ADDRESS WHO SECONDS MS".into());
    };
    let mut locks = Vec::new();
    for _ in 0..CLIENTS {
        locks.push(Lock::open(address, who).await?);
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let keep = Duration::from_millis(keep.parse()?);
    let tasks: Vec<_> = locks.into_iter().map(|lock| tokio::spawn(contend(lock, end, keep))).collect();
    let mut lines = String::new();
    for (client, task) in tasks.into_iter().enumerate() {
        for [granted, released] in task.await?? {
            lines += &format!("{granted} {released} {client}\n");
        }
    }
    print!("{lines}");
    Ok(())
}
