//! Threads.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use redis::{ConnectionLike, cmd};
use redislock::Error;
use redislock::blocking::{Cancel, Held, Locks};
use serde_json::{Value, json};

use crate::{Tells, acquired, client, cluster, commands, number, options, say, servers, tell, text, texts};

type Connection = Arc<Mutex<Box<dyn ConnectionLike + Send>>>;

enum Order {
    Release,
    Cancel,
    Extend(Duration),
    Lost(Error),
}

struct Task {
    cancel: Cancel,
    orders: Sender<Order>,
}

impl Task {
    fn start(locks: Locks, command: Value) -> Self {
        let ((orders, given), cancel) = (channel(), Cancel::default());
        let task = Self { cancel: cancel.clone(), orders: orders.clone() };
        thread::spawn(move || {
            let task = text(&command, "task");
            let wanted = options(locks.acquire_all(texts(&command, "keys")), &command);
            if let Err(error) =
                wanted.and_then(|wanted| hold(wanted.cancelled_by(&cancel)?, task, orders, &given))
            {
                tell(task, &error);
            }
        });
        task
    }
}

fn hold(held: Held, task: &str, orders: Sender<Order>, given: &Receiver<Order>) -> Result<(), Error> {
    acquired(task, &held);
    held.on_lost(move |error| drop(orders.send(Order::Lost(error))));
    loop {
        let over = match given.recv() {
            Ok(Order::Lost(error)) => return Err(error),
            Ok(Order::Extend(lease)) => {
                let given = held.extend(lease)?;
                say("extended", task, json!({ "lease": given.as_millis() as u64 }));
                continue;
            }
            Ok(Order::Release) => "released",
            _ => "cancelled",
        };
        held.release()?;
        say(over, task, json!({}));
        return Ok(());
    }
}

fn rounds(locks: &Locks, connection: &Connection, command: &Value, task: usize) -> Result<Duration, Error> {
    let (keys, mut longest) = (texts(command, "keys"), Duration::ZERO);
    for round in 0..number(command, "rounds") {
        let (key, begin) = (&keys[(task + round) % keys.len()], Instant::now());
        let held = options(locks.acquire(key), command)?.block()?;
        longest = longest.max(begin.elapsed());
        let count = || -> redis::RedisResult<()> {
            let count = format!("count:{key}");
            // The others' chance, between one command and the next.
            let before: Option<u64> = cmd("GET").arg(&count).query(&mut **connection.lock().unwrap())?;
            cmd("SET").arg(&count).arg(before.unwrap_or(0) + 1).exec(&mut **connection.lock().unwrap())?;
            cmd("RPUSH")
                .arg(format!("fences:{key}"))
                .arg(held.fence())
                .exec(&mut **connection.lock().unwrap())
        };
        count().map_err(Error::Redis)?;
        held.release()?;
    }
    Ok(longest)
}

fn crowd(locks: &Locks, connection: &Connection, command: &Value) {
    let waits: Result<Vec<_>, _> = thread::scope(|scope| {
        let work = |task| scope.spawn(move || rounds(locks, connection, command, task));
        let tasks: Vec<_> = (0..number(command, "tasks")).map(work).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    match waits {
        Ok(waits) => {
            let longest = waits.into_iter().max().unwrap_or_default().as_millis() as u64;
            say("done", text(command, "task"), json!({ "longest_wait": longest }));
        }
        Err(error) => tell(text(command, "task"), &error),
    }
}

pub fn main() {
    let (mut locks, mut opened, mut tasks) = (None, None, HashMap::new());
    for command in commands() {
        let name = text(&command, "task").to_string();
        match text(&command, "do") {
            "open" => {
                let opens = Locks::new(servers(&command));
                locks = Some(if command["observe"] == true { opens.observer(Tells) } else { opens });
                opened = Some(command);
                say("opened", "", json!({}));
            }
            "acquire" => {
                tasks.insert(name, Task::start(locks.clone().unwrap(), command));
            }
            "crowd" => {
                let opened = opened.as_ref().unwrap();
                let connection: Box<dyn ConnectionLike + Send> = match text(opened, "kind") {
                    "cluster" => Box::new(cluster(opened).get_connection().unwrap()),
                    _ => Box::new(client(opened).get_connection().unwrap()),
                };
                let (locks, connection) = (locks.clone().unwrap(), Arc::new(Mutex::new(connection)));
                thread::spawn(move || crowd(&locks, &connection, &command));
            }
            "release" => drop(tasks[&name].orders.send(Order::Release)),
            "extend" => {
                let lease = Duration::from_millis(number(&command, "lease") as u64);
                drop(tasks[&name].orders.send(Order::Extend(lease)));
            }
            "cancel" => {
                tasks[&name].cancel.cancel();
                let _ = tasks[&name].orders.send(Order::Cancel);
            }
            "close" => {
                if let Some(locks) = locks.take() {
                    locks.close();
                }
                say("closed", "", json!({}));
            }
            other => panic!("unknown: {other}"),
        }
    }
    if let Some(locks) = locks {
        locks.close();
    }
}
