//! The servers on which the programs of benches/clients lock: Redis with the module and without it, PostgreSQL and etcd.

use std::fs;
use std::path::Path;
use std::process::Command;

use procfs::process::all_processes;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use crate::cluster::Cluster;
use crate::process::Process;
use crate::server::{Server, Setup};

#[derive(Clone, Copy, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Plain,
    Module,
    Postgres,
    Etcd,
}

pub(crate) enum Host {
    Redis(Server),
    Cluster(Cluster),
    Foreign(Foreign),
}

/// Installs what a script of benches/clients needs. The error says why it is not available.
pub(crate) fn install(run: &str) -> Result<(), String> {
    let output = Command::new(run).output().unwrap_or_else(|error| panic!("{run}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(77) => Err(said.lines().last().unwrap_or_default().into()),
        _ => panic!("{run}: {said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

impl Host {
    /// Servers other than Redis have their files in `folder`. The error says why the server is not available.
    pub(crate) fn start(folder: &Path, kind: Kind) -> Result<Self, String> {
        let setup = match kind {
            Kind::Plain => Setup::PLAIN,
            Kind::Module => Setup::MODULE,
            Kind::Postgres => return Foreign::start(folder, "postgres", "ready to accept connections"),
            Kind::Etcd => return Foreign::start(folder, "etcd", "serving client traffic"),
        };
        Ok(Self::Redis(Server::start(setup)))
    }

    /// Returns the server's address, or those of all nodes of a cluster.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Redis(server) => server.address(),
            Self::Cluster(cluster) => cluster.address(),
            Self::Foreign(Foreign(process)) => format!("127.0.0.1:{}", process.port),
        }
    }

    pub(crate) fn cpu_ns(&self) -> f64 {
        match self {
            Self::Redis(server) => server.cpu_ns(),
            Self::Cluster(cluster) => cluster.cpu_ns(),
            Self::Foreign(server) => server.cpu_ns(),
        }
    }
}

/// A server that is not Redis.
pub(crate) struct Foreign(Process);

impl Foreign {
    /// `ready` is a text that the server logs when it is ready.
    fn start(folder: &Path, name: &str, ready: &str) -> Result<Host, String> {
        let run = format!("benches/clients/{name}/run");
        install(&run)?;
        let command = |folder: &Path, port: u16| {
            let mut command = Command::new(&run);
            command.arg(folder).arg(port.to_string());
            command
        };
        // The folder is on the disk of the results, because a folder for temporary files may be in memory.
        let folder = fs::canonicalize(folder).expect("the folder's path");
        Process::start(&folder, command, |process| process.log().contains(ready))
            .map(|process| Host::Foreign(Self(process)))
    }

    /// Returns the processor time of the process and its children, also of those that have ended.
    fn cpu_ns(&self) -> f64 {
        let own = self.0.child.0.id().cast_signed();
        let processes = all_processes().expect("the processes").filter_map(Result::ok);
        let ticks = processes.filter_map(|process| process.stat().ok()).map(|stat| match stat {
            _ if stat.pid == own => stat.utime + stat.stime + (stat.cutime + stat.cstime).unsigned_abs(),
            _ if stat.ppid == own => stat.utime + stat.stime,
            _ => 0,
        });
        ticks.sum::<u64>() as f64 * 1e9 / procfs::ticks_per_second() as f64
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SIGINT ends PostgreSQL without waiting for its clients. Its child processes end with it.
        let child = &mut self.0.child.0;
        let _ = kill_process(Pid::from_child(child), Signal::INT);
        let _ = child.wait();
    }
}
