//! Looks at the servers with a few commands. Each of them does a bounded amount of work, however many locks and waiters there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use redis::{Value as Reply, cmd};
use serde_json::Value;

use crate::connect::{Down, Node, Target};
use crate::doctor::fields;
use crate::failure::Failure;
use crate::lock::{info, json};
use crate::locks::{self, scan};
use crate::text::{Name, number, text};

/// How many names one SCAN command looks at, and for how long one look sends SCAN commands. If there are more names, one pass over all of them
/// takes several looks.
const SCAN_COUNT: usize = 500;
const SCANNING: Duration = Duration::from_millis(100);
/// One look asks for so many locks with the most waiters, and for so many of the longest waits.
const MOST: usize = 100;
/// The most locks of a server that are shown, and the most names that a pass keeps.
const LOCKS: usize = 500;
const NAMES: usize = 100_000;

pub(crate) struct Looks {
    target: Target,
    filter: String,
    nodes: Vec<(Node, Pass)>,
    pub(crate) down: Vec<Down>,
}

/// A pass over all names: the cursor of SCAN, and the locks that this pass and the one before have found, by name.
#[derive(Default)]
struct Pass {
    cursor: u64,
    now: BTreeSet<String>,
    before: BTreeSet<String>,
}

/// The result of one look.
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// The fields of INFO lock: sums over all servers, or the greatest value of a field that is a maximum.
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) locks: Vec<Lock>,
    /// A primary of the cluster that could not be asked, and why.
    pub(crate) down: Option<String>,
    /// How many locks there are that pass the filter, as far as is known.
    pub(crate) found: usize,
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
    pub(crate) fn new(target: &Target, filter: &str) -> Result<Self, Failure> {
        let (nodes, down) = target.nodes()?;
        let nodes = nodes.into_iter().map(|node| (node, Pass::default())).collect();
        Ok(Self { target: target.clone(), filter: filter.to_owned(), nodes, down })
    }

    pub(crate) fn again(&self) -> Result<Self, Failure> {
        Self::new(&self.target, &self.filter)
    }

    /// From now on, looks only for locks that pass the filter.
    pub(crate) fn filter(&mut self, filter: String) {
        if self.filter != filter {
            self.filter = filter;
            self.nodes.iter_mut().for_each(|(_, pass)| *pass = Pass::default());
        }
    }

    /// Whether this is one node of a cluster, whose other nodes are not asked.
    pub(crate) fn is_partial(&mut self) -> bool {
        !self.target.is_cluster() && self.nodes.iter_mut().any(|(node, _)| node.is_of_cluster())
    }

    pub(crate) fn look(&mut self) -> Result<Seen, Failure> {
        let down = self.down.first().map(|(_, why)| why.to_string());
        let mut seen =
            Seen { at: Instant::now(), counters: BTreeMap::new(), locks: Vec::new(), down, found: 0 };
        let pattern = pattern(&self.filter);
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
            pass.go_on(node, &pattern)?;
            let found: BTreeSet<&String> = pass.now.iter().chain(&pass.before).collect();
            // SCAN applies the filter, so keep only names that it found. A free lock with waiters has no key, so SCAN does not find it.
            keys.retain(|key| self.filter.is_empty() || found.contains(key));
            seen.found += found.union(&keys.iter().collect()).count();
            let held = found.into_iter().filter(|key| !keys.contains(*key));
            let keys: Vec<String> = keys.iter().chain(held).take(LOCKS).cloned().collect();
            seen.locks.extend(infos(node, &keys, &waits)?);
        }
        Ok(seen)
    }

    /// One lock with all holders and waiters; null if it is free.
    pub(crate) fn detail(&self, key: &str) -> Result<Value, Failure> {
        let command = info(named(key), true);
        let mut lock = crate::lock::ask(&mut self.target.link()?, &self.target, &command, "looking")?;
        if let Some(fields) = lock.as_object_mut() {
            fields.insert("key".to_owned(), key.into());
        }
        Ok(lock)
    }
}

impl Pass {
    fn go_on(&mut self, node: &mut Node, pattern: &Name) -> Result<(), Failure> {
        let begin = Instant::now();
        while begin.elapsed() < SCANNING {
            let (cursor, keys) = scan(node, self.cursor, pattern, SCAN_COUNT)?;
            let room = NAMES.saturating_sub(self.now.len());
            self.now.extend(keys.into_iter().take(room).map(|key| text(&key)));
            self.cursor = cursor;
            if self.cursor == 0 {
                self.before = std::mem::take(&mut self.now);
                break;
            }
        }
        Ok(())
    }
}

fn named(name: &str) -> Name {
    OsString::from(name).into()
}

/// The glob pattern of a filter. A filter without `*`, `?` and `[` may match anywhere in a name.
fn pattern(filter: &str) -> Name {
    named(&if filter.contains(['*', '?', '[']) { filter.to_owned() } else { format!("*{filter}*") })
}

/// The longest wait for each lock, from `LOCK.WAITS`: how long it has lasted, and who waits.
fn longest_waits(node: &mut Node) -> Result<HashMap<String, (u64, String)>, Failure> {
    let reply: Reply = node.ask(cmd("LOCK.WAITS").arg("COUNT").arg(MOST), "looking")?;
    let mut waits: HashMap<String, (u64, String)> = HashMap::new();
    for waiter in json(reply).get(1).and_then(Value::as_array).into_iter().flatten() {
        let key = waiter.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        // The reply has the longest waits first, so the first wait for a lock is its longest.
        waits.entry(key).or_insert_with(|| (number(waiter, "waited_ms"), crate::lock::who(waiter)));
    }
    Ok(waits)
}

/// The locks that are waited for most often, from `LOCK.WAITS TOP`.
fn waited_for(node: &mut Node) -> Result<BTreeSet<String>, Failure> {
    let reply: Reply = node.ask(cmd("LOCK.WAITS").arg("TOP").arg("COUNT").arg(MOST), "looking")?;
    let locks = json(reply);
    let keys = locks.get(1).and_then(Value::as_array).into_iter().flatten();
    Ok(keys.filter_map(|lock| lock.get("key")?.as_str()).map(str::to_owned).collect())
}

fn infos(
    node: &mut Node,
    keys: &[String],
    waits: &HashMap<String, (u64, String)>,
) -> Result<Vec<Lock>, Failure> {
    let names: Vec<Name> = keys.iter().map(|key| named(key)).collect();
    let lock = |(key, lock): (&String, Value)| {
        lock.as_object()?;
        let (wait_ms, waiter) = waits.get(key).cloned().unwrap_or_default();
        let holders = number(&lock, "holders");
        Some(Lock {
            key: key.clone(),
            holder: if holders == 0 { "-".to_owned() } else { crate::lock::who(&lock) },
            held_ms: number(&lock, "held_ms"),
            holders,
            waiters: number(&lock, "waiters"),
            wait_ms,
            waiter,
        })
    };
    Ok(keys.iter().zip(locks::infos(node, &names, "looking")?).filter_map(lock).collect())
}
