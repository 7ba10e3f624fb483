//! A history: what clients sent and received, and when. It is a text file with one JSON record a line:
//!
//! `{"client":7,"sent":1700000000000000,"received":1700000000000412,"key":"a","call":{"Acquire":{...}},"reply":{...}}`
//!
//! Times are in µs since 1970, by the clock that the server also uses; `received` is null if no answer came. `client` is the number of the
//! connection, unique over all servers. Commands of one transaction have the same times. A command for several locks has a record for each
//! lock, with the same times, and all its keys in `with`.

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
    /// All keys of the command, if it is one for several locks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) with: Vec<String>,
    pub(crate) call: Call,
    pub(crate) reply: Reply,
}

/// A command; times are in ms.
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
        /// The requested slot, if there is one.
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
    /// The client closed its connection.
    Close,
    /// `CLIENT KILL` of the connection with this number.
    Kill(i64),
}

/// How many holders a request allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Room {
    /// Only the client itself.
    #[default]
    Plain,
    /// This many holders, itself included.
    Limit(i64),
    /// Any number of holders.
    Shared,
}

impl Room {
    /// Returns how many holders are allowed, itself included.
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
    /// The most holders that the grant allows, itself included.
    pub(crate) most: i64,
    /// The slot; 0: none.
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
        /// The slot, with `LIMIT`.
        #[serde(default)]
        slot: Option<i64>,
    },
    /// A number: remaining holds, a lease in ms, or the number of ended grants.
    Number(i64),
    /// The holders, the oldest grant first, and the connections that wait, in the order in which they came.
    Held {
        grants: Vec<Shown>,
        queue: Vec<i64>,
    },
    Null,
    /// The first word of an error.
    Refused(String),
    /// The connection ended without a reply, or there is none.
    Gone,
    /// No reply came, although all other clients have finished and nobody holds the lock.
    Waits,
}

/// Returns a connection's number, unique over all servers, from the server's process and its own id of the connection.
pub(crate) fn number(process: i64, id: i64) -> i64 {
    process * CONNECTIONS + id
}

/// Returns the process of the server to which a connection belongs.
pub(crate) fn process(number: i64) -> i64 {
    number / CONNECTIONS
}

/// Returns the server's own id of a connection.
pub(crate) fn id(number: i64) -> i64 {
    number % CONNECTIONS
}

/// More connections than any server here has.
const CONNECTIONS: i64 = 1_000_000;

impl Record {
    /// Returns the client and the time of the request.
    pub(crate) fn question(&self) -> (i64, Micros) {
        (self.client, self.sent)
    }

    /// Returns the owner that the command names.
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
