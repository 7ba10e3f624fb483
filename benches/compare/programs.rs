//! The programs of benches/clients: real clients in their own languages, with Redislock and with other locks.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::mem;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::hosts::{Host, Kind, install};
use crate::process::Killed;
use crate::report::Report;
use crate::rounds::Plan;

/// How long a program may take to start or to end: many run at once, and a JVM is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// The contents of `clients.toml`, which explains the fields.
#[derive(Deserialize)]
pub(crate) struct Tables {
    pub(crate) languages: Vec<Language>,
    pub(crate) sharing: Vec<Sharing>,
    locks: BTreeMap<String, Lock>,
}

/// A client library of a language, and the locks that its users use.
#[derive(Deserialize)]
pub(crate) struct Language {
    pub(crate) run: String,
    pub(crate) name: String,
    pub(crate) client: String,
    pub(crate) mode: String,
    pub(crate) processes: usize,
    pub(crate) ours: Vec<String>,
    pub(crate) peers: Vec<String>,
    pub(crate) more_us: Option<f64>,
    #[serde(default)]
    pub(crate) fails: bool,
    /// Whether the program's package uses a cluster if it gets several addresses.
    #[serde(default)]
    pub(crate) cluster: bool,
}

/// A program whose tasks share a client, and the locks that it measures: ours comes first.
#[derive(Deserialize)]
pub(crate) struct Sharing {
    pub(crate) run: String,
    pub(crate) name: String,
    pub(crate) locks: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Lock {
    /// The lock's name in the program.
    pub(crate) who: String,
    pub(crate) host: Kind,
    pub(crate) name: String,
}

pub(crate) static TABLES: LazyLock<Tables> =
    LazyLock::new(|| toml::from_str(include_str!("clients.toml")).expect("tables of clients"));

/// Returns the lock with this name from the table.
pub(crate) fn lock(name: &str) -> &'static Lock {
    TABLES.locks.get(name).unwrap_or_else(|| panic!("no lock {name}"))
}

/// Returns the locks that are available, each with its server. The report says why other locks or the program are not available.
pub(crate) fn hosted(
    plan: &Plan,
    report: &mut Report,
    run: &str,
    what: &str,
    locks: impl IntoIterator<Item = &'static str>,
) -> Vec<(&'static Lock, Host)> {
    if let Err(reason) = install(&script(run)) {
        report.note(format!("{what}: left out, {reason}"));
        return Vec::new();
    }
    let host = |lock: &'static Lock| {
        let started = Host::start(&plan.folder, lock.host);
        let host = started.map_err(|reason| report.note(format!("{}: left out, {reason}", lock.name)));
        Some((lock, host.ok()?))
    };
    locks.into_iter().map(lock).filter_map(host).collect()
}

/// Returns the script that installs a program's dependencies and runs it.
pub(crate) fn script(run: &str) -> String {
    format!("benches/clients/{run}/run")
}

/// A running program, which is killed when this is dropped.
pub(crate) struct Program {
    run: String,
    child: Killed,
    lines: Receiver<String>,
}

impl Program {
    /// `last` is how long to contend and how long to keep each grant, or the key to hold.
    pub(crate) fn start(run: &str, mode: &str, host: &Host, lock: &Lock, last: &str) -> Self {
        let run = script(run);
        let mut command = Command::new(&run);
        // The program gets pipes instead of our own outputs: Node would make those non-blocking, and we could not print results.
        command.args([mode, &host.address(), &lock.who]).args(last.split(' '));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{run}: {error}"));
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut errors = child.stderr.take().expect("its errors");
        thread::spawn(move || io::copy(&mut errors, &mut io::stderr()));
        let (said, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        Self { run, child: Killed(child), lines }
    }

    /// Returns `count` programs that are ready: programs that stayed from the last turn, or new ones.
    pub(crate) fn ready(stayed: &mut Vec<Self>, count: usize, start: impl Fn() -> Self) -> Vec<Self> {
        let mut programs = mem::take(stayed);
        if programs.len() < count {
            programs = (0..count).map(|_| start()).collect();
            programs.iter_mut().for_each(Self::wait_until_ready);
        }
        programs
    }

    pub(crate) fn wait_until_ready(&mut self) {
        assert_eq!(self.hear(PATIENCE).as_deref(), Some("ready"), "{}", self.run);
    }

    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.child.0.stdin.as_mut().expect("its input");
        writeln!(input, "{line}").expect("a line that goes out");
    }

    /// Returns the next line that the program prints, or `None` if this takes too long.
    pub(crate) fn hear(&mut self, within: Duration) -> Option<String> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("{} ended", self.run),
        }
    }

    /// Returns the program's lines of this turn, and the program itself if it is ready for another turn. Otherwise it ends.
    pub(crate) fn finish(mut self) -> (Vec<String>, Option<Self>) {
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv() {
            if line == "ready" {
                return (said, Some(self));
            }
            said.push(line);
        }
        assert!(self.child.0.wait().expect("the program's end").success(), "{} failed", self.run);
        (said, None)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.0), signal).expect("a signal that arrives");
    }
}
