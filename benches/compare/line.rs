//! A connection that waits for each reply: for what is not measured, and for clients that send one request at a time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::resp::{reply_len, words};

const PATIENCE: Duration = Duration::from_secs(60);

/// A result, or the reason why there is none, which is most often an error reply.
pub(crate) type Outcome<T> = Result<T, String>;

pub(crate) struct Line {
    stream: TcpStream,
    /// Bytes that have arrived, and that have not been read yet.
    came: Vec<u8>,
}

impl Line {
    pub(crate) fn new(port: u16) -> Self {
        Self::try_new(port).expect("a connection to the server")
    }

    /// Returns `None` if nobody listens on the port.
    pub(crate) fn try_new(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Self { stream, came: Vec::new() })
    }

    pub(crate) fn send(&mut self, request: &[u8]) -> Outcome<()> {
        self.stream.write_all(request).map_err(|error| format!("the request does not go out: {error}"))
    }

    /// Returns the next reply. An error reply is an error.
    pub(crate) fn reply(&mut self) -> Outcome<Vec<u8>> {
        let len = loop {
            match reply_len(&self.came) {
                Some(len) => break len,
                None => self.read()?,
            }
        };
        let reply: Vec<u8> = self.came.drain(..len).collect();
        match reply.strip_prefix(b"-") {
            Some(refusal) => Err(format!("refused: {}", String::from_utf8_lossy(refusal).trim_end())),
            None => Ok(reply),
        }
    }

    fn read(&mut self) -> Outcome<()> {
        let mut buffer = [0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err("the server closed the connection".into()),
            Ok(count) => {
                self.came.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) => Err(format!("no reply: {error}")),
        }
    }

    pub(crate) fn ask(&mut self, request: &[u8]) -> Outcome<Vec<u8>> {
        self.send(request)?;
        self.reply()
    }

    /// As `ask`, with a line whose words contain no spaces.
    pub(crate) fn say(&mut self, line: &str) -> Outcome<Vec<u8>> {
        self.ask(&words(line))
    }
}
