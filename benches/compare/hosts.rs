//! The servers on which the programs of benches/clients lock: Redis with the module and without it, PostgreSQL and etcd.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::install::install;
use crate::plan::Plan;
use crate::server::{Server, Setup};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// The kernel counts processor time in these, on every machine that Linux runs on.
const NS_PER_TICK: f64 = 1e9 / 100.0;

#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Kind {
    Plain,
    Module,
    /// With a replica.
    PlainPair,
    ModulePair,
    Postgres,
    Etcd,
}

/// A running server.
pub(crate) enum Host {
    Redis(Server),
    Pair(Server, Server),
    Foreign(Foreign),
}

impl Host {
    /// The reason where it can't be had.
    pub(crate) fn start(plan: &Plan, kind: Kind) -> Result<Self, String> {
        match kind {
            Kind::Plain => Ok(Self::Redis(Server::start(Setup::PLAIN))),
            Kind::Module => Ok(Self::Redis(Server::start(Setup::MODULE))),
            Kind::PlainPair => Ok(Self::pair(Setup::PLAIN)),
            Kind::ModulePair => Ok(Self::pair(Setup::MODULE)),
            Kind::Postgres => {
                Foreign::start(plan, "benches/clients/postgres/run", "ready to accept connections")
            }
            Kind::Etcd => Foreign::start(plan, "benches/clients/etcd/run", "serving client traffic"),
        }
    }

    fn pair(setup: Setup) -> Self {
        let mut primary = Server::start(setup);
        let replica = primary.replica(setup);
        Self::Pair(primary, replica)
    }

    /// Of the primary first, where there is a replica.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Redis(Server { port, .. }) | Self::Foreign(Foreign { port, .. }) => {
                format!("127.0.0.1:{port}")
            }
            Self::Pair(primary, replica) => format!("127.0.0.1:{},127.0.0.1:{}", primary.port, replica.port),
        }
    }

    /// How much processor time the server has used.
    pub(crate) fn cpu_ns(&mut self) -> f64 {
        match self {
            Self::Redis(server) | Self::Pair(server, _) => server.cpu_ns(),
            Self::Foreign(server) => server.cpu_ns(),
        }
    }
}

/// A server that is not Redis, with its files in a folder of its own; ended when dropped.
pub(crate) struct Foreign {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Foreign {
    /// `ready` is what it then writes into its log.
    fn start(plan: &Plan, run: &str, ready: &str) -> Result<Host, String> {
        install(run)?;
        for _ in 0..20 {
            // On the disk of the results: a folder for temporary files may be none.
            let folder = tempfile::Builder::new().prefix("host-").tempdir_in(&plan.folder);
            let folder = folder.expect("a folder for a server");
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = listener.local_addr().expect("its address").port();
            drop(listener);
            let log_path = folder.path().join("log");
            let log = fs::File::create(&log_path).expect("a log file");
            let child = Command::new(run)
                .arg(fs::canonicalize(folder.path()).expect("the folder's path"))
                .arg(port.to_string())
                .stdin(Stdio::null())
                .stdout(log.try_clone().expect("a second handle on the log"))
                .stderr(log)
                .spawn()
                .unwrap_or_else(|error| panic!("{run}: {error}"));
            let mut server = Self { child, port, _folder: folder };
            match server.wait_for(&log_path, ready) {
                Ok(()) => return Ok(Host::Foreign(server)),
                // Another process was quicker to take the port.
                Err(log) if log.contains("already in use") => (),
                Err(log) => {
                    return Err(format!("it does not start: {}", log.lines().last().unwrap_or_default()));
                }
            }
        }
        panic!("no port to be had");
    }

    /// The log where it ended instead.
    fn wait_for(&mut self, log: &Path, ready: &str) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let ended = self.child.try_wait().expect("the server's state").is_some();
            let text = fs::read_to_string(log).unwrap_or_default();
            if text.contains(ready) {
                return Ok(());
            }
            if ended || begin.elapsed() > PATIENCE {
                return Err(text);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Of the process and its children, those that have ended included.
    fn cpu_ns(&self) -> f64 {
        let own = self.child.id();
        let entries = fs::read_dir("/proc").expect("the processes").filter_map(Result::ok);
        let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let ticks = processes.filter_map(|process| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            // The name, in brackets, may have spaces.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let number = |place: usize| fields[place].parse::<f64>().expect("a number");
            let used = number(11) + number(12);
            let of_ended_children = number(13) + number(14);
            if process == own {
                Some(used + of_ended_children)
            } else {
                (fields[1] == own.to_string()).then_some(used)
            }
        });
        ticks.sum::<f64>() * NS_PER_TICK
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // Without waiting for its clients; its children end with it.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
    }
}
