//! The errors of this package, and the meaning of those of redis-rs and the server.

use std::fmt;

use redis::{ErrorKind, RedisError};

/// Why a lock was not acquired, kept or released.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The lock was not free until the wait was over, or the server could not be reached (with the last error).
    NotAcquired(String, Option<RedisError>),
    /// The lock has ended without a release, so somebody else may hold it now.
    Lost(String),
    /// The wait would never end. The text shows the cycle: who waits for whom.
    Deadlock(String),
    /// Too few replicas confirmed the lock in time.
    NotConfirmed(String),
    /// The server has no lock commands.
    NoModule(String),
    /// The server's Redislock does not know one of the options.
    TooOld(String),
    /// Bad input. Nothing was sent.
    Invalid(String),
    /// The wait was cancelled.
    Cancelled,
    /// The locks were closed.
    Closed,
    /// Any other error of redis-rs or the server, such as missing rights.
    Redis(RedisError),
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcquired(locks, None) => write!(to, "not acquired: {locks} is not free"),
            Self::NotAcquired(locks, Some(trouble)) => write!(to, "not acquired: {locks}: {trouble}"),
            Self::Lost(why) => write!(to, "lost: {why}"),
            Self::Deadlock(cycle) => write!(to, "deadlock: {cycle}"),
            Self::NotConfirmed(why) => write!(to, "not confirmed: {why}"),
            Self::NoModule(said) => write!(
                to,
                "this server has no Redislock module: load libredislock.so into it (loadmodule), or connect to one that has it ({said})"
            ),
            Self::TooOld(said) => write!(
                to,
                "this server's Redislock doesn't know one of these options: upgrade the module, or leave the option out ({said})"
            ),
            Self::Invalid(why) => write!(to, "invalid: {why}"),
            Self::Cancelled => to.write_str("the wait was cancelled"),
            Self::Closed => to.write_str("the locks were closed"),
            Self::Redis(error) => error.fmt(to),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotAcquired(_, Some(error)) | Self::Redis(error) => Some(error),
            _ => None,
        }
    }
}

/// Errors of a server that can't serve the command at the moment, or is no longer the right one to ask.
const PASSING: [&str; 10] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MOVED",
    "NOREPLICAS Not enough",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
];

/// Whether to ask again later: the connection was lost, or the server can't serve the command at the moment.
pub(crate) fn passes(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            let said = format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default());
            PASSING.iter().any(|each| said.starts_with(each))
        }
        ErrorKind::AuthenticationFailed
        | ErrorKind::Client
        | ErrorKind::EmptySentinelList
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported
        | ErrorKind::UnexpectedReturnType => false,
        _ => true,
    }
}

/// Adds to a redirect that a client of one server can't follow to another node, however often it asks.
pub(crate) fn of_one_server(error: RedisError) -> RedisError {
    const WHY: &str = "this server is one node of a cluster: use `Servers::cluster`";
    match error.code() {
        Some("ASK" | "MOVED") => (ErrorKind::InvalidClientConfig, WHY, error.to_string()).into(),
        _ => error,
    }
}

/// Whether the next command should use another connection.
pub(crate) fn ends_connection(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse) || error.code() == Some("READONLY")
}

pub(crate) fn is_gone(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOTHELD" | "WRONGTYPE"))
}

/// Converts an error of the server to one of this package.
pub(crate) fn explained(error: RedisError, locks: &str, sync: bool) -> Error {
    let said = error.detail().unwrap_or_default();
    match error.code() {
        Some("NOTHELD") => Error::Lost(format!("{locks}: {error}")),
        Some("DEADLOCK") => Error::Deadlock(said.to_string()),
        Some("NOREPLICAS") if sync => Error::NotConfirmed(format!("{locks}: {said}")),
        Some("GRACE") => Error::NotAcquired(locks.to_string(), Some(error)),
        _ if said.to_lowercase().contains("unknown command") => Error::NoModule(error.to_string()),
        _ if said.contains("syntax error") => Error::TooOld(error.to_string()),
        _ => Error::Redis(error),
    }
}
