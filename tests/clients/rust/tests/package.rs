//! Tests what only concerns Rust: guards and panics, callbacks, clones; dropped tasks, ended runtimes, and work that ends early.

use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, FromRedisValue, Value};
use redislock::blocking::{Held, Locks};
use redislock::{Error, Locks as TaskLocks};
use tokio::runtime::Runtime;
use tokio::time::timeout;

const MINUTE: Duration = Duration::from_secs(60);

fn client() -> Client {
    Client::open(std::env::var("REDIS_URL").unwrap()).unwrap()
}

/// A new key, which no other test uses.
fn key() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Sends a command with these words on a new connection, and returns the reply.
fn send<T: FromRedisValue>(line: &str) -> T {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>()).query(&mut client().get_connection().unwrap()).unwrap()
}

fn exists(key: &str) -> bool {
    send(&format!("EXISTS {key}"))
}

fn lose(key: &str) {
    assert_eq!(send::<u32>(&format!("LOCK.BREAK {key}")), 1);
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + MINUTE;
    while !condition() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn until_one_waits(key: &str) {
    until("one waits", || {
        let info: Vec<Value> = send(&format!("LOCK.INFO {key}"));
        let at = info.iter().position(|field| *field == Value::BulkString(b"waiters".to_vec())).unwrap();
        info[at + 1] == Value::Int(1)
    });
}

fn acquire(locks: &Locks, key: &str) -> Held {
    locks.acquire(key).wait(MINUTE).block().unwrap()
}

#[test]
fn a_guard_gives_the_lock_back_even_in_a_panic() {
    let (locks, key) = (Locks::new(client()), key());
    let held = acquire(&locks, &key);
    let panicked = thread::spawn(move || {
        let held = held; // moves the whole guard into the thread
        panic!("with fence {}", held.fence());
    });
    assert!(panicked.join().is_err());
    locks.settled();
    assert!(!exists(&key));
}

#[test]
fn a_loss_is_told_once_by_all_that_tell_of_it_and_hinders_no_lock_inside() {
    let (locks, outer, inner) = (Locks::new(client()), key(), key());
    let (held, inside) = (acquire(&locks, &outer), acquire(&locks, &inner));
    let (told, telling) = std::sync::mpsc::channel();
    held.on_lost(|error| panic!("of the user: {error}")); // a user's panic ends no thread of the package
    held.on_lost(move |error| told.send(error).unwrap());
    held.check().unwrap();
    lose(&outer);
    assert!(matches!(telling.recv_timeout(MINUTE), Ok(Error::Lost(_))));
    assert!(telling.recv_timeout(MINUTE).is_err()); // told only once: the sender was dropped
    assert!(matches!(held.check(), Err(Error::Lost(_))));
    assert!(matches!(held.extend(MINUTE), Err(Error::Lost(_))));
    inside.check().unwrap();
    inside.release().unwrap();
    assert!(matches!(held.release(), Err(Error::Lost(_))));
    assert!(!exists(&inner));
    acquire(&locks, &outer).release().unwrap();
}

#[test]
fn closed_locks_hold_nothing_and_wait_for_nothing() {
    let (locks, key) = (Locks::new(client()), key());
    let held = acquire(&locks, &key);
    thread::scope(|scope| {
        let wait = scope.spawn(|| locks.acquire(&key).wait(MINUTE).block());
        until_one_waits(&key);
        locks.close();
        assert!(matches!(wait.join().unwrap(), Err(Error::Closed)));
    });
    assert!(matches!(held.check(), Err(Error::Closed)));
    assert!(!exists(&key));
    assert!(matches!(locks.acquire(&key).block(), Err(Error::Closed)));
}

/// Dropping the last handle ends the threads, and so the connections.
#[test]
fn locks_that_nobody_has_any_more_leave_no_connection() {
    let (user, taken) = (key(), key());
    send::<()>(&format!("ACL SETUSER {user} on nopass ~* &* +@all"));
    let url = std::env::var("REDIS_URL").unwrap().replace("redis://", &format!("redis://{user}:any@"));
    let connections = || send::<String>("CLIENT LIST").lines().filter(|line| line.contains(&user)).count();
    let locks = Locks::new(Client::open(url).unwrap());
    let another = locks.clone();
    let held = acquire(&locks, &taken);
    drop((locks, another));
    assert_eq!(connections(), 2);
    held.check().unwrap();
    drop(held);
    until("no connection stays", || connections() == 0);
    until("it is released", || !exists(&taken));
}

#[tokio::test]
async fn a_task_leaves_nothing_behind_wherever_it_is_dropped() {
    let (locks, key) = (TaskLocks::new(client()), key());
    for steps in 0..30 {
        let task = tokio::spawn({
            let (locks, key) = (locks.clone(), key.clone());
            async move { locks.acquire(&key).await.unwrap().release().await.unwrap() }
        });
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        task.abort();
        let _ = task.await;
        locks.settled().await;
        assert!(!exists(&key), "after {steps} steps");
    }
}

#[tokio::test]
async fn a_lost_lock_drops_the_work_inside_which_gives_its_own_lock_back() {
    let (locks, outer, inner) = (TaskLocks::new(client()), key(), key());
    let held = locks.acquire(&outer).await.unwrap();
    assert_eq!(held.run(async { 7 }).await.unwrap(), 7);
    let work = held.run(async {
        let _inside = locks.acquire(&inner).await.unwrap();
        lose(&outer);
        std::future::pending::<()>().await;
    });
    assert!(matches!(timeout(MINUTE, work).await.unwrap(), Err(Error::Lost(why)) if why.contains(&outer)));
    assert!(matches!(held.check(), Err(Error::Lost(_))));
    assert!(matches!(held.release().await, Err(Error::Lost(_))));
    locks.settled().await;
    assert!(!exists(&inner));
}

/// Starts a task that waits for the lock.
fn waiting(runtime: &Runtime, locks: &TaskLocks, key: &str) -> tokio::task::JoinHandle<Result<(), Error>> {
    let wait = runtime.spawn({
        let (locks, key) = (locks.clone(), key.to_owned());
        async move { locks.acquire(&key).await.map(drop) }
    });
    until_one_waits(key);
    wait
}

#[test]
fn a_wait_ends_when_its_key_is_no_lock_any_more_and_when_the_locks_are_closed() {
    let (runtime, locks, key) = (Runtime::new().unwrap(), TaskLocks::new(client()), key());
    send::<Value>(&format!("LOCK.ACQUIRE {key} OWNER other"));
    let wait = waiting(&runtime, &locks, &key);
    send::<()>(&format!("SET {key} no-lock"));
    let told = runtime.block_on(wait).unwrap();
    assert!(matches!(told, Err(Error::Redis(error)) if error.code() == Some("WRONGTYPE")));

    send::<Value>(&format!("DEL {key}"));
    let held = runtime.block_on(locks.acquire(&key).into_future()).unwrap();
    let wait = waiting(&runtime, &locks, &key);
    runtime.block_on(async {
        locks.close().await;
        assert!(matches!(wait.await.unwrap(), Err(Error::Closed)));
        assert!(matches!(locks.acquire(&key).await, Err(Error::Closed)));
        held.release().await.unwrap(); // `close` has released it before
    });
}

#[test]
fn with_the_runtime_of_the_first_acquire_all_ends() {
    let (locks, taken) = (TaskLocks::new(client()), key());
    let (first, second) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let held = first.block_on(locks.acquire(key()).into_future()).unwrap();
    send::<Value>(&format!("LOCK.ACQUIRE {taken} OWNER other"));
    let wait = waiting(&second, &locks, &taken);
    drop(first);
    second.block_on(async {
        assert!(matches!(timeout(MINUTE, held.lost()).await.unwrap(), Error::Lost(_)));
        assert!(matches!(timeout(MINUTE, wait).await.unwrap().unwrap(), Err(Error::Invalid(_))));
        assert!(matches!(timeout(MINUTE, held.extend(MINUTE)).await.unwrap(), Err(Error::Lost(_))));
        assert!(matches!(timeout(MINUTE, held.release()).await.unwrap(), Err(Error::Lost(_))));
        assert!(matches!(timeout(MINUTE, locks.acquire(key())).await.unwrap(), Err(Error::Invalid(_))));
        timeout(MINUTE, locks.settled()).await.unwrap();
    });
}
