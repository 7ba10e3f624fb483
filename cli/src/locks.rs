//! `redislock ls`, `show` and `break`.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use redis::Value as Reply;
use serde_json::Value;

use crate::connect::{Link, Node, Target};
use crate::failure::{Failure, USAGE};
use crate::lock::{self, address, who};
use crate::options::{Break, Ls, Show};
use crate::text::{self, number, table, time, word};

/// How many names one SCAN command looks at.
const SCAN_COUNT: usize = 1_000;
/// The server's name for the type of a lock.
pub(crate) const TYPE: &str = "lockstate";

pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let done = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    match done {
        // The reader has read enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(Failure::output),
    }
}

pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

pub(crate) fn ls(target: &Target, asked: &Ls) -> Result<u8, Failure> {
    let mut locks = Vec::new();
    for mut node in target.nodes()? {
        locks.extend(of_node(&mut node, &asked.pattern)?);
    }
    locks.sort_by_key(|lock| word(lock, "key"));
    if asked.json {
        print_json(&Value::Array(locks))?;
        return Ok(0);
    }
    let mut rows = vec![["KEY", "HOLDER", "HELD", "LEASE", "HOLDERS", "WAITERS"].map(str::to_owned).to_vec()];
    for lock in &locks {
        rows.push(vec![
            word(lock, "key"),
            if number(lock, "holders") == 0 { "-".to_owned() } else { who(lock) },
            time(number(lock, "held_ms")),
            lease(lock),
            number(lock, "holders").to_string(),
            number(lock, "waiters").to_string(),
        ]);
    }
    print(&if locks.is_empty() { "no locks\n".to_owned() } else { table(&rows) })?;
    Ok(0)
}

/// All locks of a server. No command looks at more than `SCAN_COUNT` names.
fn of_node(node: &mut Node, pattern: &str) -> Result<Vec<Value>, Failure> {
    let mut locks = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_COUNT).arg("TYPE").arg(TYPE);
        let keys: Vec<Vec<u8>>;
        (cursor, keys) = node.ask(&scan, "listing")?;
        let mut asks = redis::pipe();
        for key in &keys {
            asks.cmd("LOCK.INFO").arg(key);
        }
        let replies: Vec<Reply> = if keys.is_empty() {
            Vec::new()
        } else {
            asks.query(&mut node.connection).map_err(|error| Failure::of(&error, "listing", &node.address))?
        };
        for (key, reply) in keys.iter().zip(replies) {
            let mut lock = lock::json(reply);
            // The reply is null if the lock has ended meanwhile.
            if let Some(fields) = lock.as_object_mut() {
                fields.insert("key".to_owned(), text::text(key).into());
                locks.push(lock);
            }
        }
        if cursor == "0" {
            return Ok(locks);
        }
    }
}

fn lease(lock: &Value) -> String {
    match lock.get("lease_ms").and_then(Value::as_i64) {
        Some(-1) => "for ever".to_owned(),
        _ => time(number(lock, "lease_ms")),
    }
}

pub(crate) fn show(target: &Target, asked: &Show) -> Result<u8, Failure> {
    let mut link = target.link()?;
    let mut lock = lock::ask(&mut link, target, &lock::info(&asked.key, true), "looking at the lock")?;
    if let Some(fields) = lock.as_object_mut() {
        fields.insert("key".to_owned(), text::text(asked.key.as_ref()).into());
        for list in ["grants", "queue"] {
            let entries = fields.get_mut(list).and_then(Value::as_array_mut);
            for entry in entries.into_iter().flatten() {
                if let Some(at) = address(&mut link, number(entry, "client_id"))
                    && let Some(entry) = entry.as_object_mut()
                {
                    entry.insert("address".to_owned(), at.into());
                }
            }
        }
    }
    if asked.json {
        print_json(&lock)?;
    } else if lock.is_null() {
        print(&format!("{} is free\n", asked.key))?;
    } else {
        print(&shown(&lock))?;
    }
    Ok(0)
}

