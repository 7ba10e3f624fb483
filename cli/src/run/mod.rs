//! `redislock run`: runs a command under a lock.
//!
//! There are three processes: this one waits for the lock and renews it; the kernel kills the second one, the command, if this process ends
//! first; and then the guard waits until the command has ended, and releases the lock. So after a kill -9, the next waiter need not wait for
//! the end of the lease.

pub(crate) mod child;
pub(crate) mod guard;
mod once;
pub(crate) mod signals;

use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redislock::Acquire;
use redislock::blocking::{Cancel, Held, Locks};
use serde_json::Value;

use crate::connect::Target;
use crate::failure::{Failure, LOST, NOT_ACQUIRED, OTHER, USAGE};
use crate::lock;
use crate::options::Run;
use crate::run::child::Child;
use crate::run::guard::Guard;
use crate::text::{self, Name, say};

/// What happens while `run` waits for the lock, or while the command runs.
pub(crate) enum Event {
    /// A signal. If it comes from the terminal, the command gets it too.
    Signal {
        number: i32,
        of_terminal: bool,
    },
    Lost(String),
    Ended,
}

/// How long a release may take: usually milliseconds. If the server does not answer, the guard goes on trying.
const GIVING_BACK: Duration = Duration::from_secs(2);
/// How often `--verbose` checks who holds the lock.
const LOOK: Duration = Duration::from_secs(1);
/// An owner that never holds a lock: with it, commands check the user's rights without changing anything.
const NOBODY: &str = "redislock:nobody";
/// The longest label that the server accepts, in bytes.
const LABEL: usize = 128;

pub(crate) fn main(target: &Target, asked: &Run) -> Result<u8, Failure> {
    let keys: Vec<Name> = std::iter::once(&asked.key).chain(&asked.all).cloned().collect();
    let label = label(asked)?;
    if keys.iter().any(|key| key.as_ref().is_empty()) {
        return Err(Failure::new(USAGE, "the name of the lock is empty"));
    }
    let (tell, events) = channel();
    let cancel = Cancel::default();
    signals::listen(&tell, &cancel)?;
    let mut guard = Guard::start(target)?;
    reach(target, &keys, asked)?;
    let locks = Locks::new(target.servers()?);
    let begin = Instant::now();
    let waits = Arc::new(Mutex::new(asked.verbose));
    if asked.verbose && !asked.no_wait {
        let (target, keys, waits) = (target.clone(), keys.clone(), Arc::clone(&waits));
        thread::spawn(move || tell_who_holds(&target, &keys, &waits));
    }
    let held = match wanted(&locks, &keys, &label, asked).cancelled_by(&cancel) {
        Ok(held) => held,
        Err(redislock::Error::Cancelled) => {
            let signal = events.try_iter().find_map(|event| match event {
                Event::Signal { number, .. } => Some(number),
                _ => None,
            });
            return Ok(code_of_signal(signal.unwrap_or_default()));
        }
        Err(redislock::Error::NotAcquired(_, None)) => {
            return Ok(skipped(asked, || lock::who_holds(target, &keys)));
        }
        Err(error) => {
            return Err(Failure::of_lock(
                &error,
                &format!("acquiring {}", lock::names(&keys)),
                &target.address(),
            ));
        }
    };
    if asked.verbose {
        let mut waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
        *waits = false;
        let waited = text::time(u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX));
        say(format_args!("acquired {} (fence {}) after {waited}", lock::names(&keys), held.fence()));
    }
    let lost = tell.clone();
    held.on_lost(move |why| drop(lost.send(Event::Lost(why.to_string()))));
    guard.holds(&keys, &held);
    if asked.once_per.is_some() {
        match once::ran(target, &asked.key) {
            Ok(None) => {}
            Ok(Some(who)) => {
                drop(give_back(held, guard));
                return Ok(skipped(asked, || who));
            }
            Err(failure) => {
                drop(give_back(held, guard));
                return Err(failure);
            }
        }
    }
    let begin = Instant::now();
    let child = match Child::start(target, asked, &held, &tell) {
        Ok(child) => child,
        Err(error) => {
            drop(give_back(held, guard));
            return Err(Failure::new(OTHER, format!("can't start the command: {error}")));
        }
    };
    guard.runs(child.id());
    let (status, lost) = watch(child, &events, asked.kill_after)?;
    if let Some(why) = lost {
        guard.done();
        say(why);
        return Ok(LOST.0);
    }
    let noted = match asked.once_per.filter(|_| status.success()) {
        Some(period) => once::note(target, &asked.key, &label, period.saturating_sub(begin.elapsed())),
        None => Ok(()),
    };
    if let Err(why) = give_back(held, guard) {
        say(why);
        return Ok(LOST.0);
    }
    noted.map(|()| code_of(status))
}

