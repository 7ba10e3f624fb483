//! Looks at the servers with a few commands, each of which does a bounded amount of work, however many locks and waiters there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use redis::{Value as Reply, cmd};
use serde_json::Value;

use crate::connect::{Link, Node, Target};
use crate::doctor::fields;
use crate::failure::Failure;
use crate::lock::{info, json};
use crate::text::number;

/// How many names one SCAN command looks at, and how many SCAN commands one look sends. If there are more locks, a pass through all of them
/// takes several looks.
const SCAN_COUNT: usize = 500;
const SCANS: usize = 4;
/// How many of the locks that are waited for most often, and how many of the longest waits, one look asks for.
const MOST: usize = 100;
/// The most locks that are shown.
const LOCKS: usize = 500;

pub(crate) struct Looks {
    target: Target,
    nodes: Vec<(Node, Pass)>,
}

/// The cursor of SCAN, and the locks that this pass and the one before have found.
#[derive(Default)]
struct Pass {
    cursor: String,
    now: BTreeSet<Vec<u8>>,
    before: BTreeSet<Vec<u8>>,
}

/// The result of one look.
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// The fields of INFO lock: sums over all servers, or the greatest value of a field that is a maximum.
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) locks: Vec<Lock>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    pub(crate) key: String,
    pub(crate) holder: String,
    pub(crate) held_ms: u64,
    pub(crate) holders: u64,
    pub(crate) waiters: u64,
    pub(crate) wait_ms: u64,
    pub(crate) waiter: String,
}

impl Looks {
    pub(crate) fn new(target: &Target) -> Result<Self, Failure> {
        let nodes = target
            .nodes()?
            .into_iter()
            .map(|node| (node, Pass { cursor: "0".to_owned(), ..Pass::default() }));
        Ok(Self { target: target.clone(), nodes: nodes.collect() })
    }

    pub(crate) fn again(&self) -> Result<Self, Failure> {
        Self::new(&self.target)
    }

    pub(crate) fn look(&mut self) -> Result<Seen, Failure> {
        let mut seen = Seen { at: Instant::now(), counters: BTreeMap::new(), locks: Vec::new() };
        for (node, pass) in &mut self.nodes {
            let text: String = node.ask(cmd("INFO").arg("lock"), "looking")?;
            for (name, value) in fields(&text) {
                let value: u64 = value.parse().unwrap_or_default();
                let sum = seen.counters.entry(name.clone()).or_default();
                let is_most = ["longest", "oldest", "most", "grace"].iter().any(|word| name.contains(word));
                *sum = if is_most { value.max(*sum) } else { *sum + value };
            }
            let waits = longest_waits(node)?;
            let mut keys = waited_for(node)?;
            keys.extend(waits.keys().cloned());
            pass.go_on(node)?;
            let held = pass
                .now
                .iter()
                .chain(&pass.before)
                .filter(|key| !keys.contains(*key))
                .cloned()
                .collect::<BTreeSet<_>>();
            let keys: Vec<Vec<u8>> = keys.iter().cloned().chain(held).take(LOCKS).collect();
            seen.locks.extend(infos(node, &keys, &waits)?);
        }
        Ok(seen)
    }

    /// One lock with all holders and waiters; null if it is free.
    pub(crate) fn detail(&self, key: String) -> Value {
        let reply = |link: &mut Link| link.ask::<Reply>(&info(&key, true)).ok();
        let mut lock = self.target.link().ok().as_mut().and_then(reply).map(json).unwrap_or_default();
        if let Some(fields) = lock.as_object_mut() {
            fields.insert("key".to_owned(), key.into());
        }
        lock
    }
}

impl Pass {
    fn go_on(&mut self, node: &mut Node) -> Result<(), Failure> {
        for _ in 0..SCANS {
            let mut scan = cmd("SCAN");
            scan.arg(&self.cursor).arg("COUNT").arg(SCAN_COUNT).arg("TYPE").arg(crate::locks::TYPE);
            let (cursor, keys): (String, Vec<Vec<u8>>) = node.ask(&scan, "looking")?;
            self.now.extend(keys.into_iter().take(LOCKS));
            self.cursor = cursor;
            if self.cursor == "0" {
                self.before = std::mem::take(&mut self.now);
                break;
            }
        }
        Ok(())
    }
}

/// The longest wait for each lock, from `LOCK.WAITS`: how long it has lasted, and who waits.
fn longest_waits(node: &mut Node) -> Result<HashMap<Vec<u8>, (u64, String)>, Failure> {
    let reply: Reply = node.ask(cmd("LOCK.WAITS").arg("COUNT").arg(MOST), "looking")?;
    let mut waits: HashMap<Vec<u8>, (u64, String)> = HashMap::new();
    for waiter in json(reply).get(1).and_then(Value::as_array).into_iter().flatten() {
        let key = waiter.get("key").and_then(Value::as_str).unwrap_or_default().as_bytes().to_vec();
        // The longest waits come first.
        waits.entry(key).or_insert_with(|| (number(waiter, "waited_ms"), crate::lock::who(waiter)));
    }
    Ok(waits)
}

/// The locks that are waited for most often, from `LOCK.WAITS TOP`.
fn waited_for(node: &mut Node) -> Result<BTreeSet<Vec<u8>>, Failure> {
    let reply: Reply = node.ask(cmd("LOCK.WAITS").arg("TOP").arg("COUNT").arg(MOST), "looking")?;
    let locks = json(reply);
    let keys = locks.get(1).and_then(Value::as_array).into_iter().flatten();
    Ok(keys.filter_map(|lock| lock.get("key")?.as_str()).map(|key| key.as_bytes().to_vec()).collect())
}

fn infos(
    node: &mut Node,
    keys: &[Vec<u8>],
    waits: &HashMap<Vec<u8>, (u64, String)>,
) -> Result<Vec<Lock>, Failure> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut asks = redis::pipe();
    for key in keys {
        asks.cmd("LOCK.INFO").arg(key);
    }
    let replies: Vec<Reply> =
        asks.query(&mut node.connection).map_err(|error| Failure::of(&error, "looking", &node.address))?;
    let lock = |(key, reply): (&Vec<u8>, Reply)| {
        let lock = json(reply);
        lock.as_object()?;
        let (wait_ms, waiter) = waits.get(key).cloned().unwrap_or_default();
        let holders = number(&lock, "holders");
        Some(Lock {
            key: String::from_utf8_lossy(key).into_owned(),
            holder: if holders == 0 { "-".to_owned() } else { crate::lock::who(&lock) },
            held_ms: number(&lock, "held_ms"),
            holders,
            waiters: number(&lock, "waiters"),
            wait_ms,
            waiter,
        })
    };
    Ok(keys.iter().zip(replies).filter_map(lock).collect())
}
