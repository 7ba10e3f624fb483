//! A history: what clients asked and heard, and when. A text file with one record a line, in JSON:
//!
//! `{"client":7,"sent":1700000000000000,"received":1700000000000412,"key":"a","call":{"Acquire":{...}},"reply":{...}}`
//!
//! Times are in µs since 1970, by one clock, which is the server's too; `received` is null where no answer came.
//! `client` is a number for the connection, over all servers. Commands of one transaction have the same times.
//! A command for several locks is a record of each of them, with the same times and all its keys in `with`.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Microseconds since 1970.
pub(crate) type Micros = i64;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) client: i64,
    pub(crate) sent: Micros,
    pub(crate) received: Option<Micros>,
    pub(crate) key: String,
    /// All keys of the command, where it is one for several locks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) with: Vec<String>,
    pub(crate) call: Call,
    pub(crate) reply: Reply,
}

/// What was asked; times in ms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Call {
    Acquire {
        owner: String,
        lease: i64,
        block: Option<i64>,
        once: bool,
        session: bool,
        #[serde(default)]
        max_hold: Option<i64>,
        #[serde(default)]
        room: Room,
        /// The number that its permit is to have, where one is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<i64>,
    },
    Release {
        owner: String,
        all: bool,
    },
    Extend {
        owner: String,
        lease: i64,
    },
    Break,
    /// `LOCK.INFO key FULL`.
    Info,
    /// The client closes its connection.
    Close,
    /// `CLIENT KILL`, of the connection with that number.
    Kill(i64),
}

/// Whom an ask bears beside itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Room {
    /// Nobody.
    #[default]
    Plain,
    /// So many holders, itself included.
    Limit(i64),
    /// Any number.
    Shared,
}

impl Room {
    /// How many may hold the lock, itself included.
    pub(crate) fn most(self) -> i64 {
        match self {
            Self::Plain => 1,
            Self::Limit(most) => most,
            Self::Shared => i64::MAX,
        }
    }
}

/// A grant, as `LOCK.INFO ... FULL` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) owner: String,
    pub(crate) fence: i64,
    /// How many may hold the lock beside it, itself included.
    pub(crate) most: i64,
    /// The number of its permit; 0: none.
    #[serde(default)]
    pub(crate) slot: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// `lease` in ms.
    Granted {
        fence: i64,
        holds: i64,
        lease: i64,
        /// The number of its permit, with `LIMIT`.
        #[serde(default)]
        slot: Option<i64>,
    },
    /// A number: holds left, a lease in ms, how many were ended.
    Number(i64),
    /// Who holds the lock, the oldest grant first, and the connections that wait for it, first come first.
    Held {
        grants: Vec<Shown>,
        queue: Vec<i64>,
    },
    Null,
    /// An error's first word.
    Refused(String),
    /// The connection ended without an answer, or needs none.
    Gone,
    /// There is no answer, though all others are done and nobody holds the lock.
    Waits,
}

/// The number of a connection, over all servers: by the server's process, and its own number for it.
pub(crate) fn number(process: i64, id: i64) -> i64 {
    process * CONNECTIONS + id
}

/// The process of the server that a connection is to.
pub(crate) fn process(number: i64) -> i64 {
    number / CONNECTIONS
}

/// A server's own number for a connection.
pub(crate) fn id(number: i64) -> i64 {
    number % CONNECTIONS
}

/// More than any server here has.
const CONNECTIONS: i64 = 1_000_000;

impl Record {
    /// The client that asked, and when.
    pub(crate) fn question(&self) -> (i64, Micros) {
        (self.client, self.sent)
    }

    /// The owner in whose name something was asked.
    pub(crate) fn owner(&self) -> Option<&str> {
        match &self.call {
            Call::Acquire { owner, .. } | Call::Release { owner, .. } | Call::Extend { owner, .. } => {
                Some(owner)
            }
            _ => None,
        }
    }
}

/// Writes a history down.
pub(crate) fn write(path: &Path, history: &[Record]) -> io::Result<()> {
    let lines = history.iter().map(|record| serde_json::to_string(record).map(|line| line + "\n"));
    fs::write(path, lines.collect::<Result<String, _>>()?)
}

/// Reads a history.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Record>> {
    let text = fs::read_to_string(path)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
