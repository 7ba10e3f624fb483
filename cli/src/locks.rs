//! `redislock ls`, `show` and `break`.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::thread;

use redis::{RedisResult, ToSingleRedisArg, Value as Reply};
use rustix::termios::tcgetwinsize;
use serde_json::Value;

use crate::connect::{Node, Target};
use crate::failure::{Failure, NO_MODULE, NOTHING, USAGE};
use crate::lock::{self, address, who};
use crate::options::{Break, Ls, Show};
use crate::text::{self, Name, count, number, say, table, time, word};

/// How many names one SCAN command looks at.
const SCAN_COUNT: usize = 1_000;
/// The server's name for the type of a lock.
const TYPE: &str = "lockstate";

/// Writes to the standard output. Returns whether the reader still reads: `head`, for example, ends when it has read enough.
fn write(text: &str) -> Result<bool, Failure> {
    let done = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true).map_err(Failure::output),
    }
}

pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

/// The columns and rows of the terminal to which the output goes, if it goes to one.
fn terminal() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into())).filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

pub(crate) fn ls(target: &Target, asked: &Ls) -> Result<u8, Failure> {
    let (mut locks, mut hints, code) = listed(target, asked)?;
    if asked.json {
        print_json(&Value::Array(locks))?;
    } else if let Some(every) = asked.watch {
        let lines = |hints: &[String]| hints.iter().map(|hint| format!("{hint}\n")).collect::<String>();
        while write(&screenful(&(list(&locks) + &lines(&hints))))? {
            thread::sleep(every);
            (locks, hints) = match listed(target, asked) {
                Ok((locks, hints, _)) => (locks, hints),
                // An error does not end the list: for example, it goes on when the server is back after a failover.
                Err(failure) => (locks, vec![failure.to_string()]),
            };
        }
        return Ok(0);
    } else {
        print(&list(&locks))?;
    }
    hints.iter().for_each(say);
    Ok(code)
}

/// The locks that the options ask for, sorted by name; hints, if there may be more locks; and the exit code.
fn listed(target: &Target, asked: &Ls) -> Result<(Vec<Value>, Vec<String>, u8), Failure> {
    let (nodes, down) = target.nodes()?;
    let mut hints: Vec<String> =
        down.iter().map(|(_, why)| format!("its locks are not listed: {why}")).collect();
    let code = down.first().map_or(0, |(_, why)| why.code);
    let mut locks = Vec::new();
    for mut node in nodes {
        if !target.is_cluster() && node.is_of_cluster() {
            hints
                .push("this server is one node of a cluster: for the locks of all, say --cluster".to_owned());
        }
        locks.extend(of_node(&mut node, &asked.pattern)?);
    }
    let older = asked.older.unwrap_or_default();
    locks.retain(|lock| {
        (!asked.waiting || number(lock, "waiters") > 0)
            && u128::from(number(lock, "held_ms")) >= older.as_millis()
    });
    locks.sort_by_cached_key(|lock| word(lock, "key"));
    // SCAN may name a key twice, and a key that is being moved may be at two nodes.
    locks.dedup_by(|one, other| one.get("key") == other.get("key"));
    Ok((locks, hints, code))
}

fn list(locks: &[Value]) -> String {
    let mut rows = vec![["KEY", "HOLDER", "HELD", "LEASE", "HOLDERS", "WAITERS"].map(str::to_owned).to_vec()];
    for lock in locks {
        rows.push(vec![
            word(lock, "key"),
            if number(lock, "holders") == 0 { "-".to_owned() } else { who(lock) },
            time(number(lock, "held_ms")),
            lease(lock),
            number(lock, "holders").to_string(),
            number(lock, "waiters").to_string(),
        ]);
    }
    if locks.is_empty() { "no locks\n".to_owned() } else { table(&rows, terminal().map(|(wide, _)| wide)) }
}

/// The output of one update of `--watch`: on a terminal, the text clears the screen first, and is cut to the screen's height.
fn screenful(text: &str) -> String {
    let Some((_, high)) = terminal() else { return format!("{text}\n") };
    let (fits, lines) = (high.saturating_sub(2), text.lines().count());
    let shown: String = text.split_inclusive('\n').take(fits).collect();
    let rest = match lines.saturating_sub(fits) {
        0 => String::new(),
        rest => format!("and {} more\n", count(u64::try_from(rest).unwrap_or_default())),
    };
    format!("\u{1b}[H\u{1b}[2J{shown}{rest}")
}

