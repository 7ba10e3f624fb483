//! The options of the command line. Help, completions and man pages are made from the comments here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

const CODES: &str = "\
Exit codes:
  0       done; of `run`: what the command exits with, 128 and the signal if a signal ended it
  1, 2    `doctor` has found something to look at, or a danger
  64      wrong options
  65      the key holds something that is no lock
  69      the server can't be reached
  70      the server said something else that is wrong
  74      the lock was lost while the command ran
  75      not acquired: somebody else has the lock
  77      the user may not do that, or the password is wrong
  78      the server has no module, or an older one
  126     the command can't be run
  127     there is no such command

Environment:
  REDIS_URL             where the server is, if --url does not say it
  REDISLOCK_USER        the user, if the URL names none
  REDISLOCK_PASSWORD    the password, if the URL has none
  NO_COLOR              no colours";

/// Runs commands under locks of Redis or Valkey, and shows who holds and who waits.
///
/// The server needs the module Redislock.
#[derive(Debug, Parser)]
#[command(name = "redislock", version, after_help = CODES)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the server is, and who asks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Place {
    /// redis://HOST:PORT/DB, rediss:// with TLS, unix:///PATH, or several with commas. A password belongs into REDIS_URL or a file
    #[arg(long, global = true)]
    pub(crate) url: Option<String>,
    /// The server is a node of a cluster
    #[arg(long, global = true)]
    pub(crate) cluster: bool,
    /// The URL names sentinels, which know the primary by this name
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "cluster")]
    pub(crate) sentinel: Option<String>,
    /// The user of the server's ACL
    #[arg(long, global = true)]
    pub(crate) user: Option<String>,
    /// The first line of this file is the password
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command under a lock
    Run(Run),
    /// List locks: who holds them, and how many wait
    Ls(Ls),
    /// Show one lock, with all who hold it and all who wait
    Show(Show),
    /// End the grants of a lock, whoever holds it
    Break(Break),
    /// Watch the locks that are held and waited for, live
    Top(Top),
    /// Look for what endangers locks on a server
    Doctor(Doctor),
    /// Measure handovers on your server, beside SET NX with polling
    Bench(Bench),
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Write the man pages into a folder
    Man {
        /// The folder
        folder: PathBuf,
    },
}

/// Run a command under a lock.
///
/// The lock is renewed as long as the command runs, and given back when it ends. If redislock is killed, the command is killed too, and
/// the lock is given back at once. The command finds REDISLOCK_KEY, REDISLOCK_FENCE and REDISLOCK_OWNER in its environment, and with
/// --limit also REDISLOCK_SLOT. Signals are passed on to it.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The lock
    pub(crate) key: String,
    /// More locks, to be held together with KEY
    #[arg(long, value_name = "KEY", num_args = 1..)]
    pub(crate) all: Vec<String>,
    /// How long to wait at most: 10s, 500ms, 1h; without an end if nothing is said
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// Ask once
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Hold the lock together with others that say --shared
    #[arg(long)]
    pub(crate) shared: bool,
    /// Let so many hold the lock at once
    #[arg(long, value_name = "N", conflicts_with = "shared")]
    pub(crate) limit: Option<u32>,
    /// How long the lock outlives this machine, if that vanishes; the server's default is 30s
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    /// What those see who look who holds the lock: this host, the process and the command, if nothing is said
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Run at most once in each hour, say, on whatever host is first: all others exit with 0 at once. A run that fails may be repeated
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration,
        conflicts_with_all = ["wait", "no_wait", "shared", "limit", "lease", "all"])]
    pub(crate) once_per: Option<Duration>,
    /// How long a command may take to end by SIGTERM when the lock was lost; then comes SIGKILL
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
    pub(crate) kill_after: Duration,
    /// The command with its arguments, as they are: there is no shell in between
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// A glob pattern, as that of SCAN
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// JSON, as docs/clients/shell.md describes it
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The lock
    pub(crate) key: String,
    /// JSON, as docs/clients/shell.md describes it
    #[arg(long)]
    pub(crate) json: bool,
}

/// End the grants of a lock, whoever holds it.
///
/// The lock goes to whoever waits longest, at once. A holder that still works is not stopped by that: it hears of the loss if its client
/// listens. Asks first.
#[derive(Args, Debug)]
pub(crate) struct Break {
    /// The lock
    pub(crate) key: String,
    /// Only the grant with this fence, and none that was made since
    #[arg(long)]
    pub(crate) fence: Option<u64>,
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Watch the locks that are held and waited for, live.
///
/// Keys: q ends it; w, h and a sort by waiters, by the longest hold and by the longest wait; / filters by name; up, down and Enter look
/// into a lock; Escape goes back.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// How often to look
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1s")]
    pub(crate) every: Duration,
    /// Only locks with this in their name
    #[arg(default_value = "")]
    pub(crate) filter: String,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// JSON, as docs/clients/shell.md describes it
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure handovers on your server, beside SET NX with polling.
///
/// It uses keys of its own, which begin with redislock:bench, and removes them.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// How long each of the four measurements takes
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "2500ms")]
    pub(crate) time: Duration,
    /// How many clients contend
    #[arg(long, value_name = "N", default_value = "8")]
    pub(crate) clients: u16,
}
