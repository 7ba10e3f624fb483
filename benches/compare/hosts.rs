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

/// Installs what a script of benches/clients needs; the reason where that can't be had.
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
    /// Foreign servers have their files in that folder. The reason where it can't be had.
    pub(crate) fn start(folder: &Path, kind: Kind) -> Result<Self, String> {
        let setup = match kind {
            Kind::Plain => Setup::PLAIN,
            Kind::Module => Setup::MODULE,
            Kind::Postgres => return Foreign::start(folder, "postgres", "ready to accept connections"),
            Kind::Etcd => return Foreign::start(folder, "etcd", "serving client traffic"),
        };
        Ok(Self::Redis(Server::start(setup)))
    }

    /// Of all nodes of a cluster.
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
    /// `ready` is what it then writes into its log.
    fn start(folder: &Path, name: &str, ready: &str) -> Result<Host, String> {
        let run = format!("benches/clients/{name}/run");
        install(&run)?;
        let command = |folder: &Path, port: u16| {
            let mut command = Command::new(&run);
            command.arg(folder).arg(port.to_string());
            command
        };
        // On the disk of the results: a folder for temporary files may be none.
        let folder = fs::canonicalize(folder).expect("the folder's path");
        Process::start(&folder, command, |process| process.log().contains(ready))
            .map(|process| Host::Foreign(Self(process)))
    }

    /// Of the process and its children, those that have ended included.
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
        // Without waiting for its clients; its children end with it.
        let child = &mut self.0.child.0;
        let _ = kill_process(Pid::from_child(child), Signal::INT);
        let _ = child.wait();
    }
}
