//! Raw commands through redis-rs: on connections of threads and on a shared one of async tasks, in RESP2 and RESP3.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Connection, FromRedisValue, RedisError, RedisResult, Value};

type Grant = Option<(String, u64, u64, i64)>;

fn client(protocol: &str) -> Client {
    let url = std::env::var("REDIS_URL").unwrap();
    Client::open(format!("{url}/?protocol={protocol}")).unwrap()
}

fn connect(protocol: &str) -> Connection {
    client(protocol).get_connection().unwrap()
}

/// A command from its words.
fn words(line: String) -> Cmd {
    let mut cmd = Cmd::new();
    cmd.arg(line.split(' ').collect::<Vec<_>>());
    cmd
}

/// A lock that no other test has.
fn key() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn not_held(error: &RedisError) -> bool {
    error.code() == Some("NOTHELD")
}

/// How many wait: LOCK.INFO is pairs in a row in RESP2, a map in RESP3.
fn waiters(info: Value) -> u64 {
    let info = HashMap::<String, Value>::from_redis_value(info).unwrap();
    u64::from_redis_value(info["waiters"].clone()).unwrap()
}

fn until_one_waits(connection: &mut Connection, key: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    while waiters(words(format!("LOCK.INFO {key}")).query(connection).unwrap()) != 1 {
        assert!(Instant::now() < end, "nobody waits");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Takes, re-enters, resumes, extends, waits for and releases a lock, by whatever sends the words.
fn from_grant_to_end(
    mut send: impl FnMut(String) -> RedisResult<Value>,
    mut send_elsewhere: impl FnMut(String) -> RedisResult<Value>,
    wait: impl FnOnce(String) -> RedisResult<Value> + Send,
    watcher: &mut Connection,
) {
    let key = key();
    let grant = |value: RedisResult<Value>| Grant::from_redis_value(value.unwrap()).unwrap();
    let acquire = format!("LOCK.ACQUIRE {key} OWNER alice PX 30000");
    let (owner, fence, holds, lease) = grant(send(acquire.clone())).unwrap();
    assert_eq!((owner.as_str(), holds, lease), ("alice", 1, 30_000));
    let (_, again, holds, _) = grant(send(acquire.clone())).unwrap();
    assert_eq!((again, holds), (fence, 2));
    // The same owner on another connection: the same grant, without another hold.
    let (_, again, holds, _) = grant(send_elsewhere(format!("{acquire} ONCE"))).unwrap();
    assert_eq!((again, holds), (fence, 2));
    assert_eq!(send(format!("LOCK.EXTEND {key} alice EX 60 FENCE {fence}")).unwrap(), Value::Int(60_000));
    assert_eq!(grant(send(format!("LOCK.ACQUIRE {key} OWNER bob"))), None);

    let waiting = format!("LOCK.ACQUIRE {key} OWNER bob PX 30000 BLOCK 0");
    let next = thread::scope(|scope| {
        let next = scope.spawn(|| wait(waiting));
        until_one_waits(watcher, &key);
        assert_eq!(send(format!("LOCK.RELEASE {key} alice FENCE {fence}")).unwrap(), Value::Int(1));
        assert_eq!(send(format!("LOCK.RELEASE {key} alice FENCE {fence}")).unwrap(), Value::Int(0));
        next.join().unwrap()
    });
    let (owner, next_fence, holds, _) = grant(next).unwrap();
    assert_eq!((owner.as_str(), holds), ("bob", 1));
    assert!(next_fence > fence);
    assert!(not_held(&send(format!("LOCK.EXTEND {key} alice")).unwrap_err()));
    assert_eq!(send(format!("LOCK.RELEASE {key} bob ALL")).unwrap(), Value::Int(0));
    assert_eq!(send(format!("LOCK.INFO {key}")).unwrap(), Value::Nil);
}

fn threads(protocol: &str) {
    let [mut one, mut other, mut third, mut watcher] = std::array::from_fn(|_| connect(protocol));
    from_grant_to_end(
        |line| words(line).query(&mut one),
        |line| words(line).query(&mut other),
        |line| words(line).query(&mut third),
        &mut watcher,
    );
}

#[test]
fn a_lock_from_its_grant_to_its_end_with_threads_in_resp2() {
    threads("resp2");
}

#[test]
fn a_lock_from_its_grant_to_its_end_with_threads_in_resp3() {
    threads("resp3");
}

fn tasks(protocol: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // A shared one's replies may be late on a busy machine, too: all have the time-out of the one that waits.
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
    let connect = || {
        let client = client(protocol);
        runtime.block_on(client.get_multiplexed_async_connection_with_config(&patient)).unwrap()
    };
    let send = |connection: &MultiplexedConnection, line| {
        let mut clone = connection.clone();
        runtime.block_on(async { words(line).query_async(&mut clone).await })
    };
    let (shared, other) = (connect(), connect());
    from_grant_to_end(
        |line| send(&shared, line),
        |line| send(&other, line),
        |line| send(&other, line),
        &mut self::connect(protocol),
    );
}

#[test]
fn a_lock_from_its_grant_to_its_end_with_tasks_in_resp2() {
    tasks("resp2");
}

#[test]
fn a_lock_from_its_grant_to_its_end_with_tasks_in_resp3() {
    tasks("resp3");
}
