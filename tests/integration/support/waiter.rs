//! A client that waits for a lock, and functions that show waiters.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

use redis::{Value, from_redis_value};

use super::{Client, Grant, SOON, Server, Stopwatch, convert, grant, wait_for, wall_clock};

/// A connection blocked in `LOCK.ACQUIRE`.
pub(crate) struct Waiter {
    pub(crate) client: Client,
    pub(crate) id: i64,
}

/// A waiter, as `LOCK.INFO ... FULL` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) owner: String,
    pub(crate) id: i64,
    pub(crate) waited: i64,
    pub(crate) timeout: i64,
    /// `block` or `notify`.
    pub(crate) by: String,
}

impl Waiter {
    /// Opens a connection, sends `LOCK.ACQUIRE key options`, and waits until it is blocked: without limit, unless the options have `BLOCK`.
    #[track_caller]
    pub(crate) fn new(server: &Server, key: &str, options: &str) -> Self {
        Self::of(server, server.client(), key, options)
    }

    /// As `new`, on an existing connection.
    #[track_caller]
    pub(crate) fn of(server: &Server, client: Client, key: &str, options: &str) -> Self {
        let block = if options.contains("BLOCK") { "" } else { "BLOCK 0" };
        let words = format!("{options} {block}");
        let words = ["LOCK.ACQUIRE", key].into_iter().chain(words.split_whitespace());
        Self::of_words(server, client, words)
    }

    /// As `of`, for words that may contain blanks or other special bytes.
    #[track_caller]
    pub(crate) fn of_words<W: AsRef<[u8]>>(
        server: &Server,
        mut client: Client,
        words: impl IntoIterator<Item = W>,
    ) -> Self {
        let id = client.ask("CLIENT ID");
        client.begin_words(words);
        let waiter = Self { client, id };
        let mut observer = server.client();
        wait_for("a client to be blocked", || waiter.is_blocked(&mut observer));
        waiter
    }

    /// Whether the server shows the client as blocked.
    pub(crate) fn is_blocked(&self, observer: &mut Client) -> bool {
        let line: String = observer.ask(&format!("CLIENT LIST ID {}", self.id));
        line.split(' ').any(|field| field.strip_prefix("flags=").is_some_and(|flags| flags.contains('b')))
    }

    /// Returns the reply, or the text of the error, which must come soon.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Result<Value, String> {
        let watch = Stopwatch::start();
        let reply = self.client.finish();
        let after = watch.worked();
        assert!(after < SOON, "the reply came after {after:?}: {reply:?}");
        assert_eq!(self.client.ask::<String>("PING"), "PONG", "a second reply");
        reply
    }

    /// Returns the grant, which must come soon.
    #[track_caller]
    pub(crate) fn granted(&mut self) -> Grant {
        match self.reply() {
            Ok(reply) => grant(reply).expect("a grant, not null"),
            Err(error) => panic!("not granted: {error}"),
        }
    }

    /// Returns the error with which the client is sent away, which must come soon.
    #[track_caller]
    pub(crate) fn refused(&mut self) -> String {
        self.reply().expect_err("an error")
    }
}

/// Whether the lease in the reply can be the rest of `lease`, which began with the grant. The fence is the time of the grant, and the reply
/// was sent before now.
pub(crate) fn is_left_of(lease: i64, granted: &Grant) -> bool {
    let gone_by = wall_clock() - granted.granted_at();
    // Both times are rounded to ms.
    (lease - gone_by - 1..=lease).contains(&granted.lease)
}

/// Returns the first thousand waiters for a held lock, in the order of the queue.
#[track_caller]
pub(crate) fn queue(client: &mut Client, key: &str) -> Vec<Queued> {
    let info: HashMap<String, Value> = client.ask(&format!("LOCK.INFO {key} FULL"));
    let waiters: Vec<HashMap<String, String>> = from_redis_value(info["queue"].clone()).unwrap();
    let queued = waiters.iter().map(|waiter| {
        let number = |field: &str| waiter[field].parse().unwrap();
        Queued {
            owner: waiter["owner"].clone(),
            id: number("client-id"),
            waited: number("waited-ms"),
            timeout: number("timeout-ms"),
            by: waiter["waits-by"].clone(),
        }
    });
    queued.collect()
}

