//! A connection to a server that may go away, freeze or change its role: its methods report this, and do not panic.

use std::time::Duration;

use redis::{Cmd, Connection, Value};

use super::PATIENCE;

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Reply(Value),
    /// An error, as the server sent it.
    Refused(String),
    /// The connection closed, or no reply came in time. The connection can't be used any more.
    Gone,
    /// The connection could not be opened in time, so nothing was sent.
    Unreachable,
}

pub(crate) struct Link(Connection);

impl Link {
    /// Opens a connection whose server has this long for each reply, but only half a second for the first one, because it may be frozen.
    pub(crate) fn open(port: u16, patience: Duration) -> Option<Self> {
        Self::open_within(port, patience.min(Duration::from_millis(500)), patience)
    }

    /// As `open`, for a running server: the first reply may take as long as others.
    #[track_caller]
    pub(crate) fn to(port: u16, patience: Duration) -> Self {
        Self::open_within(port, PATIENCE, patience).expect("a connection")
    }

    fn open_within(port: u16, first: Duration, patience: Duration) -> Option<Self> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).ok()?;
        let connection = client.get_connection_with_timeout(first).ok()?;
        connection.set_read_timeout(Some(patience)).ok()?;
        connection.set_write_timeout(Some(patience)).ok()?;
        Some(Self(connection))
    }

    /// Sends a command as words between blanks. Returns the outcome.
    pub(crate) fn send(&mut self, line: &str) -> Outcome {
        if self.begin(line) { self.finish() } else { Outcome::Gone }
    }

    /// Sends a command. Returns whether the connection accepted it.
    pub(crate) fn begin(&mut self, line: &str) -> bool {
        self.begin_words(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn begin_words(&mut self, words: &[&str]) -> bool {
        let mut command = Cmd::new();
        for word in words {
            command.arg(word);
        }
        self.0.send_packed_command(&command.get_packed_command()).is_ok()
    }

    /// Returns the first outcome that has not been read yet.
    pub(crate) fn finish(&mut self) -> Outcome {
        match self.0.recv_response() {
            Ok(Value::ServerError(error)) => {
                Outcome::Refused(format!("{} {}", error.code(), error.details().unwrap_or_default()))
            }
            Ok(reply) => Outcome::Reply(reply),
            Err(_) => Outcome::Gone,
        }
    }
}

impl Outcome {
    /// Returns the first word of an error, or `None` if it is no error.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(text) => text.split(' ').next(),
            _ => None,
        }
    }
}
