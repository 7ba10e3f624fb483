//! The options of the command line. Help, completions and man pages are made from the comments here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::complete;
use crate::text::Name;

const CODES: &str = "\
Exit codes:
  0       success; `run` exits with the command's code, or 128 plus the signal that ended the command
  1       `break` had nothing to end
  1, 2    `doctor` found warnings, or dangers
  3       `doctor` found no danger, but could not check everything
  64      wrong options
  65      the key holds another type of value
  69      the server can't be reached, is loading or busy, or did not start
  70      the server replied with another error
  74      the lock was lost while the command ran
  75      not acquired: somebody else has the lock (or the code of --conflict-exit-code)
  77      no permission, or wrong password
  78      the server does not have the module, or has an older version; or none was found
  126     the command can't be run
  127     the command was not found

Environment:
  REDIS_URL             the server, if --url is not given
  REDISLOCK_USER        the user, if neither --user nor the URL names one
  REDISLOCK_PASSWORD    the password, if the URL has none
  NO_COLOR              disables colours";

/// Run commands under locks in Redis or Valkey, and show who holds or waits for them.
///
/// The server needs the Redislock module.
#[derive(Debug, Parser)]
#[command(name = "redislock", version, after_help = CODES)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the server is, and which user connects.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Place {
    /// Server: redis://HOST:PORT/DB, rediss:// for TLS, or unix:///PATH; several with commas. Put passwords into REDIS_URL or a file
    #[arg(long, global = true)]
    pub(crate) url: Option<String>,
    /// Treat the server as a node of a cluster
    #[arg(long, global = true)]
    pub(crate) cluster: bool,
    /// Ask the sentinels in the URL for the primary with this name
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "cluster")]
    pub(crate) sentinel: Option<String>,
    /// Connect with TLS, as rediss:// and each of the following options do
    #[arg(long, global = true)]
    pub(crate) tls: bool,
    /// Trust servers with certificates of these CAs [default: those of the system]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// Certificate of this client
    #[arg(long, global = true, value_name = "FILE", requires = "key_file")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(long = "key", id = "key_file", global = true, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Do not check the server's certificate, nor that it is for this host (which redis-cli never checks)
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
    /// ACL user to connect as
    #[arg(long, global = true)]
    pub(crate) user: Option<String>,
    /// Read the password from the first line of this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Ls(Ls),
    Show(Show),
    Break(Break),
    Top(Top),
    Doctor(Doctor),
    Bench(Bench),
    Server(Server),
    /// Print a completion script for a shell
    Completions {
        shell: clap_complete::Shell,
    },
    /// Write the man pages to a folder
    Man {
        /// Folder to write to
        folder: PathBuf,
    },
}

/// Run a command under a lock.
///
/// The lock is renewed while the command runs, and released when the command ends. If redislock is killed, the command is killed too, and
/// the lock is released at once. The environment of the command has REDISLOCK_KEY, REDISLOCK_FENCE and REDISLOCK_OWNER, and with --limit
/// also REDISLOCK_SLOT, but neither REDISLOCK_PASSWORD nor a password in REDIS_URL (unless --url is given). Signals are passed on to the
/// command.
#[derive(Args, Debug)]
#[command(after_long_help = CODES)]
pub(crate) struct Run {
    /// Name of the lock; \xff is a byte
    #[arg(add = complete::names())]
    pub(crate) key: Name,
    /// Hold these locks together with KEY: all of them or none
    #[arg(long, value_name = "KEY", num_args = 1.., add = complete::names())]
    pub(crate) all: Vec<Name>,
    /// Wait at most this long, such as 500ms, 10s or 1h [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// Give up at once if the lock is taken
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Share the lock with others that use --shared
    #[arg(long)]
    pub(crate) shared: bool,
    /// Allow up to N holders at once
    #[arg(long, value_name = "N", conflicts_with = "shared")]
    pub(crate) limit: Option<u32>,
    /// Free the lock this long after this machine vanishes [server's default: 30s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    /// Describe the holder to others with TEXT [default: host, process and command]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Run only if no run that began within TIME has succeeded. A success is noted in the key KEY:ran; a run that failed may be repeated
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with_all = ["shared", "limit"])]
    pub(crate) once_per: Option<Duration>,
    /// Exit with N if somebody else has the lock, or has run the command [default: 75, or 0 with --once-per]
    #[arg(long, short = 'E', value_name = "N")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Say on stderr who holds the lock while waiting for it, and when it is acquired
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// If the lock is lost, send SIGTERM to the command, and SIGKILL after TIME
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
    pub(crate) kill_after: Duration,
    /// Command to run, and its arguments; no shell interprets them
    #[arg(last = true, required = true, value_name = "COMMAND", add = complete::files())]
    pub(crate) command: Vec<OsString>,
}

