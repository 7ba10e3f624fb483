//! A connection for commands in one line: words between blanks, as one types them into `redis-cli`.

use std::collections::HashMap;
use std::time::Duration;

use redis::{Cmd, Connection, FromRedisValue, RedisResult, Value};

use super::{PATIENCE, wait_for};

/// A connection. If the server does not answer, the test fails.
pub(crate) struct Client(Connection);

/// A reply of `LOCK.ACQUIRE` with a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) owner: String,
    pub(crate) fence: i64,
    pub(crate) holds: i64,
    pub(crate) lease: i64,
    /// The slot, with `LIMIT`.
    pub(crate) slot: Option<i64>,
}

/// The data set at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Each key, and its expiry.
    pub(crate) leases: Vec<(Vec<u8>, i64)>,
    pub(crate) digest: String,
    changes: String,
}

impl Client {
    pub(super) fn connect(port: u16, protocol: &str) -> RedisResult<Self> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/?protocol={protocol}"))?;
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(connection))
    }

    /// Sets how long the server may take for an answer.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.0.set_read_timeout(Some(patience)).unwrap();
    }

    /// Sends a command. Returns the reply, or the text of the error.
    pub(crate) fn send(&mut self, line: &str) -> Result<Value, String> {
        self.send_words(line.split_whitespace())
    }

    /// As `send`, for words that contain blanks or other special bytes.
    pub(crate) fn send_words<W: AsRef<[u8]>>(
        &mut self,
        words: impl IntoIterator<Item = W>,
    ) -> Result<Value, String> {
        self.begin_words(words);
        self.finish()
    }

    /// Sends a command that must not be refused. Returns the reply.
    #[track_caller]
    pub(crate) fn ask<T: FromRedisValue>(&mut self, line: &str) -> T {
        match self.send(line) {
            Ok(reply) => convert(reply),
            Err(error) => panic!("{line}: {error}"),
        }
    }

    /// As `ask`, for words that contain blanks or other special bytes.
    #[track_caller]
    pub(crate) fn ask_words<T: FromRedisValue, W: AsRef<[u8]>>(
        &mut self,
        words: impl IntoIterator<Item = W>,
    ) -> T {
        convert(self.send_words(words).unwrap())
    }

    /// Sends a command that must be refused. Returns the error.
    #[track_caller]
    pub(crate) fn refused(&mut self, line: &str) -> String {
        match self.send(line) {
            Err(error) => error,
            Ok(reply) => panic!("{line}: not refused, the reply is {reply:?}"),
        }
    }

    /// As `send`; the outer error means a broken connection.
    pub(crate) fn try_send(&mut self, line: &str) -> RedisResult<Result<Value, String>> {
        self.try_begin_words(line.split_whitespace())?;
        self.try_finish()
    }

    /// Sends many commands, some hundreds at a time. Returns each reply, or the text of the error.
    pub(crate) fn send_all<L: AsRef<str>>(&mut self, lines: &[L]) -> Vec<Result<Value, String>> {
        let mut replies = Vec::with_capacity(lines.len());
        for some in lines.chunks(500) {
            for line in some {
                self.begin(line.as_ref());
            }
            replies.extend(some.iter().map(|_| self.finish()));
        }
        replies
    }

    /// As `send_all`, for commands that must not be refused.
    #[track_caller]
    pub(crate) fn ask_all<T: FromRedisValue, L: AsRef<str>>(&mut self, lines: &[L]) -> Vec<T> {
        let mut replies = Vec::with_capacity(lines.len());
        for (reply, line) in self.send_all(lines).into_iter().zip(lines) {
            match reply {
                Ok(reply) => replies.push(convert(reply)),
                Err(error) => panic!("{}: {error}", line.as_ref()),
            }
        }
        replies
    }

    /// Sends a command and does not wait for its reply.
    pub(crate) fn begin(&mut self, line: &str) {
        self.begin_words(line.split_whitespace());
    }

    pub(crate) fn begin_words<W: AsRef<[u8]>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.try_begin_words(words).unwrap();
    }

    /// Sends commands in one piece, so that the server reads them at once, and does not wait for the replies.
    pub(crate) fn begin_together<W: AsRef<[u8]>>(&mut self, commands: &[Vec<W>]) {
        let mut bytes = Vec::new();
        for words in commands {
            let mut command = Cmd::new();
            for word in words {
                command.arg(word.as_ref());
            }
            bytes.extend(command.get_packed_command());
        }
        self.0.send_packed_command(&bytes).unwrap();
    }

    fn try_begin_words<W: AsRef<[u8]>>(&mut self, words: impl IntoIterator<Item = W>) -> RedisResult<()> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(word.as_ref());
        }
        self.0.send_packed_command(&command.get_packed_command())
    }

    /// Returns the first reply that has not been read yet, or the text of the error.
    pub(crate) fn finish(&mut self) -> Result<Value, String> {
        self.try_finish().unwrap()
    }

    /// As `finish`; the outer error means a broken connection.
    pub(crate) fn try_finish(&mut self) -> RedisResult<Result<Value, String>> {
        loop {
            match self.0.recv_response()? {
                Value::ServerError(error) => {
                    let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
                    return Ok(Err(text));
                }
                // A push message of RESP3, such as an invalidation, is no reply.
                Value::Push { .. } => {}
                reply => return Ok(Ok(reply)),
            }
        }
    }

    /// Returns the version of Redis with which the server is compatible: major and minor.
    #[track_caller]
    pub(crate) fn version(&mut self) -> (u32, u32) {
        let version = self.info("server", "redis_version");
        let mut parts = version.split('.').map(|part| part.parse().unwrap());
        (parts.next().unwrap(), parts.next().unwrap())
    }

    /// Returns by how many ms a key's TTL may exceed its lease. Redis 8 may delete a key at the beginning of its last millisecond, so the
    /// TTL is one millisecond longer there.
    #[track_caller]
    pub(crate) fn ttl_beyond_lease(&mut self) -> i64 {
        i64::from(self.version() >= (8, 0))
    }

    /// Runs `LOCK.ACQUIRE key options`. Returns `None` if the reply is null.
    #[track_caller]
    pub(crate) fn acquire(&mut self, key: &str, options: &str) -> Option<Grant> {
        grant(self.ask(&format!("LOCK.ACQUIRE {key} {options}")))
    }

    /// Runs `LOCK.INFO key`, with each value as text. Returns `None` if the lock is free.
    #[track_caller]
    pub(crate) fn lock_info(&mut self, key: &str) -> Option<HashMap<String, String>> {
        self.ask(&format!("LOCK.INFO {key}"))
    }

    /// Returns the holder of the lock, or `None` if it is free, even if it is reserved.
    #[track_caller]
    pub(crate) fn holder(&mut self, key: &str) -> Option<Grant> {
        let info = self.lock_info(key)?;
        let number = |field: &str| info[field].parse().unwrap();
        Some(Grant {
            owner: info.get("owner")?.clone(),
            fence: number("fence"),
            holds: number("holds"),
            lease: number("lease-ms"),
            // A reply of `LOCK.ACQUIRE` has no slot for an exclusive lock.
            slot: Some(number("slot")).filter(|slot| *slot > 0 && number("limit") != 1),
        })
    }

    /// Returns everything that a command could change: the data set, its expiries, and the server's count of changes.
    #[track_caller]
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let mut keys: Vec<Vec<u8>> = self.ask("KEYS *");
        keys.sort();
        let leases = keys.into_iter().map(|key| {
            let ends = self.ask_words([b"PEXPIRETIME", &key[..]]);
            (key, ends)
        });
        Snapshot {
            leases: leases.collect(),
            digest: self.ask("DEBUG DIGEST"),
            changes: self.info("persistence", "rdb_changes_since_last_save"),
        }
    }

    /// Returns a field of `INFO section`, or an empty text if there is none.
    #[track_caller]
    pub(crate) fn info(&mut self, section: &str, field: &str) -> String {
        let text: String = self.ask(&format!("INFO {section}"));
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_default().into()
    }

    #[track_caller]
    pub(crate) fn rewrite_aof(&mut self) {
        self.ask::<Value>("BGREWRITEAOF");
        self.wait_for_rewrite();
        assert_eq!(self.info("persistence", "aof_last_bgrewrite_status"), "ok");
    }

    /// Waits until the AOF has been rewritten: after `BGREWRITEAOF`, and on a replica after a full copy.
    #[track_caller]
    pub(crate) fn wait_for_rewrite(&mut self) {
        wait_for("the append-only file to be rewritten", || {
            ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
                .iter()
                .all(|field| self.info("persistence", field) == "0")
        });
    }
}

/// Converts a reply, or a part of one, into the expected type.
#[track_caller]
pub(crate) fn convert<T: FromRedisValue>(reply: Value) -> T {
    let shown = format!("{reply:?}");
    match redis::from_redis_value(reply) {
        Ok(value) => value,
        Err(error) => panic!("{shown}: {error}"),
    }
}

/// Reads a reply of `LOCK.ACQUIRE`.
#[track_caller]
pub(crate) fn grant(reply: Value) -> Option<Grant> {
    let mut parts = convert::<Option<Vec<Value>>>(reply)?;
    let slot = parts.get(4).cloned().map(convert);
    parts.truncate(4);
    let (owner, fence, holds, lease) = convert(Value::Array(parts));
    Some(Grant { owner, fence, holds, lease, slot })
}
