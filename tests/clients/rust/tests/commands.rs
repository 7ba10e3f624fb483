//! Raw commands through redis-rs, on a thread's connection and on one that tasks share, in RESP2 and RESP3: what the page about raw
//! commands says of it.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult, Value};

type Send = Box<dyn FnMut(&str) -> RedisResult<Value> + std::marker::Send>;

const MINUTE: Duration = Duration::from_secs(60);

fn client(protocol: &str) -> Client {
    Client::open(format!("{}/?protocol={protocol}", std::env::var("REDIS_URL").unwrap())).unwrap()
}

/// A command from its words.
fn words(line: &str) -> Cmd {
    let mut cmd = Cmd::new();
    cmd.arg(line.split(' ').collect::<Vec<_>>());
    cmd
}

fn thread(protocol: &str) -> Send {
    let mut connection = client(protocol).get_connection().unwrap();
    Box::new(move |line| words(line).query(&mut connection))
}

fn task(protocol: &str) -> Send {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Half a second by default, which is too short for a wait.
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(MINUTE));
    let mut connection =
        runtime.block_on(client(protocol).get_multiplexed_async_connection_with_config(&patient)).unwrap();
    Box::new(move |line| runtime.block_on(words(line).query_async(&mut connection)))
}

fn granted(reply: RedisResult<Value>) -> Option<(String, u64, u64, u64)> {
    FromRedisValue::from_redis_value(reply.unwrap()).unwrap()
}

/// How many wait: LOCK.INFO is pairs in a row in RESP2, a map in RESP3.
fn waiters(info: Value) -> u64 {
    let info = HashMap::<String, Value>::from_redis_value(info).unwrap();
    u64::from_redis_value(info["waiters"].clone()).unwrap()
}

fn from_grant_to_end(open: fn(&str) -> Send, protocol: &str) {
    let [mut one, mut wait] = [open(protocol), open(protocol)];
    let key = uuid::Uuid::new_v4().to_string();
    let (owner, fence, holds, lease) =
        granted(one(&format!("LOCK.ACQUIRE {key} OWNER alice PX 30000"))).unwrap();
    assert_eq!((owner.as_str(), holds, lease), ("alice", 1, 30_000));
    assert_eq!(granted(one(&format!("LOCK.ACQUIRE {key} OWNER bob"))), None);

    let bob = format!("LOCK.ACQUIRE {key} OWNER bob BLOCK 0");
    let waiting = thread::spawn(move || wait(&bob));
    let end = Instant::now() + MINUTE;
    while waiters(one(&format!("LOCK.INFO {key}")).unwrap()) != 1 {
        assert!(Instant::now() < end, "nobody waits");
    }
    assert_eq!(one(&format!("LOCK.RELEASE {key} alice FENCE {fence}")).unwrap(), Value::Int(0));
    let (owner, next, ..) = granted(waiting.join().unwrap()).unwrap();
    assert!(owner == "bob" && next > fence);
    assert_eq!(one(&format!("LOCK.EXTEND {key} alice")).unwrap_err().code(), Some("NOTHELD"));
    assert_eq!(one(&format!("LOCK.RELEASE {key} bob")).unwrap(), Value::Int(0));
    assert_eq!(one(&format!("LOCK.INFO {key}")).unwrap(), Value::Nil);
}

#[test]
fn a_lock_from_its_grant_to_its_end() {
    for protocol in ["resp2", "resp3"] {
        from_grant_to_end(thread, protocol);
        from_grant_to_end(task, protocol);
    }
}
