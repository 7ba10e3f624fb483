//! A client that waits for a lock, and how to look at those who wait.

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

/// One waiter, as `LOCK.INFO ... FULL` shows it.
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
    /// A new connection that has sent `LOCK.ACQUIRE key options` and is blocked in it: without limit, where the
    /// options have no `BLOCK`.
    #[track_caller]
    pub(crate) fn new(server: &Server, key: &str, options: &str) -> Self {
        Self::of(server, server.client(), key, options)
    }

    /// `new` on a connection that is there already.
    #[track_caller]
    pub(crate) fn of(server: &Server, client: Client, key: &str, options: &str) -> Self {
        let block = if options.contains("BLOCK") { "" } else { "BLOCK 0" };
        let words = format!("{options} {block}");
        let words = ["LOCK.ACQUIRE", key].into_iter().chain(words.split_whitespace());
        Self::of_words(server, client, words)
    }

    /// `of` with words that may have blanks or any other byte in them.
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

    /// Whether the server has the client blocked.
    pub(crate) fn is_blocked(&self, observer: &mut Client) -> bool {
        let line: String = observer.ask(&format!("CLIENT LIST ID {}", self.id));
        line.split(' ').any(|field| field.strip_prefix("flags=").is_some_and(|flags| flags.contains('b')))
    }

    /// The one reply, or the text of the error, which must come soon.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> Result<Value, String> {
        let watch = Stopwatch::start();
        let reply = self.client.finish();
        let after = watch.worked();
        assert!(after < SOON, "the reply came after {after:?}: {reply:?}");
        assert_eq!(self.client.ask::<String>("PING"), "PONG", "a second reply");
        reply
    }

    /// The grant, which must come soon.
    #[track_caller]
    pub(crate) fn granted(&mut self) -> Grant {
        match self.reply() {
            Ok(reply) => grant(reply).expect("a grant, not null"),
            Err(error) => panic!("not granted: {error}"),
        }
    }

    /// The error that the client is sent away with, soon.
    #[track_caller]
    pub(crate) fn refused(&mut self) -> String {
        self.reply().expect_err("an error")
    }
}

/// Whether what was told is left of a lease of that length, which began with the grant: its fence says when that was, and no
/// more of it can have gone by when the answer went out than by now.
pub(crate) fn is_left_of(lease: i64, granted: &Grant) -> bool {
    let gone_by = wall_clock() - granted.granted_at();
    // Both are rounded to ms.
    (lease - gone_by - 1..=lease).contains(&granted.lease)
}

/// The first thousand who wait for a held lock, first come first.
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

/// The owners that wait for a held lock, first come first.
#[track_caller]
pub(crate) fn owners(client: &mut Client, key: &str) -> Vec<String> {
    queue(client, key).into_iter().map(|waiter| waiter.owner).collect()
}

/// How many clients are blocked, by the server's own count.
#[track_caller]
pub(crate) fn blocked_clients(client: &mut Client) -> i64 {
    client.info("clients", "blocked_clients").parse().unwrap()
}

/// The processor time that the server's own thread has used. A loop that takes too long shows in it, and nothing else that this machine
/// does.
#[track_caller]
pub(crate) fn processor_time(client: &mut Client) -> Duration {
    processor_time_in(&client.ask::<String>("INFO cpu"))
}

/// The processor time that the server's own thread had used when it answered `INFO cpu` so.
#[track_caller]
pub(crate) fn processor_time_in(info: &str) -> Duration {
    let of = |name: &str| {
        let seconds = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
        Duration::from_secs_f64(seconds.trim().parse().unwrap())
    };
    of("used_cpu_user_main_thread") + of("used_cpu_sys_main_thread")
}

/// Waits for the condition, and panics where it does not come true soon.
#[track_caller]
pub(crate) fn soon(what: &str, mut condition: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    wait_for(what, &mut condition);
    let after = watch.worked();
    assert!(after < SOON, "{what}: only after {after:?}");
}

/// Who holds a lock by a session. Where the server has stood still for longer than the lease lasts, the first look may come
/// before the step that restores the grant.
#[track_caller]
pub(crate) fn held(client: &mut Client, key: &str) -> Grant {
    let mut holder = None;
    soon("a holder", || {
        holder = client.holder(key);
        holder.is_some()
    });
    holder.unwrap()
}

/// The server's time in ms since 1970.
#[track_caller]
pub(crate) fn server_time(client: &mut Client) -> i64 {
    let (seconds, micros): (i64, i64) = client.ask("TIME");
    seconds * 1000 + micros / 1000
}

/// Waits until the server's time is past that.
#[track_caller]
pub(crate) fn wait_until(client: &mut Client, at: i64) {
    wait_for("the time", || server_time(client) > at);
}

/// Looks again and again for so many ms of the server's time.
#[track_caller]
pub(crate) fn all_along(client: &mut Client, length: i64, mut look: impl FnMut(&mut Client)) {
    let end = server_time(client) + length;
    while server_time(client) < end {
        look(client);
        sleep(Duration::from_millis(1));
    }
}

/// Waits until the server has done with the connection of that number.
#[track_caller]
pub(crate) fn wait_until_gone(client: &mut Client, id: i64) {
    wait_for("the end of a connection", || client.ask::<String>(&format!("CLIENT LIST ID {id}")).is_empty());
}

/// Sends the lines in one transaction; each reply, or the text of the error.
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

/// Does that in one step, so that no lease can run out in between; when that of the lock ends then.
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
    /// When the grant was made, by the server's clock, in ms since 1970: a fence is that time in microseconds.
    pub(crate) fn granted_at(&self) -> i64 {
        self.fence / 1000
    }
}