/// Returns the owners that wait for a held lock, in the order of the queue.
#[track_caller]
pub(crate) fn owners(client: &mut Client, key: &str) -> Vec<String> {
    queue(client, key).into_iter().map(|waiter| waiter.owner).collect()
}

/// Returns the server's count of blocked clients.
#[track_caller]
pub(crate) fn blocked_clients(client: &mut Client) -> i64 {
    client.info("clients", "blocked_clients").parse().unwrap()
}

/// Returns the processor time of the server's main thread. It shows a loop that takes too long, and no other work of the machine.
#[track_caller]
pub(crate) fn processor_time(client: &mut Client) -> Duration {
    processor_time_in(&client.ask::<String>("INFO cpu"))
}

/// Returns the processor time of the server's main thread from a reply of `INFO cpu`.
#[track_caller]
pub(crate) fn processor_time_in(info: &str) -> Duration {
    let of = |name: &str| {
        let seconds = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        Duration::from_secs_f64(seconds.trim().parse().unwrap())
    };
    of("used_cpu_user_main_thread") + of("used_cpu_sys_main_thread")
}

/// Waits for the condition, and panics if it does not become true soon.
#[track_caller]
pub(crate) fn soon(what: &str, mut condition: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    wait_for(what, &mut condition);
    let after = watch.worked();
    assert!(after < SOON, "{what}: only after {after:?}");
}

/// Returns the holder of a lock with a session. If the server has stood still for longer than the lease, it may need a moment to restore
/// the grant.
#[track_caller]
pub(crate) fn held(client: &mut Client, key: &str) -> Grant {
    let mut holder = None;
    soon("a holder", || {
        holder = client.holder(key);
        holder.is_some()
    });
    holder.unwrap()
}

/// Returns the server's time in ms since 1970.
#[track_caller]
pub(crate) fn server_time(client: &mut Client) -> i64 {
    let (seconds, micros): (i64, i64) = client.ask("TIME");
    seconds * 1000 + micros / 1000
}

/// Waits until the server's time is later than this.
#[track_caller]
pub(crate) fn wait_until(client: &mut Client, at: i64) {
    wait_for("the time", || server_time(client) > at);
}

/// Calls `look` again and again for this many ms of the server's time.
#[track_caller]
pub(crate) fn all_along(client: &mut Client, length: i64, mut look: impl FnMut(&mut Client)) {
    let end = server_time(client) + length;
    while server_time(client) < end {
        look(client);
        sleep(Duration::from_millis(1));
    }
}

/// Waits until the server has removed the connection with this id.
#[track_caller]
pub(crate) fn wait_until_gone(client: &mut Client, id: i64) {
    wait_for("the end of a connection", || client.ask::<String>(&format!("CLIENT LIST ID {id}")).is_empty());
}

/// Sends the lines in one transaction. Returns each reply, or the text of the error.
#[track_caller]
pub(crate) fn transaction(client: &mut Client, lines: &[&str]) -> Vec<Result<Value, String>> {
    client.ask::<()>("MULTI");
    for line in lines {
        assert_eq!(client.ask::<String>(line), "QUEUED", "{line}");
    }
    let Value::Array(replies) = client.ask("EXEC") else { panic!("no array") };
    let replies = replies.into_iter().map(|reply| match reply {
        Value::ServerError(error) => Err(format!("{} {}", error.code(), error.details().unwrap_or_default())),
        reply => Ok(reply),
    });
    replies.collect()
}

/// Runs the lines in one step, so that no lease can end in between. Returns when the lock's lease ends afterwards.
#[track_caller]
pub(crate) fn lease_end_after(client: &mut Client, key: &str, lines: &[&str]) -> i64 {
    let ends = format!("PEXPIRETIME {key}");
    let lines: Vec<&str> = lines.iter().copied().chain([&ends[..]]).collect();
    let mut replies = transaction(client, &lines);
    let ends = replies.pop().unwrap();
    for (reply, line) in replies.iter().zip(lines) {
        assert!(reply.is_ok(), "{line}: {reply:?}");
    }
    convert(ends.unwrap())
}

impl Grant {
    /// Returns when the grant was made, by the server's clock, in ms since 1970: a fence is this time in microseconds.
    pub(crate) fn granted_at(&self) -> i64 {
        self.fence / 1000
    }
}
