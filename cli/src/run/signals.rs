//! Signals: while the lock is waited for, they end that; then they are passed on to the command.

use std::thread;

use redislock::blocking::Cancel;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, OTHER};
use crate::run::{Event, Tell};

pub(crate) const TERM: i32 = SIGTERM;
pub(crate) const KILL: i32 = SIGKILL;

pub(crate) fn listen(tell: &Tell, cancel: &Cancel) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2])
        .map_err(|error| Failure::new(OTHER, format!("listening to signals: {error}")))?;
    let (tell, cancel) = (tell.clone(), cancel.clone());
    thread::spawn(move || {
        for number in &mut signals {
            drop(tell.send(Event::Signal(number)));
            cancel.cancel();
        }
    });
    Ok(())
}

/// Whether the terminal sends that one to the command as well: Ctrl-C and Ctrl-\ go to all processes in the foreground.
pub(crate) fn comes_from_the_terminal(number: i32) -> bool {
    matches!(number, SIGINT | SIGQUIT) && tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == getpgrp())
}
