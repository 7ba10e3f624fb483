//! A client that means harm: it sends whatever it likes, and takes a refusal for an answer.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::resp::{reply_len, request, words};

/// How long a reply may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How many requests go out at once. Those for 1,000 locks are long.
const BATCH: usize = 50;
/// In ms; longer than this takes.
pub(super) const LEASE: &str = "3600000";
/// Where places are told.
pub(super) const CHANNEL: &str = "told";

/// What came of something, or why nothing did: most often, because the server refused it.
pub(super) type Outcome<T> = Result<T, String>;

pub(super) struct Client {
    stream: TcpStream,
    came: Vec<u8>,
}

impl Client {
    pub(super) fn new(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection to the server");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self { stream, came: Vec::new() }
    }

    pub(super) fn send(&mut self, request: &[u8]) -> Outcome<()> {
        self.stream.write_all(request).map_err(|error| format!("the request does not go out: {error}"))
    }

    /// Reads on; whether anything came in time.
    fn read(&mut self, within: Duration) -> Outcome<bool> {
        let within = within.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(within)).expect("a timeout of the socket");
        let mut buffer = [0; 256 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err("the server closed the connection".into()),
            Ok(count) => {
                self.came.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) => Err(format!("the connection failed: {error}")),
        }
    }

    /// The next reply; a refusal is an error.
    pub(super) fn reply(&mut self) -> Outcome<Vec<u8>> {
        let len = loop {
            match reply_len(&self.came) {
                Some(len) => break len,
                None if self.read(PATIENCE)? => (),
                None => return Err(format!("no reply within {PATIENCE:?}")),
            }
        };
        let reply: Vec<u8> = self.came.drain(..len).collect();
        match reply.strip_prefix(b"-") {
            Some(refusal) => Err(format!("refused: {}", String::from_utf8_lossy(refusal).trim_end())),
            None => Ok(reply),
        }
    }

    pub(super) fn ask(&mut self, request: &[u8]) -> Outcome<Vec<u8>> {
        self.send(request)?;
        self.reply()
    }

    /// A request of words without spaces.
    pub(super) fn say(&mut self, line: &str) -> Outcome<Vec<u8>> {
        self.ask(&words(line))
    }

    /// Sends many requests, some at a time, up to the first that is refused, or not granted.
    pub(super) fn all(&mut self, requests: impl IntoIterator<Item = Vec<u8>>) -> Outcome<()> {
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let some: Vec<_> = requests.by_ref().take(BATCH).collect();
            self.send(&some.concat())?;
            let replies: Vec<_> = some.iter().map(|_| self.reply()).collect();
            for reply in replies {
                if reply? == b"*-1\r\n" {
                    return Err("not granted".into());
                }
            }
        }
        Ok(())
    }

    /// Whether that text comes in time, in whatever reply or message.
    pub(super) fn hears(&mut self, text: &str, within: Duration) -> Outcome<bool> {
        let begin = Instant::now();
        while !self.came.windows(text.len()).any(|part| part == text.as_bytes()) {
            let left = within.saturating_sub(begin.elapsed());
            if left.is_zero() || !self.read(left)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads all up to that end: how many bytes.
    pub(super) fn skip_to(&mut self, end: &str) -> Outcome<usize> {
        while !self.came.ends_with(end.as_bytes()) {
            if !self.read(PATIENCE)? {
                return Err(format!("no reply within {PATIENCE:?}"));
            }
        }
        Ok(std::mem::take(&mut self.came).len())
    }
}

/// A command about several locks.
pub(super) fn several<K: AsRef<[u8]>>(command: &str, keys: &[K], rest: &str) -> Vec<u8> {
    let count = keys.len().to_string();
    let mut arguments: Vec<&[u8]> = vec![command.as_bytes(), count.as_bytes()];
    arguments.extend(keys.iter().map(AsRef::as_ref));
    arguments.extend(rest.split_ascii_whitespace().map(str::as_bytes));
    request(&arguments)
}

/// A request for all of these locks at once.
pub(super) fn acquire_all<K: AsRef<[u8]>>(keys: &[K], rest: &str) -> Vec<u8> {
    several("LOCK.MACQUIRE", keys, rest)
}

/// A request for one lock, with a lease that does not end meanwhile.
pub(super) fn acquire(key: &str, owner: &str, rest: &str) -> Vec<u8> {
    words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE} {rest}"))
}

/// So many names of locks.
pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}:{number:07}")).collect()
}
