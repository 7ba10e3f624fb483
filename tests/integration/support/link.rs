//! A connection to a server that may go away, freeze or change its role at any moment: nothing here panics.

use std::time::Duration;

use redis::{Cmd, Connection, Value};

use super::PATIENCE;

/// What comes back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Reply(Value),
    /// An error, as the server sent it.
    Refused(String),
    /// The connection closed, or no answer came in time. It is of no use any more.
    Gone,
    /// No connection came about in time: nothing was sent.
    Unreachable,
}

pub(crate) struct Link(Connection);

impl Link {
    /// A connection whose server has that long for each answer, and less for the first: it may stand still.
    pub(crate) fn open(port: u16, patience: Duration) -> Option<Self> {
        Self::open_within(port, patience.min(Duration::from_millis(500)), patience)
    }

    /// `open` to a server that runs: its first answer may take as long as the others.
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

    /// The outcome of a command: words between blanks.
    pub(crate) fn send(&mut self, line: &str) -> Outcome {
        if self.begin(line) { self.finish() } else { Outcome::Gone }
    }

    /// Sends a command; whether the connection took it.
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

    /// The outcome of the first command begun whose outcome has not been read yet.
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
    /// The error's first word; none where it is no error.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(text) => text.split(' ').next(),
            _ => None,
        }
    }
}
