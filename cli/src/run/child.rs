//! The command: a process that the kernel kills if this one ends first.
//!
//! It begins as this program, which asks the kernel for that and then becomes the command: what is asked between fork and exec would
//! need unsafe code, and this needs none. What is asked for is tied to the thread that has started it, so that is the main one.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;

use redislock::blocking::Held;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process, set_parent_process_death_signal, waitid,
};

use crate::options::Run;
use crate::run::{Event, Tell};

/// What this program is called with to become the command.
pub(crate) const WORD: &str = "__become";

pub(crate) struct Child(std::process::Child);

impl Child {
    pub(crate) fn start(asked: &Run, held: &Held, tell: &Tell) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("redislock").arg(WORD).arg(std::process::id().to_string()).args(&asked.command);
        command.env("REDISLOCK_KEY", &asked.key);
        command.env("REDISLOCK_FENCE", held.fence().to_string());
        command.env("REDISLOCK_OWNER", String::from_utf8_lossy(held.owner()).as_ref());
        if let Some(slot) = held.slot().filter(|_| asked.limit.is_some()) {
            command.env("REDISLOCK_SLOT", slot.to_string());
        }
        // Who runs the command has no use for it, and it may show it.
        command.env_remove("REDISLOCK_PASSWORD");
        let child = command.spawn()?;
        let (id, tell) = (pid(child.id()), tell.clone());
        thread::spawn(move || {
            // It stays a zombie until its status is asked for, so that no signal can hit another process of its number.
            while let Err(rustix::io::Errno::INTR) =
                waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            {}
            tell.send(Event::Ended)
        });
        Ok(Self(child))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = kill_process(pid(self.0.id()), signal); // it has ended
        }
    }

    pub(crate) fn status(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }
}

/// The number of a process that has been started is one.
fn pid(id: u32) -> Pid {
    i32::try_from(id).ok().and_then(Pid::from_raw).unwrap_or(Pid::INIT)
}

/// `__become PARENT COMMAND...`
pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = words.next();
    let Some(command) = words.next() else { return crate::failure::USAGE.into() };
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    // It may have ended before that.
    let is_there = getppid().map(|id| id.as_raw_nonzero().to_string().into()) == parent;
    if tied.is_err() || !is_there {
        return ExitCode::from(255);
    }
    let error = Command::new(&command).args(words).exec();
    eprintln!("redislock: can't run {}: {error}", command.to_string_lossy());
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}
