//! `redislock`, the command-line program, as people run it: with arguments, pipes, signals and terminals.

mod complete;
mod doctor;
mod errors;
mod many;
mod operators;
mod places;
mod rights;
mod run;
mod server;
mod signals;
mod top;

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Client, Server, program_path, wait_for};

/// The exit code and the outputs of a program that has ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// A running program, which is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts a server, and connects to it. The program is built first, because a build can take longer than the leases.
fn with_client() -> (Server, Client) {
    program_path();
    Server::and_client()
}

fn command(url: &str, words: &[&str]) -> Command {
    // The tests may run with some signals ignored, which the program would inherit.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=HUP,INT,QUIT")
        .arg(program_path())
        .args(words)
        .env("REDIS_URL", url)
        .env_remove("NO_COLOR");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

/// Runs the program until it ends.
fn redislock(server: &Server, words: &[&str]) -> Ran {
    ended(command(&url(server), words))
}

fn ended(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Running {
    fn start(server: &Server, words: &[&str]) -> Self {
        Self(command(&url(server), words).spawn().unwrap())
    }

    /// Starts a shell script under the lock, and waits until it holds the lock.
    fn holding(server: &Server, key: &str, words: &[&str], script: &str) -> Self {
        let run = [&["run", key], words, &["--", "sh", "-c", script]].concat();
        let running = Self::start(server, &run);
        let mut client = server.client();
        wait_for("the command to hold", || !client.holders(key).is_empty());
        running
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Checks that the program prints this text next.
    fn says(&mut self, text: &str) {
        let mut said = vec![0; text.len()];
        self.0.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(String::from_utf8_lossy(&said), text);
    }

    fn type_in(&mut self, text: &str) {
        self.0.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn end(mut self) -> Ran {
        let (mut out, mut err) = (self.0.stdout.take().unwrap(), self.0.stderr.take().unwrap());
        let read = thread::spawn(move || {
            let mut text = String::new();
            drop(err.read_to_string(&mut text));
            text
        });
        let mut text = String::new();
        drop(out.read_to_string(&mut text));
        let status = self.0.wait().unwrap();
        Ran { code: status.code(), out: text, err: read.join().unwrap() }
    }
}

/// Reads a line.
fn line(running: &mut Running) -> String {
    let mut text = String::new();
    let mut byte = [0];
    while running.0.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        text.push(char::from(byte[0]));
    }
    text
}

/// Whether this process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X'])
}

/// Returns the children of a process.
fn children(parent: Pid) -> Vec<Pid> {
    let id = parent.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    list.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().unwrap())).collect()
}
