//! `redislock bench`: how fast locks change hands on a server, compared with programs that don't use the module.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{RedisResult, Value, cmd};
use redislock::blocking::Locks;

use crate::connect::{Link, Target};
use crate::failure::{Failure, OTHER};
use crate::lock;
use crate::locks::print;
use crate::options::Bench;
use crate::text::table;

/// How often a program without the module asks for a lock that another one holds: the default of redis-py, and of many other libraries.
const POLL: Duration = Duration::from_millis(100);
/// The script with which a program without the module releases its lock: it deletes the key only if the lock is still this program's own.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const LEASE_MS: u64 = 10_000;

/// Ends all threads of a measurement when it is dropped, even after a failure.
struct Ended(AtomicBool);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn main(target: &Target, asked: &Bench) -> Result<u8, Failure> {
    let name = format!("redislock:bench:{}", std::process::id());
    // Check the rights first: an error from a script does not say which right is missing.
    lock::needs(target.link()?, target, &["GET", "DEL"].map(|command| cmd(command).arg(&name).take()))?;
    let mut link = target.link()?;
    // Each key has an expiry, so an interrupted run leaves no key behind for longer than that.
    let keys: Vec<String> =
        ["own", "own:set", "all", "all:set"].map(|part| format!("{name}:{part}")).to_vec();
    let result = measure(target, &mut link, asked, &keys);
    for key in &keys {
        let _: RedisResult<Value> = link.ask(cmd("DEL").arg(key));
    }
    let rates = result?;
    let [own, own_set, all, all_set] = rates.map(|count| count / asked.time.as_secs_f64());
    let row = |what: String, ours: f64, theirs: f64| {
        vec![what, format!("{ours:.0}"), format!("{theirs:.0}"), format!("{:.1}x", ours / theirs.max(0.01))]
    };
    let heading = ["", "Redislock", "SET NX + Lua", "ratio"].map(str::to_owned).to_vec();
    let rows = [
        heading,
        row("lock and unlock, alone, a second".to_owned(), own, own_set),
        row(format!("handovers between {} clients, a second", asked.clients), all, all_set),
    ];
    print(&format!(
        "{}\nSET NX PX asks every {} ms, as redis-py does, and releases by Lua. Each number is of {:?} on {}.\n",
        table(&rows, None),
        POLL.as_millis(),
        asked.time,
        target.address()
    ))?;
    Ok(0)
}

fn measure(target: &Target, link: &mut Link, asked: &Bench, keys: &[String]) -> Result<[f64; 4], Failure> {
    let [own, own_set, all, all_set] = keys else {
        return Err(Failure::new(OTHER, "four keys are wanted"));
    };
    let failed = |error: &redis::RedisError| Failure::of(error, "measuring", &target.address());
    Ok([
        alone(asked.time, || pair(link, own)).map_err(|error| failed(&error))?,
        alone(asked.time, || set_pair(link, own_set).map(drop)).map_err(|error| failed(&error))?,
        handovers(target, asked, all)?,
        polled(target, asked, all_set)?,
    ])
}

/// Runs `work` again and again for this long. Returns how many times a second it ran.
fn alone(time: Duration, mut work: impl FnMut() -> RedisResult<()>) -> RedisResult<f64> {
    let end = Instant::now() + time;
    let mut count = 0.0;
    while Instant::now() < end {
        work()?;
        count += 1.0;
    }
    Ok(count)
}

fn pair(link: &mut Link, key: &str) -> RedisResult<()> {
    let _: Value =
        link.ask(cmd("LOCK.ACQUIRE").arg(key).arg("OWNER").arg("bench").arg("PX").arg(LEASE_MS))?;
    let _: Value = link.ask(cmd("LOCK.RELEASE").arg(key).arg("bench"))?;
    Ok(())
}

/// Tries to lock and unlock with SET NX. Returns whether the lock was free.
fn set_pair(link: &mut Link, key: &str) -> RedisResult<bool> {
    let owner = format!("{:?}", thread::current().id());
    let set: Value = link.ask(cmd("SET").arg(key).arg(&owner).arg("NX").arg("PX").arg(LEASE_MS))?;
    if set == Value::Nil {
        return Ok(false);
    }
    let _: Value = link.ask(cmd("EVAL").arg(RELEASE).arg(1).arg(key).arg(&owner))?;
    Ok(true)
}

/// Has clients of one program contend for one lock, through the package. Returns how often the lock changed hands.
fn handovers(target: &Target, asked: &Bench, key: &str) -> Result<f64, Failure> {
    let locks = Locks::new(target.servers()?);
    contest(asked, |_| {
        let locks = locks.clone();
        Ok(move || {
            let lease = Duration::from_millis(LEASE_MS);
            let held = locks.acquire(key).lease(lease).wait(Duration::from_secs(10)).block();
            held.and_then(redislock::blocking::Held::release)
                .map(|()| true)
                .map_err(|error| Failure::of_lock(&error, "measuring", &target.address()))
        })
    })
}

/// As `handovers`, but with SET NX. After its turn, a client waits before it tries again: otherwise it would always be the first one.
fn polled(target: &Target, asked: &Bench, key: &str) -> Result<f64, Failure> {
    contest(asked, |number| {
        let mut link = target.link()?;
        thread::sleep(POLL * number / u32::from(asked.clients.max(1)));
        Ok(move || {
            let done =
                set_pair(&mut link, key).map_err(|error| Failure::of(&error, "measuring", &target.address()));
            thread::sleep(POLL);
            done
        })
    })
}

fn contest<W: FnMut() -> Result<bool, Failure> + Send>(
    asked: &Bench,
    start: impl Fn(u32) -> Result<W, Failure> + Sync,
) -> Result<f64, Failure> {
    let (count, last) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let ended = Ended(AtomicBool::new(false));
    thread::scope(|scope| {
        let client = |number: u32| {
            let (count, last, ended, start) = (&count, &last, &ended, &start);
            scope.spawn(move || -> Result<(), Failure> {
                let mut work = start(number)?;
                while !ended.0.load(Ordering::Relaxed) {
                    if work()? && last.swap(number.into(), Ordering::Relaxed) != u64::from(number) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(())
            })
        };
        let clients: Vec<_> = (0..u32::from(asked.clients)).map(client).collect();
        thread::sleep(asked.time);
        ended.0.store(true, Ordering::Relaxed);
        for client in clients {
            client
                .join()
                .unwrap_or_else(|_| Err(Failure::new(OTHER, "a client of the benchmark has failed")))?;
        }
        Ok(())
    })?;
    #[expect(clippy::cast_precision_loss, reason = "no count of a few seconds is as large")]
    Ok(count.load(Ordering::Relaxed) as f64)
}
