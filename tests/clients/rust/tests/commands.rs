//! Raw commands through redis-rs, on a thread's connection and on one that tasks share, in RESP2 and RESP3: what the page about all
//! clients says of it.

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redis::{AsyncConnectionConfig, Client, Cmd, Connection, FromRedisValue, RedisResult, Value};

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
    let mut connection: Connection = client(protocol).get_connection().unwrap();
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

fn granted(reply: RedisResult<Value>) -> Option<(String, u64, u64)> {
    let grant = Option::<(String, u64, u64, i64)>::from_redis_value(reply.unwrap()).unwrap();
    grant.map(|(owner, fence, holds, _)| (owner, fence, holds))
}

/// How many wait: LOCK.INFO is pairs in a row in RESP2, a map in RESP3.
fn waiters(info: Value) -> u64 {
    let info = HashMap::<String, Value>::from_redis_value(info).unwrap();
    u64::from_redis_value(info["waiters"].clone()).unwrap()
}

fn from_grant_to_end(open: fn(&str) -> Send, protocol: &str) {
    let [mut one, mut other, mut wait] = [open(protocol), open(protocol), open(protocol)];
    let key = uuid::Uuid::new_v4().to_string();
    let alice = format!("LOCK.ACQUIRE {key} OWNER alice PX 30000");
    let (owner, fence, holds) = granted(one(&alice)).unwrap();
    assert_eq!((owner.as_str(), holds), ("alice", 1));
    assert_eq!(granted(one(&alice)), Some(("alice".into(), fence, 2)));
    // The same owner on another connection: the same grant, without another hold.
    assert_eq!(granted(other(&format!("{alice} ONCE"))), Some(("alice".into(), fence, 2)));
    assert_eq!(one(&format!("LOCK.EXTEND {key} alice EX 60 FENCE {fence}")).unwrap(), Value::Int(60_000));
    assert_eq!(granted(one(&format!("LOCK.ACQUIRE {key} OWNER bob"))), None);

    let bob = format!("LOCK.ACQUIRE {key} OWNER bob BLOCK 0");
    let waiting = thread::spawn(move || wait(&bob));
    let end = Instant::now() + MINUTE;
    while waiters(one(&format!("LOCK.INFO {key}")).unwrap()) != 1 {
        assert!(Instant::now() < end, "nobody waits");
    }
    assert_eq!(one(&format!("LOCK.RELEASE {key} alice FENCE {fence}")).unwrap(), Value::Int(1));
    assert_eq!(one(&format!("LOCK.RELEASE {key} alice FENCE {fence}")).unwrap(), Value::Int(0));
    let (owner, next, holds) = granted(waiting.join().unwrap()).unwrap();
    assert_eq!((owner.as_str(), holds), ("bob", 1));
    assert!(next > fence);

    let (told, hears) = mpsc::channel();
    let (ready, begun) = mpsc::channel();
    let (mut connection, channel) = (client(protocol).get_connection().unwrap(), format!("mine:{key}"));
    thread::spawn({
        let channel = channel.clone();
        move || {
            let mut hearing = connection.as_pubsub();
            hearing.subscribe(channel).unwrap();
            ready.send(()).unwrap();
            told.send(hearing.get_message().unwrap().get_payload::<String>().unwrap()).unwrap();
        }
    });
    begun.recv_timeout(MINUTE).unwrap();
    let carol = format!("LOCK.ACQUIRE {key} OWNER carol BLOCK 60000 NOTIFY {channel} ONCE");
    assert_eq!(one(&carol).unwrap(), Value::SimpleString("QUEUED".into()));
    assert_eq!(one(&format!("LOCK.RELEASE {key} bob ALL")).unwrap(), Value::Int(0));
    let message = hears.recv_timeout(MINUTE).unwrap();
    let (_, fence, _) = granted(one(&carol)).unwrap();
    assert_eq!(message, format!("granted {fence} carol"));

    assert_eq!(one(&format!("LOCK.EXTEND {key} alice")).unwrap_err().code(), Some("NOTHELD"));
    assert_eq!(one(&format!("LOCK.RELEASE {key} carol")).unwrap(), Value::Int(0));
    assert_eq!(one(&format!("LOCK.INFO {key}")).unwrap(), Value::Nil);
}

#[test]
fn a_lock_from_its_grant_to_its_end() {
    for protocol in ["resp2", "resp3"] {
        from_grant_to_end(thread, protocol);
        from_grant_to_end(task, protocol);
    }
}