/// List locks, their holders and the number of waiters
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Glob pattern, as for SCAN MATCH; \xff is a byte
    #[arg(default_value = "*", add = complete::names())]
    pub(crate) pattern: Name,
    /// List only locks that somebody waits for
    #[arg(long)]
    pub(crate) waiting: bool,
    /// List only locks that have been held for at least TIME, such as 5m
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) older: Option<Duration>,
    /// List again every TIME, until Ctrl-C [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration,
        num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
    pub(crate) watch: Option<Duration>,
    /// Print JSON (see docs/clients/shell.md)
    #[arg(long, conflicts_with = "watch")]
    pub(crate) json: bool,
}

/// Show one lock with all its holders and waiters
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Name of the lock; \xff is a byte
    #[arg(add = complete::names())]
    pub(crate) key: Name,
    /// Print JSON (see docs/clients/shell.md)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Take a lock away from its holders.
///
/// Shows the grants, asks for confirmation, and ends them. The lock goes to the first waiter at once. A holder is not stopped: its client
/// learns of the loss if it listens for messages.
#[derive(Args, Debug)]
pub(crate) struct Break {
    /// Name of the lock; \xff is a byte
    #[arg(add = complete::names())]
    pub(crate) key: Name,
    /// End only the grant with this fence
    #[arg(long)]
    pub(crate) fence: Option<u64>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Show held and contended locks live.
///
/// Keys: q quits; w, h and a sort by waiters, longest hold and longest wait; / filters by name; Up and Down select a lock, Enter shows it,
/// and Escape goes back.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Time between updates
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1s")]
    pub(crate) every: Duration,
    /// Show only locks whose names contain this text, or match it if it has *, ? or [, as for SCAN MATCH
    #[arg(default_value = "", hide_default_value = true, add = complete::names())]
    pub(crate) filter: String,
}

/// Check a server for dangers to its locks
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print JSON (see docs/clients/shell.md)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compare handovers on your server with SET NX and polling.
///
/// The keys that it uses begin with redislock:bench, and are removed afterwards.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Duration of each of the four measurements
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "2500ms")]
    pub(crate) time: Duration,
    /// Number of clients that contend
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) clients: u16,
}

/// Start a throwaway server with the module.
///
/// The server listens on a port of 127.0.0.1, and keeps nothing. Without COMMAND, its URL is printed, and it runs until Ctrl-C or SIGTERM.
/// With COMMAND, such as a test suite, that runs with REDIS_URL set, gets the signals, and its exit code is that of redislock.
#[derive(Args, Debug)]
pub(crate) struct Server {
    /// Port to listen on [default: a free one]
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    pub(crate) port: u16,
    /// The module [default: libredislock.so beside this program, or in /usr/lib/redis/modules]
    #[arg(long, value_name = "FILE")]
    pub(crate) module: Option<PathBuf>,
    /// The server [default: redis-server or valkey-server in the PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,
    /// Command to run, and its arguments; no shell interprets them
    #[arg(last = true, value_name = "COMMAND", add = complete::files())]
    pub(crate) command: Vec<OsString>,
}

/// Parses a time of at least a millisecond, which a server can count.
fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text).map_err(|error| error.to_string())? {
        time if time < Duration::from_millis(1) => Err("at least 1ms is needed".to_owned()),
        time if time.as_millis() >= 1 << 53 => Err("that is too long".to_owned()),
        time => Ok(time),
    }
}
