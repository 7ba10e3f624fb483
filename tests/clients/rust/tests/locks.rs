//! The program for a shared connection: many tasks, two connections, the client's defaults.

#[allow(dead_code)]
#[path = "../docs/locks.rs"]
mod locks;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use locks::Locks;
use redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::{AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, RedisResult, Value, cmd};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

fn client() -> Client {
    Client::open(std::env::var("REDIS_URL").unwrap()).unwrap()
}

/// What looks on. Its replies may be late on a busy machine.
async fn other() -> MultiplexedConnection {
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
    client().get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

async fn locks() -> Arc<Locks<MultiplexedConnection>> {
    let connection = client().get_multiplexed_async_connection().await.unwrap();
    Arc::new(Locks::open(client(), connection).await.unwrap())
}

/// The reply to a command of these words.
async fn send<T: FromRedisValue>(line: &str, connection: &mut impl ConnectionLike) -> RedisResult<T> {
    let mut words = line.split(' ');
    cmd(words.next().unwrap()).arg(words.collect::<Vec<_>>()).query_async(connection).await
}

async fn until_waiters(count: u64, key: &str) {
    let (mut other, end) = (other().await, Instant::now() + Duration::from_secs(30));
    loop {
        let info: Vec<Value> = send(&format!("LOCK.INFO {key}"), &mut other).await.unwrap();
        let at = info.iter().position(|field| *field == Value::BulkString(b"waiters".to_vec())).unwrap();
        if info[at + 1] == Value::Int(count as i64) {
            return;
        }
        assert!(Instant::now() < end, "not within 30 s: {count} wait");
        sleep(Duration::from_millis(2)).await;
    }
}

async fn until_free(key: &str) {
    let (mut other, end) = (other().await, Instant::now() + Duration::from_secs(20));
    while send::<bool>(&format!("EXISTS {key}"), &mut other).await.unwrap() {
        assert!(Instant::now() < end, "not within 20 s: it is released");
        sleep(Duration::from_millis(2)).await;
    }
}

/// A lock that no other test has.
fn key() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// So many tasks at once; what they did, in order. After 30 the server of `cut` loses its subscriptions.
async fn all_at_once<C>(locks: Arc<Locks<C>>, count: usize, cut: Option<MultiplexedConnection>) -> Vec<usize>
where
    C: ConnectionLike + Clone + Send + Sync + 'static,
{
    let (key, inside, done) =
        (Arc::new(key()), Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut jobs = JoinSet::new();
    for number in 0..count {
        let (locks, key, inside, done, cut) =
            (locks.clone(), key.clone(), inside.clone(), done.clone(), cut.clone());
        jobs.spawn(async move {
            let job = async |_| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                sleep(Duration::from_millis(1)).await; // the others' chance
                inside.fetch_sub(1, Ordering::SeqCst);
                done.lock().await.push(number);
                if let (30, Some(cut)) = (done.lock().await.len(), &cut) {
                    assert_eq!(send::<u64>("CLIENT KILL TYPE pubsub", &mut cut.clone()).await, Ok(1));
                }
                Ok(())
            };
            locks.with_lock(&key, &[], 30_000, 60_000, job).await
        });
    }
    for result in jobs.join_all().await {
        result.unwrap();
    }
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
    assert_eq!(all_at_once(locks().await, 100, None).await, in_order(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_tasks_on_several_threads_are_served_one_by_one() {
    assert_eq!(sorted(all_at_once(locks().await, 100, None).await), in_order(100));
}

#[tokio::test]
async fn a_connection_manager_serves_as_well() {
    let locks = Locks::open(client(), ConnectionManager::new(client()).await.unwrap()).await.unwrap();
    assert_eq!(all_at_once(Arc::new(locks), 100, None).await, in_order(100));
}

#[tokio::test]
async fn in_a_cluster_a_hundred_tasks_are_served_one_by_one() {
    let url = std::env::var("CLUSTER_URL").unwrap();
    let cluster = ClusterClient::new([url.as_str()]).unwrap().get_async_connection().await.unwrap();
    let locks = Locks::open(Client::open(url).unwrap(), cluster).await.unwrap();
    assert_eq!(sorted(all_at_once(Arc::new(locks), 100, None).await), in_order(100));
}

#[tokio::test]
async fn all_are_served_though_the_subscription_is_cut() {
    // On a server of its own, so that no other test's subscription is cut.
    let urls = std::env::var("REDIS_URLS").unwrap();
    let client = Client::open(urls.rsplit(' ').next().unwrap()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let locks = Arc::new(Locks::open(client, connection.clone()).await.unwrap());
    assert_eq!(sorted(all_at_once(locks, 100, Some(connection)).await), in_order(100));
}

#[tokio::test]
async fn five_hundred_buyers_of_five_articles_and_nothing_is_sold_twice() {
    let (locks, mut shared, sale) = (locks().await, other().await, key());
    for article in 0..5 {
        send::<()>(&format!("SET {sale}:{article} 20"), &mut shared).await.unwrap();
    }
    let mut buyers = JoinSet::new();
    for buyer in 0..500 {
        let (locks, mut shared, stock) = (locks.clone(), shared.clone(), format!("{sale}:{}", buyer % 5));
        buyers.spawn(async move {
            let buy = async |_| {
                let left: u64 = send(&format!("GET {stock}"), &mut shared).await?;
                sleep(Duration::from_millis(1)).await; // the others' chance
                if left > 0 {
                    send::<()>(&format!("SET {stock} {}", left - 1), &mut shared).await?;
                }
                Ok(left > 0)
            };
            locks.with_lock(&format!("lock:{stock}"), &[], 30_000, 60_000, buy).await
        });
    }
    let sold = buyers.join_all().await.into_iter().filter(|answer| *answer.as_ref().unwrap()).count();
    assert_eq!(sold, 100);
    for article in 0..5 {
        assert_eq!(send::<u64>(&format!("GET {sale}:{article}"), &mut shared).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_lost_message_costs_seconds_and_not_the_lock() {
    let (locks, mut other, key) = (locks().await, other().await, key());
    send::<Value>(&format!("LOCK.ACQUIRE {key} OWNER other"), &mut other).await.unwrap();
    let waiting = tokio::spawn({
        let (locks, key) = (locks.clone(), key.clone());
        async move { locks.with_lock(&key, &[], 30_000, 60_000, async |fence| Ok(fence)).await }
    });
    until_waiters(1, &key).await;
    // Its place is taken over by another channel, as if the message were lost.
    let info: Value = send(&format!("LOCK.INFO {key} FULL"), &mut other).await.unwrap();
    let owner = last_owner(&info).unwrap();
    let mut elsewhere = client().get_async_pubsub().await.unwrap();
    elsewhere.subscribe(&key).await.unwrap();
    let ask = format!("LOCK.ACQUIRE {key} OWNER {owner} BLOCK 60000 NOTIFY {key} ONCE");
    assert_eq!(send::<String>(&ask, &mut other).await.unwrap(), "QUEUED");
    send::<Value>(&format!("LOCK.RELEASE {key} other"), &mut other).await.unwrap();
    assert!(waiting.await.unwrap().unwrap() > 0);
}

/// The value behind the last "owner" of a reply: the waiter's.
fn last_owner(value: &Value) -> Option<String> {
    let Value::Array(fields) = value else { return None };
    let own = fields.windows(2).rev().find(|pair| pair[0] == Value::BulkString(b"owner".to_vec()));
    fields.iter().rev().find_map(last_owner).or_else(|| String::from_redis_value_ref(&own?[1]).ok())
}

#[tokio::test]
async fn a_task_that_is_dropped_leaves_the_queue_and_gives_the_lock_back() {
    let (locks, key) = (locks().await, key());
    let enter = || {
        let (locks, key) = (locks.clone(), key.clone());
        tokio::spawn(async move {
            let hold = async |_| -> RedisResult<()> { std::future::pending().await };
            locks.with_lock(&key, &[], 600_000, 600_000, hold).await
        })
    };
    let holder = enter();
    let mut other = other().await;
    while !send::<bool>(&format!("EXISTS {key}"), &mut other).await.unwrap() {
        sleep(Duration::from_millis(2)).await;
    }
    let waiter = enter();
    until_waiters(1, &key).await;
    waiter.abort();
    until_waiters(0, &key).await;
    holder.abort();
    until_free(&key).await;
    assert!(waiter.await.unwrap_err().is_cancelled() && holder.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_task_leaves_nothing_behind_wherever_it_is_dropped() {
    let (locks, key) = (locks().await, key());
    for steps in 0..30 {
        let task = tokio::spawn({
            let (locks, key) = (locks.clone(), key.clone());
            async move { locks.with_lock(&key, &[], 600_000, 600_000, async |_| Ok(())).await }
        });
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        task.abort();
        let _ = task.await;
        until_free(&key).await;
    }
}

#[tokio::test]
async fn a_task_waits_no_longer_than_asked_and_leaves_the_queue() {
    let (locks, key) = (locks().await, key());
    let inner = async |_| {
        let told = locks
            .with_lock(&key, &[], 30_000, 20, async |_| -> RedisResult<()> { panic!("two have it") })
            .await;
        assert!(told.unwrap_err().to_string().contains("someone else holds"));
        until_waiters(0, &key).await;
        Ok(())
    };
    locks.with_lock(&key, &[], 30_000, 0, inner).await.unwrap();
}

#[tokio::test]
async fn a_lost_lock_does_not_go_unnoticed_and_hides_nothing() {
    let (locks, other, key) = (locks().await, other().await, key());
    let lose = async || send::<Value>(&format!("LOCK.BREAK {key}"), &mut other.clone()).await;
    let lost = locks.with_lock(&key, &[], 30_000, 0, async |_| lose().await).await.unwrap_err();
    assert_eq!(lost.code(), Some("NOTHELD"));
    let failed = locks.with_lock(&key, &[], 30_000, 0, async |_| -> RedisResult<()> {
        lose().await?;
        Err((ErrorKind::Client, "of the body").into())
    });
    assert!(failed.await.unwrap_err().to_string().contains("of the body"));
    send::<()>(&format!("SET {key} no-lock"), &mut other.clone()).await.unwrap();
    let no_lock =
        locks.with_lock(&key, &[], 30_000, 0, async |_| -> RedisResult<()> { panic!("no lock") }).await;
    assert_eq!(no_lock.unwrap_err().code(), Some("WRONGTYPE"));
}

#[tokio::test]
async fn a_task_that_is_sent_away_is_told_why() {
    let (locks, mut other, key) = (locks().await, other().await, key());
    send::<Value>(&format!("LOCK.ACQUIRE {key} OWNER other"), &mut other).await.unwrap();
    let waiting = tokio::spawn({
        let key = key.clone();
        async move { locks.with_lock(&key, &[], 30_000, 60_000, async |fence| Ok(fence)).await }
    });
    until_waiters(1, &key).await;
    send::<()>(&format!("SET {key} no-lock"), &mut other).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Some("WRONGTYPE"));
}
