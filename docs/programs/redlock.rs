//! A lock over several independent servers: docs/redlock.md says what it guarantees. `cargo add redis uuid --features uuid/v4`.
//!
//! If the lock was lost while the body ran, `with` returns that error instead of the body's value. After a panic in the body, the
//! lock stays held until its lease ends.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, Cmd, Connection, RedisResult, Value, cmd};
use uuid::Uuid;

/// A server that is away must cost little of the lease.
const TIMEOUT: Duration = Duration::from_millis(500);

/// No majority: someone else holds the lock, it was lost, or too many servers are down.
#[derive(Debug)]
pub struct NotLocked(String);

impl fmt::Display for NotLocked {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotLocked {}

struct Server {
    client: Client,
    connection: Option<Connection>,
}

impl Server {
    fn ask(&mut self, command: &Cmd) -> RedisResult<Value> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connection = self.client.get_connection_with_timeout(TIMEOUT)?;
                connection.set_read_timeout(Some(TIMEOUT))?;
                connection.set_write_timeout(Some(TIMEOUT))?;
                connection
            }
        };
        let answer = command.query(&mut connection);
        // After a timeout, the next answer on this connection would be the late one.
        if answer.as_ref().err().is_none_or(|error| !error.is_io_error()) {
            self.connection = Some(connection);
        }
        answer
    }
}

/// An owner's lock over independent servers.
pub struct Redlock {
    servers: Vec<Server>,
    key: String,
    owner: String,
    lease: Duration,
    wait: Duration,
    holds: u32,
    until: Instant,
    /// By the server's place; none: it did not grant it.
    pub fences: Vec<Option<u64>>,
}

impl Redlock {
    pub fn new(urls: &[String], key: &str, lease: Duration, wait: Duration) -> RedisResult<Self> {
        let server = |url: &String| Ok(Server { client: Client::open(url.as_str())?, connection: None });
        Ok(Redlock {
            servers: urls.iter().map(server).collect::<RedisResult<_>>()?,
            key: key.to_string(),
            owner: Uuid::new_v4().to_string(),
            lease,
            wait,
            holds: 0,
            until: Instant::now(),
            fences: Vec::new(),
        })
    }

    /// Holds the lock for the body. The lock that the body is given can be re-entered and extended.
    pub fn with<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> Result<T, NotLocked> {
        self.acquire()?;
        let value = body(self);
        self.release()?;
        Ok(value)
    }

    fn command(&self, name: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(&self.key);
        command
    }

    /// What all servers say, asked at once. One that is away says an error.
    fn ask(&mut self, command: &Cmd) -> Vec<RedisResult<Value>> {
        thread::scope(|scope| {
            let asked: Vec<_> =
                self.servers.iter_mut().map(|server| scope.spawn(|| server.ask(command))).collect();
            asked.into_iter().map(|answer| answer.join().expect("asking does not panic")).collect()
        })
    }

    fn majority(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// Until when a majority's yes lasts, if it does at all.
    fn lasts(&self, start: Instant, yes: usize) -> Option<Instant> {
        let until = start + self.lease.mul_f64(0.99).saturating_sub(Duration::from_millis(2));
        (yes >= self.majority() && Instant::now() < until).then_some(until)
    }

    pub fn acquire(&mut self) -> Result<(), NotLocked> {
        let end = Instant::now() + self.wait;
        let lease = self.lease.as_millis() as u64;
        let mut acquire = self.command("LOCK.ACQUIRE");
        acquire.arg("OWNER").arg(&self.owner).arg("PX").arg(lease).arg("ONCE");
        loop {
            let start = Instant::now();
            if self.holds > 0 && start >= self.until {
                return Err(NotLocked(format!("{}: lost", self.key)));
            }
            let answers = self.ask(&acquire);
            let fence = |answer: &RedisResult<Value>| match answer {
                Ok(Value::Array(grant)) => {
                    grant.get(1).and_then(|fence| redis::from_redis_value_ref(fence).ok())
                }
                _ => None,
            };
            let fences: Vec<Option<u64>> = answers.iter().map(fence).collect();
            let yes = fences.iter().flatten().count();
            if let Some(until) = self.lasts(start, yes) {
                (self.until, self.fences) = (until, fences);
                self.holds += 1;
                return Ok(());
            }
            if self.holds == 0 {
                self.release_all();
            }
            if Instant::now() >= end {
                return Err(NotLocked(format!(
                    "{}: {yes} of {} servers granted it: {answers:?}",
                    self.key,
                    self.servers.len()
                )));
            }
            thread::sleep(Duration::from_millis(10 + Uuid::new_v4().as_u128() as u64 % 90));
        }
    }

    pub fn extend(&mut self) -> Result<(), NotLocked> {
        let start = Instant::now();
        let mut extend = self.command("LOCK.EXTEND");
        extend.arg(&self.owner).arg("PX").arg(self.lease.as_millis() as u64);
        let answers = self.ask(&extend);
        let yes = answers.iter().filter(|answer| answer.is_ok()).count();
        let until = self.lasts(start, yes);
        self.until = until.ok_or_else(|| NotLocked(format!("{}: not extended: {answers:?}", self.key)))?;
        Ok(())
    }

    pub fn release(&mut self) -> Result<(), NotLocked> {
        self.holds -= 1;
        if self.holds > 0 {
            return Ok(());
        }
        let over = Instant::now() >= self.until;
        let lost = self.release_all();
        if over || self.servers.len() - lost < self.majority() {
            return Err(NotLocked(format!("{}: lost meanwhile", self.key)));
        }
        Ok(())
    }

    /// How many servers say NOTHELD.
    fn release_all(&mut self) -> usize {
        let mut release = self.command("LOCK.RELEASE");
        release.arg(&self.owner).arg("ALL");
        let refused =
            |answer: &RedisResult<Value>| answer.as_ref().is_err_and(|error| error.code() == Some("NOTHELD"));
        self.ask(&release).iter().filter(|answer| refused(answer)).count()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let urls = std::env::var("REDIS_URLS").unwrap_or_else(|_| {
        "redis://localhost:6379 redis://localhost:6380 redis://localhost:6381".to_string()
    });
    let urls: Vec<String> = urls.split(' ').map(str::to_string).collect();
    let mut lock = Redlock::new(&urls, "invoice:42", Duration::from_secs(10), Duration::from_secs(10))?;
    lock.with(|lock| {
        println!("held with fences {:?}", lock.fences);
        lock.with(|lock| lock.extend())
    })???;
    Ok(())
}
