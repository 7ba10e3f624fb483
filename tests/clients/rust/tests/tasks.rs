//! What the conformance scenarios can't try, since it is that of tokio: tasks that are dropped, runtimes that end, work that ends early.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult, Value};
use redislock::{Error, Locks, Servers};
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

#[tokio::test]
async fn tasks_take_turns_on_a_cluster() {
    let url = std::env::var("CLUSTER_URL").unwrap();
    let cluster = ClusterClient::new([url.as_str()]).unwrap();
    let locks = Locks::new(Servers::cluster(cluster, [Client::open(url).unwrap()]));
    let (key, fences, mut jobs) = (key(), Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    for _ in 0..100 {
        let (locks, key, fences) = (locks.clone(), key.clone(), fences.clone());
        jobs.spawn(async move {
            let held = locks.acquire(&key).wait(MINUTE).await.unwrap();
            fences.lock().unwrap().push(held.fence());
            held.release().await.unwrap();
        });
    }
    jobs.join_all().await;
    let fences = fences.lock().unwrap();
    assert!(fences.len() == 100 && fences.is_sorted());
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

#[test]
fn with_the_runtime_of_the_first_acquire_all_ends() {
    let (locks, taken) = (Locks::new(client()), key());
    let (first, second) = (tokio::runtime::Runtime::new().unwrap(), tokio::runtime::Runtime::new().unwrap());
    let held = first.block_on(locks.acquire(key()).into_future()).unwrap();
    let (other, wait) = second.block_on(async {
        let mut other = other().await;
        send::<Value>(&format!("LOCK.ACQUIRE {taken} OWNER other"), &mut other).await.unwrap();
        (other, waiting(&locks, &taken).await)
    });
    drop(first);
    second.block_on(async {
        assert!(matches!(timeout(MINUTE, held.lost()).await.unwrap(), Error::Lost(_)));
        assert!(matches!(timeout(MINUTE, wait).await.unwrap().unwrap(), Err(Error::Invalid(_))));
        assert!(matches!(timeout(MINUTE, held.extend(MINUTE)).await.unwrap(), Err(Error::Lost(_))));
        assert!(matches!(timeout(MINUTE, held.release()).await.unwrap(), Err(Error::Lost(_))));
        timeout(MINUTE, locks.settled()).await.unwrap();
        drop(other);
    });
}

#[tokio::test]
async fn a_lost_lock_drops_the_work_inside_which_gives_its_own_lock_back() {
    let (locks, outer, inner) = (Locks::new(client()), key(), key());
    let held = locks.acquire(&outer).await.unwrap();
    let work = held.run(async {
        let _inside = locks.acquire(&inner).await.unwrap();
        send::<Value>(&format!("LOCK.BREAK {outer}"), &mut other().await).await.unwrap();
        std::future::pending::<()>().await;
    });
    assert!(matches!(timeout(MINUTE, work).await.unwrap(), Err(Error::Lost(why)) if why.contains(&outer)));
    locks.settled().await;
    assert!(!exists(&inner).await);
}
