//! Signals: they end a wait for the lock, and afterwards they are passed on to the command.

use std::thread;

use redislock::blocking::Cancel;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use crate::failure::{Failure, OTHER};
use crate::run::{Event, Tell};

pub(crate) const TERM: i32 = SIGTERM;
pub(crate) const KILL: i32 = SIGKILL;

pub(crate) fn listen(tell: &Tell, cancel: &Cancel) -> Result<(), Failure> {
    // `nohup` ignores SIGHUP, and a script's `&` SIGINT and SIGQUIT. The command inherits this only if no handler is installed here.
    let ignored = ignored();
    let heard = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    let heard = heard.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
    let mut signals = SignalsInfo::<WithOrigin>::new(heard)
        .map_err(|error| Failure::new(OTHER, format!("listening to signals: {error}")))?;
    let (tell, cancel) = (tell.clone(), cancel.clone());
    thread::spawn(move || {
        for origin in &mut signals {
            // The terminal sends Ctrl-C and Ctrl-\ to its whole foreground group, so the command gets them without this process.
            let of_terminal = matches!(origin.signal, SIGINT | SIGQUIT) && origin.process.is_none();
            drop(tell.send(Event::Signal { number: origin.signal, of_terminal }));
            cancel.cancel();
        }
    });
    Ok(())
}

/// The set of signals that this process ignores, one bit each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
