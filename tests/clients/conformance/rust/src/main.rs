//! The program of the conformance scenarios, for tasks of tokio or for threads.

mod tasks;
mod threads;

use std::collections::HashMap;
use std::time::Duration;

use redis::Client;
use redis::sentinel::{SentinelClient, SentinelServerType};
use redislock::{Acquire, Error, Grant, Observed, Observer, Servers};
use serde_json::{Value, json};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("tasks") => run::<tasks::Program>(),
        Some("threads") => run::<threads::Program>(),
        other => panic!("no such variant: {other:?}"),
    }
}

/// The operations of a program with open servers, for tasks or threads.
trait Program {
    fn open(servers: Servers, observer: Option<Tells>) -> Self;
    fn acquire(&self, command: Value) -> Task;
    fn close(self);
}

/// A task that waits for a lock, or holds it.
struct Task {
    tell: Box<dyn Fn(Order)>,
    /// Ends the wait.
    cancel: Box<dyn Fn()>,
}

enum Order {
    Release,
    Cancel,
    Extend(Duration),
    Lost(Error),
}

fn run<P: Program>() {
    let (mut opened, mut tasks) = (None::<P>, HashMap::new());
    for line in std::io::stdin().lines() {
        let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let task = tasks.get(text(&command, "task"));
        match (text(&command, "do"), task) {
            ("open", _) => {
                opened = Some(P::open(servers(&command), (command["observe"] == true).then_some(Tells)));
                say("opened", "", json!({}));
            }
            ("acquire", _) => {
                let name = text(&command, "task").to_string();
                tasks.insert(name, opened.as_ref().unwrap().acquire(command));
            }
            ("release", Some(Task { tell, .. })) => tell(Order::Release),
            ("extend", Some(Task { tell, .. })) => {
                tell(Order::Extend(Duration::from_millis(command["lease"].as_u64().unwrap())))
            }
            ("cancel", Some(Task { tell, cancel })) => {
                cancel();
                tell(Order::Cancel);
            }
            ("close", _) => {
                opened.take().map(P::close);
                say("closed", "", json!({}));
            }
            other => panic!("unknown: {}", other.0),
        }
    }
    opened.map(P::close);
}

fn say(event: &str, task: &str, mut more: Value) {
    more["event"] = event.into();
    if !task.is_empty() {
        more["task"] = task.into();
    }
    println!("{more}"); // writes a whole line, and flushes it
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

fn extended(task: &str, lease: Duration) {
    say("extended", task, json!({ "lease": lease.as_millis() as u64 }));
}

fn text<'a>(command: &'a Value, field: &str) -> &'a str {
    command[field].as_str().unwrap_or_default()
}

fn texts(command: &Value, field: &str) -> Vec<String> {
    command[field].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_string()).collect()
}

/// Sets the options of a command. If the package's types can't express a value, such as a negative `Duration`, it is refused here.
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

fn servers(command: &Value) -> Servers {
    let urls = texts(command, "urls");
    let mut clients = urls.iter().map(|url| Client::open(url.as_str()).unwrap());
    match text(command, "kind") {
        "cluster" => Servers::cluster(clients),
        "sentinel" => {
            let (service, kind) = (text(command, "service").to_string(), SentinelServerType::Master);
            SentinelClient::build(urls, service, None, kind).unwrap().into()
        }
        _ => clients.next().unwrap().into(),
    }
}
