//! `--once-per`: a run that has succeeded is noted in a plain key, under the lock, so that nobody runs the command again in the period.

use std::time::Duration;

use crate::connect::Target;
use crate::failure::Failure;
use crate::text::{self, Name, printable};

/// The key that notes the last successful run under this lock. It is a plain key, so that no setting of locks limits the period.
fn note_of(key: &Name) -> Vec<u8> {
    [key.as_ref(), b":ran"].concat()
}

fn ask<T: redis::FromRedisValue>(target: &Target, command: &redis::Cmd, tried: &str) -> Result<T, Failure> {
    target.link()?.ask(command).map_err(|error| Failure::of(&error, tried, &target.address()))
}

/// A command that fails if the user may not write the note, and changes nothing: NX and XX exclude each other.
pub(crate) fn right(key: &Name) -> redis::Cmd {
    redis::cmd("SET").arg(note_of(key)).arg("").arg("NX").arg("XX").take()
}

/// Describes who has run the command in this period; `None` if nobody has.
pub(crate) fn ran(target: &Target, key: &Name) -> Result<Option<String>, Failure> {
    let note = redis::cmd("GET").arg(note_of(key)).take();
    let who: Option<Vec<u8>> = ask(target, &note, "looking for the last run")?;
    Ok(who.map(|who| format!("{key} was run by {} in this period", printable(&text::text(&who)))))
}

/// Writes the note, for the rest of the period.
pub(crate) fn note(target: &Target, key: &Name, label: &str, rest: Duration) -> Result<(), Failure> {
    let Ok(rest @ 1..) = u64::try_from(rest.as_millis()) else { return Ok(()) };
    let note = redis::cmd("SET").arg(note_of(key)).arg(label).arg("PX").arg(rest).take();
    ask(target, &note, "the command succeeded, but may be run again in this period: noting the run")
}
