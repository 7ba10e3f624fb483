//! `scripts/test fresh`: what a newcomer does, in empty systems.

use std::process::ExitCode;

use crate::SKIPPED;

pub(crate) fn main(_arguments: &[String]) -> ExitCode {
    println!("there are no empty systems to run in yet");
    ExitCode::from(SKIPPED)
}
