//! The command, as a process that the kernel kills if this process ends first.
//!
//! The new process first runs this program, which asks the kernel for this signal, and then executes the command. Asking between fork and exec
//! would need unsafe code. The kernel sends the signal when the thread that started the process ends, so the main thread has to start it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;

use redislock::blocking::Held;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgid, getpgrp, getppid, kill_process,
    set_parent_process_death_signal, waitid,
};

use crate::connect::Target;
use crate::options::Run;
use crate::run::{Event, Tell};
use crate::text::say;

/// The first argument of this program in the process that executes the command.
pub(crate) const WORD: &str = "__become";

/// A process that the kernel kills if this one ends first.
pub(crate) struct Child(std::process::Child);

impl Child {
    pub(crate) fn start(target: &Target, asked: &Run, held: &Held, tell: &Tell) -> io::Result<Self> {
        let mut command = tied();
        command.args(&asked.command);
        command.env("REDISLOCK_KEY", asked.key.to_string());
        command.env("REDISLOCK_FENCE", held.fence().to_string());
        command.env("REDISLOCK_OWNER", String::from_utf8_lossy(held.owner()).as_ref());
        if let Some(slot) = held.slot().filter(|_| asked.limit.is_some()) {
            command.env("REDISLOCK_SLOT", slot.to_string());
        }
        // The password is removed from the environment: the command does not need it, and might show it.
        command.env_remove("REDISLOCK_PASSWORD");
        if let Some(url) = target.environment_without_password() {
            command.env("REDIS_URL", url);
        }
        Self::spawn(command, tell, Event::Ended)
    }

    /// Starts a command made by `tied`. When the command has ended, `tell` gets the event `ended`.
    pub(crate) fn spawn(mut command: Command, tell: &Tell, ended: Event) -> io::Result<Self> {
        let child = command.spawn()?;
        let (id, tell) = (pid(child.id()), tell.clone());
        thread::spawn(move || {
            // The process stays a zombie until its status is read, so that no signal can hit another process with the same id.
            while let Err(rustix::io::Errno::INTR) =
                waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            {}
            tell.send(ended)
        });
        Ok(Self(child))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = kill_process(pid(self.0.id()), signal); // it may have ended
        }
    }

    /// Whether the command also gets the terminal's signals for this process. `timeout`, for example, has a process group of its own.
    pub(crate) fn is_of_terminal(&self) -> bool {
        getpgid(Some(pid(self.0.id()))).is_ok_and(|group| group == getpgrp())
    }

    pub(crate) fn status(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }
}

/// A command that starts this program, which then becomes the command that the caller adds as arguments.
pub(crate) fn tied() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("redislock").arg(WORD).arg(std::process::id().to_string());
    command
}

/// Converts the id of a process that has been started, which is always valid.
fn pid(id: u32) -> Pid {
    i32::try_from(id).ok().and_then(Pid::from_raw).unwrap_or(Pid::INIT)
}

/// `__become PARENT COMMAND...`
pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = words.next();
    let Some(command) = words.next() else { return crate::failure::USAGE.into() };
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    // If the parent had ended before the request to the kernel, no signal would come.
    let is_there = getppid().map(|id| id.as_raw_nonzero().to_string().into()) == parent;
    if tied.is_err() || !is_there {
        return ExitCode::from(255);
    }
    let error = Command::new(&command).args(words).exec();
    say(format_args!("can't run {}: {error}", command.to_string_lossy()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}
