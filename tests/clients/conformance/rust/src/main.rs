//! The program of the conformance scenarios, for tasks of tokio or for threads.

mod tasks;
mod threads;

use std::time::Duration;

use redis::Client;
use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClient, SentinelServerType};
use redislock::{Acquire, Error, Grant, Observed, Observer, Servers};
use serde_json::{Value, json};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("tasks") => tasks::main(),
        Some("threads") => threads::main(),
        other => panic!("no such variant: {other:?}"),
    }
}

/// The commands on standard input, in order.
fn commands() -> impl Iterator<Item = Value> {
    std::io::stdin().lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn say(event: &str, task: &str, mut more: Value) {
    more["event"] = event.into();
    if !task.is_empty() {
        more["task"] = task.into();
    }
    println!("{more}"); // a whole line, and flushed
}

fn tell(task: &str, error: &Error) {
    let event = match error {
        Error::NotAcquired(..) => "not_acquired",
        Error::Lost(_) => "lost",
        Error::Deadlock(cycle) => return say("deadlock", task, json!({ "cycle": cycle })),
        Error::NotConfirmed(_) => "not_confirmed",
        Error::NoModule(_) => "no_module",
        Error::TooOld(_) => "too_old",
        Error::Invalid(_) => "refused",
        Error::Cancelled | Error::Closed => "cancelled",
        _ => "error",
    };
    let said = error.to_string();
    say(event, task, json!({ "message": said, "reason": said }));
}

struct Tells;

impl Tells {
    fn tell(lock: &Observed, (event, outcome): (&str, &str), time: Duration, reason: &str) {
        let keys: Vec<_> = lock.keys().iter().map(|key| String::from_utf8_lossy(key)).collect();
        let what = format!("{event} {} {} {outcome}", keys.join(","), lock.mode());
        say(
            "observed",
            "",
            json!({ "what": what.trim_end(), "ms": time.as_millis() as u64, "reason": reason }),
        );
    }
}

impl Observer for Tells {
    fn waiting(&self, lock: &Observed) {
        Self::tell(lock, ("waiting", ""), Duration::ZERO, "");
    }

    fn acquired(&self, lock: &Observed, waited: Duration, _fence: u64) {
        Self::tell(lock, ("acquired", ""), waited, "");
    }

    fn refused(&self, lock: &Observed, waited: Duration, outcome: &'static str, _error: &Error) {
        Self::tell(lock, ("refused", outcome), waited, "");
    }

    fn released(&self, lock: &Observed, held: Duration) {
        Self::tell(lock, ("released", ""), held, "");
    }

    fn lost(&self, lock: &Observed, held: Duration, reason: &str, _error: &Error) {
        Self::tell(lock, ("lost", ""), held, reason);
    }
}

fn acquired(task: &str, held: &Grant) {
    let owner = String::from_utf8_lossy(held.owner());
    say("acquired", task, json!({ "owner": owner, "fences": held.fences(), "slot": held.slot() }));
}

fn text<'a>(command: &'a Value, field: &str) -> &'a str {
    command[field].as_str().unwrap_or_default()
}

fn texts(command: &Value, field: &str) -> Vec<String> {
    command[field].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_string()).collect()
}

fn number(command: &Value, field: &str) -> usize {
    command[field].as_u64().unwrap() as usize
}

/// What the types of the package can't express is refused by them: a `Duration` or a limit below 0.
fn options<'a, L>(mut acquire: Acquire<'a, L>, command: &Value) -> Result<Acquire<'a, L>, Error> {
    let whole =
        |value: &Value| value.as_u64().ok_or_else(|| Error::Invalid(format!("no such number: {value}")));
    let ms = |value: &Value| whole(value).map(Duration::from_millis);
    for (name, value) in command.as_object().unwrap() {
        acquire = match name.as_str() {
            "wait" => acquire.wait(ms(value)?),
            "lease" => acquire.lease(ms(value)?),
            "max_hold" => acquire.max_hold(ms(value)?),
            "shared" => acquire.shared(),
            "detect" => acquire.detect(),
            "session" => acquire.session(),
            "renew" => acquire.no_renewal(),
            "limit" => acquire.limit(whole(value)? as u32),
            "slot" => acquire.slot(whole(value)? as u32),
            "label" => acquire.label(value.as_str().unwrap()),
            "owner" => acquire.owner(value.as_str().unwrap()),
            "sync" => acquire.sync(whole(&value[0])? as u32, ms(&value[1])?),
            _ => acquire,
        };
    }
    Ok(acquire)
}

fn cluster(command: &Value) -> ClusterClient {
    ClusterClient::new(texts(command, "urls")).unwrap()
}

fn sentinel(command: &Value) -> SentinelClient {
    let service = text(command, "service").to_string();
    SentinelClient::build(texts(command, "urls"), service, None, SentinelServerType::Master).unwrap()
}

/// A client of the server of now.
fn client(command: &Value) -> Client {
    match text(command, "kind") {
        "sentinel" => sentinel(command).get_client().unwrap(),
        _ => Client::open(texts(command, "urls").remove(0)).unwrap(),
    }
}

fn servers(command: &Value) -> Servers {
    let urls = texts(command, "urls");
    match text(command, "kind") {
        "cluster" => Servers::cluster(urls.into_iter().map(|url| Client::open(url).unwrap())),
        "sentinel" => sentinel(command).into(),
        _ => client(command).into(),
    }
}