/// All locks of a server. No command looks at more than `SCAN_COUNT` names.
fn of_node(node: &mut Node, pattern: &Name) -> Result<Vec<Value>, Failure> {
    // SCAN does not tell whether the server knows the type, so try LOCK.INFO. A name that is free, no lock, or on another node is no failure.
    if let Err(error) = lock::info(pattern, false).query::<Reply>(&mut node.connection) {
        let failure = Failure::of(&error, "listing", &node.address);
        if failure.code == NO_MODULE.0 {
            return Err(failure);
        }
    }
    let mut locks = Vec::new();
    let mut cursor = 0;
    loop {
        let keys;
        (cursor, keys) = scan(node, cursor, pattern, SCAN_COUNT)?;
        for (key, mut lock) in keys.iter().zip(infos(node, &keys, "listing")?) {
            if let Some(fields) = lock.as_object_mut() {
                fields.insert("key".to_owned(), text::text(key).into());
                locks.push(lock);
            }
        }
        if cursor == 0 {
            return Ok(locks);
        }
    }
}

/// LOCK.INFO of each of these locks: null if the lock has ended or moved meanwhile.
pub(crate) fn infos<K: ToSingleRedisArg>(
    node: &mut Node,
    keys: &[K],
    tried: &str,
) -> Result<Vec<Value>, Failure> {
    let mut asks = redis::pipe();
    for key in keys {
        // While a slot is moving to this node, the node answers about a lock in it only after ASKING.
        if node.is_asked_with_others {
            asks.cmd("ASKING");
        }
        asks.add_command(lock::info(key, false));
    }
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error| Failure::of(&error, tried, &node.address);
    let replies: Vec<RedisResult<Reply>> =
        asks.ignore_errors().query(&mut node.connection).map_err(failed)?;
    let each = if node.is_asked_with_others { 2 } else { 1 };
    let lock = |reply: RedisResult<Reply>| match reply {
        Ok(reply) => Ok(lock::json(reply)),
        Err(error) if matches!(error.code(), Some("WRONGTYPE" | "MOVED" | "ASK")) => Ok(Value::Null),
        Err(error) => Err(failed(error)),
    };
    replies.into_iter().skip(each - 1).step_by(each).map(lock).collect()
}

/// One SCAN of `count` names: returns the locks that match the pattern, and the next cursor. Cursor 0 is the beginning, and the end.
pub(crate) fn scan(
    node: &mut Node,
    cursor: u64,
    pattern: &Name,
    count: usize,
) -> Result<(u64, Vec<Vec<u8>>), Failure> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count).arg("TYPE").arg(TYPE);
    node.ask(&scan, "listing")
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
        print(&shown(&lock, None))?;
    }
    Ok(0)
}

/// A lock in detail, cut to `wide` columns if there is a limit.
pub(crate) fn shown(lock: &Value, wide: Option<usize>) -> String {
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
        text += &table(&rows, wide);
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
        text += &table(&rows, wide);
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
        return Ok(NOTHING.0);
    }
    let list: Vec<String> = meant
        .iter()
        .map(|grant| {
            format!(
                "  {} (fence {}), for {}",
                who(grant),
                number(grant, "fence"),
                time(number(grant, "held_ms"))
            )
        })
        .collect();
    if !asked.yes && !agreed(&key, &list)? {
        print("nothing was ended\n")?;
        return Ok(NOTHING.0);
    }
    // End only the grants that were shown, each by its fence: a newer grant has another fence.
    let mut ended = 0;
    for fence in meant.iter().map(|grant| number(grant, "fence")) {
        let mut command = redis::cmd("LOCK.BREAK");
        command.arg(&asked.key).arg("FENCE").arg(fence);
        ended += lock::ask(&mut link, target, &command, "breaking the lock")?.as_u64().unwrap_or_default();
    }
    print(&match ended {
        0 => format!("{key}: it had ended by itself\n"),
        _ => format!("{key}: ended {ended} of {}:\n{}\n", meant.len(), list.join("\n")),
    })?;
    Ok(if ended == 0 { NOTHING.0 } else { 0 })
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
