//! The command: a process that the kernel kills if this process ends first.
//!
//! The process begins as this program, which asks the kernel for that and then becomes the command. To ask between fork and exec would need
//! unsafe code. The kernel ties the request to the thread that started the process, so the main thread has to start it.

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

/// The argument with which this program becomes the command.
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
        // Whoever runs the command does not need the password, which the command might show.
        command.env_remove("REDISLOCK_PASSWORD");
        if let Some(url) = target.environment_without_password() {
            command.env("REDIS_URL", url);
        }
        Self::spawn(command, tell, Event::Ended)
    }

    /// Starts a command made by `tied`. `ended` is told when it has ended.
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
            let _ = kill_process(pid(self.0.id()), signal); // it has ended
        }
    }

    /// Whether what the terminal sends to this process is sent to the command, too. `timeout`, for example, has a group of its own.
    pub(crate) fn is_of_terminal(&self) -> bool {
        getpgid(Some(pid(self.0.id()))).is_ok_and(|group| group == getpgrp())
    }

    pub(crate) fn status(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }
}

/// This program, to which a command and its arguments are still to be added: it becomes that command.
pub(crate) fn tied() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("redislock").arg(WORD).arg(std::process::id().to_string());
    command
}

/// The id of a process that has been started is valid.
fn pid(id: u32) -> Pid {
    i32::try_from(id).ok().and_then(Pid::from_raw).unwrap_or(Pid::INIT)
}

/// `__become PARENT COMMAND...`
pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = words.next();
    let Some(command) = words.next() else { return crate::failure::USAGE.into() };
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have ended before.
    let is_there = getppid().map(|id| id.as_raw_nonzero().to_string().into()) == parent;
    if tied.is_err() || !is_there {
        return ExitCode::from(255);
    }
    let error = Command::new(&command).args(words).exec();
    say(format_args!("can't run {}: {error}", command.to_string_lossy()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}
