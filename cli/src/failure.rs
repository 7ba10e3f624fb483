//! Failures, each in one line: what was tried, where, and what to do. Each kind has an exit code of its own, as in `sysexits.h`.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};

/// There was nothing to do, for example because no lock matches.
pub(crate) const NOTHING: Code = Code(1);
pub(crate) const USAGE: Code = Code(64);
pub(crate) const WRONG_TYPE: Code = Code(65);
pub(crate) const UNREACHABLE: Code = Code(69);
pub(crate) const OTHER: Code = Code(70);
pub(crate) const LOST: Code = Code(74);
pub(crate) const NOT_ACQUIRED: Code = Code(75);
pub(crate) const FORBIDDEN: Code = Code(77);
pub(crate) const NO_MODULE: Code = Code(78);

#[derive(Clone, Copy)]
pub(crate) struct Code(pub(crate) u8);

impl From<Code> for std::process::ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    line: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.line)
    }
}

impl Failure {
    pub(crate) fn new(code: Code, line: impl Into<String>) -> Self {
        Self { code: code.0, line: line.into() }
    }

    /// Printing failed: the reader is gone, or the disk is full.
    pub(crate) fn output(error: io::Error) -> Self {
        Self::new(OTHER, format!("can't print the result: {error}"))
    }

    /// The failure for an error of redis-rs or the server. `tried` says what was tried.
    pub(crate) fn of(error: &RedisError, tried: &str, address: &str) -> Self {
        // If a pipeline failed, the first command that failed has the message.
        let errors = error.clone().into_server_errors();
        let first = errors.as_deref().and_then(<[_]>::first).and_then(|(_, error)| error.details());
        let said = first.or(error.detail()).unwrap_or_default();
        let (code, what) = match (error.kind(), error.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => (
                FORBIDDEN,
                "the server wants another user or password: set REDISLOCK_USER and REDISLOCK_PASSWORD"
                    .to_owned(),
            ),
            (_, Some("NOPERM")) => (FORBIDDEN, format!("the user has no right to do that: {said}")),
            (_, Some("WRONGTYPE")) => {
                (WRONG_TYPE, "the key holds something that is no lock: look at it with TYPE".to_owned())
            }
            (_, Some("READONLY")) => (
                UNREACHABLE,
                "the server is a replica: name its primary, or its sentinels with --sentinel".to_owned(),
            ),
            (_, Some("MOVED" | "ASK")) => {
                (UNREACHABLE, "the server is one node of a cluster: say --cluster".to_owned())
            }
            (_, Some("LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN")) => {
                (UNREACHABLE, format!("the server can't answer now, try again later: {said}"))
            }
            (_, Some("CROSSSLOT")) | (ErrorKind::Server(redis::ServerErrorKind::CrossSlot), _) => (
                USAGE,
                "the locks are in different hash slots of the cluster: give their names the same hash tag, such as {order}:1 and {order}:2"
                    .to_owned(),
            ),
            _ if said.to_lowercase().contains("unknown command") => (
                NO_MODULE,
                "the server has no Redislock module: load libredislock.so into it (loadmodule)".to_owned(),
            ),
            _ if said.contains("syntax error") => (
                NO_MODULE,
                "the server's Redislock is older than this command: upgrade the module".to_owned(),
            ),
            (ErrorKind::InvalidClientConfig, _) => (USAGE, format!("{error}")),
            (ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::UnexpectedReturnType, _) => {
                (OTHER, match error.code() {
                    Some(code) => format!("the server says: {code} {said}"),
                    None => format!("the server says: {error}"),
                })
            }
            _ if error.is_timeout() => (
                UNREACHABLE,
                "can't reach the server: it does not answer; it stands still, is busy, or speaks no TLS at this port".to_owned(),
            ),
            _ => (
                UNREACHABLE,
                format!(
                    "can't reach the server: {error}; {}",
                    tls_advice(error).unwrap_or("is it there, and is --url or REDIS_URL right?")
                ),
            ),
        };
        Self::new(code, format!("{tried} at {address}: {what}"))
    }

    /// The failure for an error of the package `redislock`. `tried` says what was tried.
    pub(crate) fn of_lock(error: &redislock::Error, tried: &str, address: &str) -> Self {
        use redislock::Error;
        match error {
            Error::Redis(error) | Error::NotAcquired(_, Some(error)) => Self::of(error, tried, address),
            Error::NotAcquired(..) => Self::new(NOT_ACQUIRED, format!("{tried}: somebody else has the lock")),
            Error::Lost(why) => Self::new(LOST, format!("the lock was lost: {why}")),
            Error::NoModule(_) => Self::new(
                NO_MODULE,
                format!(
                    "{tried} at {address}: the server has no Redislock module: load libredislock.so into it (loadmodule)"
                ),
            ),
            Error::TooOld(_) => Self::new(
                NO_MODULE,
                format!(
                    "{tried} at {address}: the server's Redislock is older than these options: upgrade the module"
                ),
            ),
            Error::Invalid(why) => Self::new(USAGE, format!("{tried}: {why}")),
            other => Self::new(OTHER, format!("{tried} at {address}: {other}")),
        }
    }
}

/// What to do about a connection that failed because of TLS.
fn tls_advice(error: &RedisError) -> Option<&'static str> {
    use rustls::{CertificateError, Error};
    // redis-rs wraps the source of an error in an `Arc`.
    let error = error.source()?.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>()?;
    let error = error.downcast_ref::<io::Error>()?;
    if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) {
        return Some("if the server speaks TLS, say rediss:// or --tls");
    }
    Some(match error.get_ref()?.downcast_ref::<Error>()? {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the CA of the server's certificate is not trusted: name its file with --cacert"
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "name the host in --url as its certificate does",
        Error::InvalidCertificate(_) => "the server's certificate is not valid",
        Error::AlertReceived(
            rustls::AlertDescription::CertificateRequired | rustls::AlertDescription::HandshakeFailure,
        ) => "the server wants a certificate of its clients: say --cert and --key",
        Error::AlertReceived(_) => {
            "the server refuses this client's certificate: are --cert and --key of a CA that it trusts?"
        }
        _ => return None,
    })
}
