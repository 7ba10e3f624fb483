//! The package with tasks of tokio, many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult, Value};
use redislock::{Error, Locks, Servers};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const MINUTE: Duration = Duration::from_secs(60);

fn client() -> Client {
    Client::open(std::env::var("REDIS_URL").unwrap()).unwrap()
}

/// What looks on. Its replies may be late on a busy machine.
async fn other() -> MultiplexedConnection {
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(MINUTE));
    client().get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

/// The reply to a command of these words.
async fn send<T: FromRedisValue>(line: &str, connection: &mut MultiplexedConnection) -> RedisResult<T> {
    let mut words = line.split(' ');
    redis::cmd(words.next().unwrap()).arg(words.collect::<Vec<_>>()).query_async(connection).await
}

async fn until_waiters(count: i64, key: &str) {
    let (mut other, end) = (other().await, Instant::now() + MINUTE);
    loop {
        let info: Vec<Value> = send(&format!("LOCK.INFO {key}"), &mut other).await.unwrap();
        let at = info.iter().position(|field| *field == Value::BulkString(b"waiters".to_vec())).unwrap();
        if info[at + 1] == Value::Int(count) {
            return;
        }
        assert!(Instant::now() < end, "not within a minute: {count} wait");
        sleep(Duration::from_millis(2)).await;
    }
}

async fn exists(key: &str) -> bool {
    send(&format!("EXISTS {key}"), &mut other().await).await.unwrap()
}

/// A lock that no other test has.
fn key() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// So many tasks at once; what they did, in order. After 30 the server of `cut` loses its subscriptions.
async fn all_at_once(locks: Locks, count: usize, cut: Option<MultiplexedConnection>) -> Vec<usize> {
    let (key, inside, done) = (key(), Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut jobs = JoinSet::new();
    for number in 0..count {
        let (locks, key, inside, done, cut) =
            (locks.clone(), key.clone(), inside.clone(), done.clone(), cut.clone());
        jobs.spawn(async move {
            let held = locks.acquire(&key).wait(MINUTE).await.unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
            sleep(Duration::from_millis(1)).await; // the others' chance
            inside.fetch_sub(1, Ordering::SeqCst);
            done.lock().await.push(number);
            if let (30, Some(mut cut)) = (done.lock().await.len(), cut) {
                assert_eq!(send::<u64>("CLIENT KILL TYPE pubsub", &mut cut).await, Ok(1));
            }
            held.release().await.unwrap();
        });
    }
    jobs.join_all().await;
    Arc::into_inner(done).unwrap().into_inner()
}

fn in_order(count: usize) -> Vec<usize> {
    (0..count).collect()
}

fn sorted(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort();
    numbers
}

// On one thread, tasks run in the order in which they were spawned: so that is the order in which they ask.
#[tokio::test]
async fn a_hundred_tasks_are_served_one_by_one_as_they_asked() {
    assert_eq!(all_at_once(Locks::new(client()), 100, None).await, in_order(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_tasks_on_several_threads_are_served_one_by_one() {
    assert_eq!(sorted(all_at_once(Locks::new(client()), 100, None).await), in_order(100));
}

#[tokio::test]
async fn in_a_cluster_a_hundred_tasks_are_served_one_by_one() {
    let url = std::env::var("CLUSTER_URL").unwrap();
    let cluster = ClusterClient::new([url.as_str()]).unwrap();
    let locks = Locks::new(Servers::cluster(cluster, [Client::open(url).unwrap()]));
    assert_eq!(sorted(all_at_once(locks.clone(), 100, None).await), in_order(100));
    locks.acquire_all(["{bank}:3", "{bank}:4"]).wait(MINUTE).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn all_are_served_though_the_subscription_is_cut() {
    // On a server of its own, so that no other test's subscription is cut.
    let urls = std::env::var("REDIS_URLS").unwrap();
    let client = Client::open(urls.rsplit(' ').next().unwrap()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    assert_eq!(sorted(all_at_once(Locks::new(client), 100, Some(connection)).await), in_order(100));
}

#[tokio::test]
async fn a_task_leaves_nothing_behind_wherever_it_is_dropped() {
    let (locks, key) = (Locks::new(client()), key());
    for steps in 0..30 {
        let task = tokio::spawn({
            let (locks, key) = (locks.clone(), key.clone());
            async move {
                let held = locks.acquire(&key).await.unwrap();
                held.release().await.unwrap();
            }
        });
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        task.abort();
        let _ = task.await;
        locks.settled().await;
        assert!(!exists(&key).await, "after {steps} steps");
    }
}

/// A task that waits for that lock.
async fn waiting(locks: &Locks, key: &str) -> tokio::task::JoinHandle<Result<(), Error>> {
    let wait = tokio::spawn({
        let (locks, key) = (locks.clone(), key.to_owned());
        async move { locks.acquire(&key).await.map(drop) }
    });
    until_waiters(1, key).await;
    wait
}

#[tokio::test]
async fn a_wait_that_is_dropped_leaves_its_place() {
    let (locks, key) = (Locks::new(client()), key());
    let held = locks.acquire(&key).await.unwrap();
    let wait = waiting(&locks, &key).await;
    wait.abort();
    assert!(wait.await.unwrap_err().is_cancelled());
    locks.settled().await;
    until_waiters(0, &key).await;
    drop(held);
    locks.settled().await;
    assert!(!exists(&key).await);
}

#[tokio::test]
async fn work_ends_where_it_stands_when_the_lock_is_lost() {
    let (locks, key) = (Locks::new(client()), key());
    let held = locks.acquire(&key).await.unwrap();
    assert_eq!(held.run(async { 7 }).await.unwrap(), 7);
    let lost = held.run(async {
        send::<Value>(&format!("LOCK.BREAK {key}"), &mut other().await).await.unwrap();
        std::future::pending::<()>().await;
    });
    assert!(matches!(timeout(MINUTE, lost).await.unwrap(), Err(Error::Lost(_))));
    assert!(matches!(held.check(), Err(Error::Lost(_))));
    assert!(matches!(held.release().await, Err(Error::Lost(_))));
}

#[tokio::test]
async fn a_wait_on_what_is_no_lock_is_told_so() {
    let (locks, mut other, key) = (Locks::new(client()), other().await, key());
    send::<Value>(&format!("LOCK.ACQUIRE {key} OWNER other"), &mut other).await.unwrap();
    let wait = waiting(&locks, &key).await;
    send::<()>(&format!("SET {key} no-lock"), &mut other).await.unwrap();
    assert!(matches!(wait.await.unwrap(), Err(Error::Redis(error)) if error.code() == Some("WRONGTYPE")));
}

#[tokio::test]
async fn closed_locks_hold_nothing_and_wait_for_nothing() {
    let (locks, key) = (Locks::new(client()), key());
    let held = locks.acquire(&key).await.unwrap();
    let wait = waiting(&locks, &key).await;
    locks.close().await;
    assert!(matches!(wait.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(held.lost().await, Error::Closed));
    assert!(!exists(&key).await);
    assert!(matches!(locks.acquire(&key).await, Err(Error::Closed)));
    held.release().await.unwrap(); // that was done by `close`
}

#[test]
fn locks_whose_runtime_has_ended_refuse_rather_than_wait_for_ever() {
    let locks = Locks::new(client());
    let acquired = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async { timeout(MINUTE, locks.acquire(key())).await.unwrap().map(drop) })
    };
    acquired().unwrap();
    assert!(matches!(acquired(), Err(Error::Invalid(_))));
}