pub(crate) fn shown(lock: &Value) -> String {
    let none = Vec::new();
    let list = |name: &str| lock.get(name).and_then(Value::as_array).unwrap_or(&none).clone();
    let (grants, queue) = (list("grants"), list("queue"));
    let mut text = word(lock, "key");
    if let Some(grace) = lock.get("grace_ms").and_then(Value::as_u64) {
        text += &format!("\nnothing new is granted for {} more, after a failover", time(grace));
    }
    if lock.get("reserved_for").is_some() {
        text += "\nfree, and reserved for somebody who waits for other locks, too";
    }
    text += &format!("\n\nheld by {}\n", number(lock, "holders"));
    let mut rows = vec![
        ["HOLDER", "OWNER", "FENCE", "SLOT", "MODE", "HELD", "LEASE", "CLIENT", "ADDRESS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for grant in &grants {
        let slot = number(grant, "slot");
        rows.push(vec![
            who(grant),
            word(grant, "owner"),
            number(grant, "fence").to_string(),
            if slot == 0 { "-".to_owned() } else { slot.to_string() },
            word(grant, "mode"),
            time(number(grant, "held_ms")),
            lease(grant),
            word(grant, "client_name"),
            word(grant, "address"),
        ]);
    }
    if !grants.is_empty() {
        text += &table(&rows);
    }
    text += &format!("\nwaited for by {}\n", number(lock, "waiters"));
    let mut rows = vec![
        ["WAITER", "OWNER", "MODE", "WAITED", "AT MOST", "CLIENT", "ADDRESS"].map(str::to_owned).to_vec(),
    ];
    for waiter in &queue {
        let most = number(waiter, "timeout_ms");
        rows.push(vec![
            who(waiter),
            word(waiter, "owner"),
            word(waiter, "mode"),
            time(number(waiter, "waited_ms")),
            if most == 0 { "for ever".to_owned() } else { time(most) },
            word(waiter, "client_name"),
            word(waiter, "address"),
        ]);
    }
    if !queue.is_empty() {
        text += &table(&rows);
    }
    text
}

pub(crate) fn break_lock(target: &Target, asked: &Break) -> Result<u8, Failure> {
    let mut link = target.link()?;
    let lock = lock::ask(&mut link, target, &lock::info(&asked.key, true), "looking at the lock")?;
    let key = asked.key.to_string();
    let none = Vec::new();
    let grants = lock.get("grants").and_then(Value::as_array).unwrap_or(&none);
    let meant: Vec<&Value> = grants
        .iter()
        .filter(|grant| asked.fence.is_none_or(|fence| number(grant, "fence") == fence))
        .collect();
    if meant.is_empty() {
        print(&format!(
            "{key}: nothing to end: {}\n",
            if grants.is_empty() { "it is free" } else { "no grant has that fence" }
        ))?;
        return Ok(0);
    }
    let list: Vec<String> = meant
        .iter()
        .map(|grant| {
            format!(
                "  {} (fence {}), since {} ago",
                who(grant),
                number(grant, "fence"),
                time(number(grant, "held_ms"))
            )
        })
        .collect();
    if !asked.yes && !agreed(&key, &list)? {
        print("nothing was ended\n")?;
        return Ok(0);
    }
    // Only grants that were shown are ended, one by one: a newer grant has another fence.
    let mut ended = 0;
    for fence in meant.iter().map(|grant| number(grant, "fence")) {
        let mut command = redis::cmd("LOCK.BREAK");
        command.arg(&asked.key).arg("FENCE").arg(fence);
        ended += count(&mut link, target, &command)?;
    }
    print(&match ended {
        0 => format!("{key}: it had ended by itself\n"),
        _ => format!("{key}: ended {ended} of {}:\n{}\n", meant.len(), list.join("\n")),
    })?;
    Ok(0)
}

fn count(link: &mut Link, target: &Target, command: &redis::Cmd) -> Result<u64, Failure> {
    Ok(lock::ask(link, target, command, "breaking the lock")?.as_u64().unwrap_or_default())
}

/// Asks the user on the terminal. Without a terminal, `--yes` is required.
fn agreed(key: &str, list: &[String]) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(
            USAGE,
            "breaking a lock wants an answer, and there is no terminal: say --yes",
        ));
    }
    print(&format!(
        "{key} is held by\n{}\nIf they still work, two may work at once. End it? [y/N] ",
        list.join("\n")
    ))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::output)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
