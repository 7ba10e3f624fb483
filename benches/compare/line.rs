//! A connection that waits for each reply: for what is not measured, and for clients of which each is alone.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::resp::{reply_len, words};

const PATIENCE: Duration = Duration::from_secs(60);

/// What came of something, or why nothing did: most often, because the server refused it.
pub(crate) type Outcome<T> = Result<T, String>;

pub(crate) struct Line {
    stream: TcpStream,
    /// What came and is not taken yet.
    came: Vec<u8>,
}

impl Line {
    pub(crate) fn new(port: u16) -> Self {
        Self::try_new(port).expect("a connection to the server")
    }

    /// None: nobody listens.
    pub(crate) fn try_new(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self { stream, came: Vec::new() })
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> Outcome<()> {
        self.stream.write_all(request).map_err(|error| format!("the request does not go out: {error}"))
    }

    /// Reads on; whether anything came in time.
    fn read(&mut self, within: Duration) -> Outcome<bool> {
        let within = within.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(within)).expect("a timeout of the socket");
        let mut buffer = [0; 64 * 1024];
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

    /// Reads until that is found in what came.
    fn read_until<T>(&mut self, found: impl Fn(&[u8]) -> Option<T>) -> Outcome<T> {
        loop {
            match found(&self.came) {
                Some(found) => return Ok(found),
                None if self.read(PATIENCE)? => (),
                None => return Err(format!("no reply within {PATIENCE:?}")),
            }
        }
    }

    /// The next reply; a refusal is an error.
    pub(crate) fn reply(&mut self) -> Outcome<Vec<u8>> {
        let len = self.read_until(reply_len)?;
        let reply: Vec<u8> = self.came.drain(..len).collect();
        match reply.strip_prefix(b"-") {
            Some(refusal) => Err(format!("refused: {}", String::from_utf8_lossy(refusal).trim_end())),
            None => Ok(reply),
        }
    }

    pub(crate) fn ask(&mut self, request: &[u8]) -> Outcome<Vec<u8>> {
        self.send(request)?;
        self.reply()
    }

    /// The same of words without spaces.
    pub(crate) fn say(&mut self, line: &str) -> Outcome<Vec<u8>> {
        self.ask(&words(line))
    }

    /// Whether that text comes in time, in whatever reply or message.
    pub(crate) fn hears(&mut self, text: &str, within: Duration) -> Outcome<bool> {
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
    pub(crate) fn skip_to(&mut self, end: &str) -> Outcome<usize> {
        self.read_until(|came| came.ends_with(end.as_bytes()).then_some(()))?;
        Ok(std::mem::take(&mut self.came).len())
    }
}
