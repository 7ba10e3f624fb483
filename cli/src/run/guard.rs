//! The guard: a process that outlives `redislock run` if `run` is killed. Then it waits until the command has ended, and releases the lock.
//!
//! The guard gets what it needs through a pipe: the server, the grant, and the command's process id. If the pipe ends without the message
//! `Done`, `redislock run` was killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redislock::blocking::Held;
use serde::{Deserialize, Serialize};

use crate::connect::Target;
use crate::failure::{Failure, OTHER};
use crate::text::Name;

/// The first argument of this program in the guard's process.
pub(crate) const WORD: &str = "__guard";
/// How often the guard checks whether the command has ended.
const LOOK: Duration = Duration::from_millis(5);
/// How often the guard tries to reach the server.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// How long the guard tries: by then, a lease of the server's default length is over.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Deserialize, Serialize)]
enum Message {
    Holds { keys: Vec<Name>, owner: String, fences: Vec<u64> },
    Runs(u32),
    Done,
}

pub(crate) struct Guard {
    pipe: ChildStdin,
}

impl Guard {
    pub(crate) fn start(target: &Target) -> Result<Self, Failure> {
        let start = || {
            let mut process = Command::new("/proc/self/exe")
                .arg0("redislock")
                .arg(WORD)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0) // so the guard gets no signals from the terminal
                .spawn()?;
            let pipe = process.stdin.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
            let mut guard = Self { pipe };
            guard.write(target)?;
            Ok(guard)
        };
        start()
            .map_err(|error: std::io::Error| Failure::new(OTHER, format!("can't start the guard: {error}")))
    }

    fn write(&mut self, what: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.pipe.write_all(&line)
    }

    /// Sends a message. A guard that was killed gets none, but nothing else depends on the guard.
    fn tell(&mut self, message: &Message) {
        drop(self.write(message));
    }

    pub(crate) fn holds(&mut self, keys: &[Name], held: &Held) {
        let owner = String::from_utf8_lossy(held.owner()).into_owned();
        self.tell(&Message::Holds { keys: keys.to_vec(), owner, fences: held.fences().to_vec() });
    }

    pub(crate) fn runs(&mut self, process: u32) {
        self.tell(&Message::Runs(process));
    }

    /// Tells the guard to end. This does not wait for the guard, which may be stopped (SIGSTOP).
    pub(crate) fn done(mut self) {
        self.tell(&Message::Done);
    }
}

pub(crate) fn main() -> ExitCode {
    let mut lines = BufReader::new(std::io::stdin()).lines().map_while(Result::ok);
    let Some(target) = lines.next().and_then(|line| serde_json::from_str::<Target>(&line).ok()) else {
        return ExitCode::FAILURE;
    };
    let (mut grant, mut process) = (None, None);
    for message in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
        match message {
            Message::Holds { keys, owner, fences } => grant = Some((keys, owner, fences)),
            Message::Runs(id) => process = Some(id),
            Message::Done => return ExitCode::SUCCESS,
        }
    }
    let Some((keys, owner, fences)) = grant else { return ExitCode::SUCCESS };
    if let Some(id) = process {
        while is_there(id) {
            sleep(LOOK);
        }
    }
    let command = release(&keys, &owner, &fences);
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        // Any answer ends the guard's work, even the one that the lock is not held any more.
        let answered = target.link().is_ok_and(|mut link| {
            let reply: redis::RedisResult<redis::Value> = link.ask(&command);
            reply.is_ok_and(|_| true) || link.ask::<String>(&redis::cmd("PING")).is_ok()
        });
        if answered {
            return ExitCode::SUCCESS;
        }
        sleep(TRY_AGAIN);
    }
    ExitCode::FAILURE
}

/// Whether this process is running. A zombie does not count.
fn is_there(id: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
    // In `/proc/ID/stat`, the name stands in parentheses, and may itself contain any character.
    !status.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

fn release(keys: &[Name], owner: &str, fences: &[u64]) -> redis::Cmd {
    let mut command = match keys {
        [key] => redis::cmd("LOCK.RELEASE").arg(key).take(),
        _ => redis::cmd("LOCK.MRELEASE").arg(keys.len()).arg(keys).take(),
    };
    command.arg(owner);
    if let Some(fence) = fences.first().filter(|first| fences.iter().all(|fence| fence == *first)) {
        command.arg("FENCE").arg(*fence);
    }
    command
}