/// Says who holds the locks, and again whenever the holder has changed, while `waits` is true.
fn tell_who_holds(target: &Target, keys: &[Name], waits: &Mutex<bool>) {
    // The server may show this process as the holder before the process itself has the answer; so it knows its own label.
    let own = format!("{}:{}", host(), std::process::id());
    let (mut link, mut last) = (None, Value::Null);
    loop {
        let connected = link.take().map_or_else(|| target.link(), Ok);
        let seen = connected.and_then(|mut open| {
            let seen = lock::holder(&mut open, keys);
            link = Some(open).filter(|_| seen.is_ok());
            seen.map_err(|error| Failure::of(&error, "waiting", &target.address()))
        });
        let (line, now) = match seen {
            Ok(Some((line, lock))) if text::word(&lock, "client_name") != own => {
                (format!("waiting: {line}"), lock.get("fence").cloned().unwrap_or_default())
            }
            Ok(_) => (String::new(), Value::Null),
            Err(failure) => (failure.to_string(), failure.to_string().into()),
        };
        let waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
        if !*waits {
            return;
        }
        if !line.is_empty() && now != last {
            say(line);
            last = now;
        }
        drop(waits);
        thread::sleep(LOOK);
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The exit code if the command does not run, because somebody else has the lock or has run the command. With `--once-per`, this is normal:
/// without `--conflict-exit-code`, nothing is printed, so that cron sends no mail.
fn skipped(asked: &Run, why: impl FnOnce() -> String) -> u8 {
    let code = asked.conflict_exit_code.unwrap_or(if asked.once_per.is_some() { 0 } else { NOT_ACQUIRED.0 });
    if asked.once_per.is_none() || code != 0 || asked.verbose {
        say(why());
    }
    code
}

/// Fails at once if the server can't be reached, or the user lacks a right. The package itself would go on waiting, or would lose the lock at
/// the first renewal.
fn reach(target: &Target, keys: &[Name], asked: &Run) -> Result<(), Failure> {
    let mut link = target.link()?;
    for key in keys {
        lock::ask(&mut link, target, &lock::info(key, false), &format!("looking at {key}"))?;
    }
    let of_nobody = |one: &str, several: &str| match keys {
        [key] => redis::cmd(one).arg(key).arg(NOBODY).take(),
        _ => redis::cmd(several).arg(keys.len()).arg(keys).arg(NOBODY).take(),
    };
    let mut commands =
        vec![of_nobody("LOCK.EXTEND", "LOCK.MEXTEND"), of_nobody("LOCK.RELEASE", "LOCK.MRELEASE")];
    commands.extend(keys.first().map(|key| redis::cmd("LOCK.LEAVE").arg(key).arg(NOBODY).take()));
    commands.extend(asked.once_per.map(|_| once::right(&asked.key)));
    lock::needs(link, target, &commands)
}

fn wanted<'a>(locks: &'a Locks, keys: &[Name], label: &str, asked: &Run) -> Acquire<'a, Locks> {
    let mut wanted = locks.acquire_all(keys).label(label);
    if let Some(time) = asked.lease {
        wanted = wanted.lease(time);
    }
    if asked.no_wait {
        wanted = wanted.wait(Duration::ZERO);
    } else if let Some(time) = asked.wait {
        wanted = wanted.wait(time);
    }
    if asked.shared {
        wanted = wanted.shared();
    }
    if let Some(holders) = asked.limit {
        wanted = wanted.limit(holders);
    }
    wanted
}

/// A label for people: "web-1 pid 4242: ./deploy --all".
fn label(asked: &Run) -> Result<String, Failure> {
    let words = || {
        let command: Vec<_> = asked.command.iter().map(|word| word.to_string_lossy()).collect();
        format!("{} pid {}: {}", host(), std::process::id(), command.join(" "))
    };
    let mut label = asked.label.clone().unwrap_or_else(words);
    if asked.label.is_some() && label.len() > LABEL {
        return Err(Failure::new(USAGE, format!("a label has at most {LABEL} bytes: {}", label.len())));
    }
    while label.len() > LABEL {
        label.pop();
    }
    Ok(label)
}

/// Waits until the command has ended. Meanwhile it passes signals on, and ends the command if the lock is lost.
pub(crate) fn watch(
    mut child: Child,
    events: &Receiver<Event>,
    kill_after: Duration,
) -> Result<(ExitStatus, Option<String>), Failure> {
    let mut lost: Option<String> = None;
    let mut kill_at: Option<Instant> = None;
    loop {
        let event = match kill_at {
            Some(at) => events.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Signal { of_terminal: true, .. }) if child.is_of_terminal() => {}
            Ok(Event::Signal { number, .. }) => child.signal(number),
            Ok(Event::Lost(why)) if lost.is_none() => {
                lost = Some(why);
                child.signal(signals::TERM);
                kill_at = Instant::now().checked_add(kill_after);
            }
            Ok(Event::Lost(_)) => {}
            Ok(Event::Ended) => {
                let status = child
                    .status()
                    .map_err(|error| Failure::new(OTHER, format!("waiting for the command: {error}")))?;
                return Ok((status, lost));
            }
            Err(RecvTimeoutError::Timeout) => {
                child.signal(signals::KILL);
                kill_at = None;
            }
            // Unreachable: the thread that waits for the command holds a sender until it has sent the end.
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(OTHER, "waiting for the command: nobody does"));
            }
        }
    }
}

/// Releases the lock. The error says that the lock was lost before.
fn give_back(held: Held, guard: Guard) -> Result<(), String> {
    let (tell, answer) = channel();
    thread::spawn(move || tell.send(held.release()));
    match answer.recv_timeout(GIVING_BACK) {
        Ok(released) => {
            guard.done();
            match released {
                Err(error @ redislock::Error::Lost(_)) => Err(error.to_string()),
                Err(error) => {
                    say(format_args!("the lock ends with its lease: {error}"));
                    Ok(())
                }
                Ok(()) => Ok(()),
            }
        }
        Err(_) => {
            say(
                "the server does not answer: the lock is given back as soon as it does, or ends with its lease",
            );
            Ok(())
        }
    }
}

pub(crate) fn code_of_signal(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(255)
}

pub(crate) fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(255),
        (None, Some(signal)) => code_of_signal(signal),
        (None, None) => 255,
    }
}

pub(crate) type Tell = Sender<Event>;
