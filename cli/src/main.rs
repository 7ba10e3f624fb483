//! `redislock`: runs commands under locks of Redis or Valkey, and shows operators the locks of a server.

mod bench;
mod complete;
mod connect;
mod doctor;
mod failure;
mod lock;
mod locks;
mod options;
mod run;
mod server;
mod text;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::connect::Target;
use crate::failure::{Failure, USAGE};
use crate::options::{Command, Options, Place};

fn main() -> ExitCode {
    // `run` starts this program again with one of these words. They are internal, so they have no options and no help.
    let mut words = std::env::args_os().skip(1);
    match words.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some(run::child::WORD) => return run::child::main(words),
        Some(run::guard::WORD) => return run::guard::main(),
        _ => {}
    }
    if complete::answered() {
        return ExitCode::SUCCESS;
    }
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(mut error) => {
            // clap's tip for an unknown option is to put `--` before it. In `run`, this would be wrong, because `--` begins the command.
            let of_run = std::env::args_os().any(|word| word == "run");
            if of_run && error.kind() == clap::error::ErrorKind::UnknownArgument {
                error.remove(clap::error::ContextKind::Suggested);
            }
            drop(error.print());
            return if error.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match act(options) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            text::say(&failure);
            ExitCode::from(failure.code)
        }
    }
}

fn act(options: Options) -> Result<u8, Failure> {
    let target = || Target::new(&options.place);
    match options.command {
        Command::Run(asked) => run::main(&target()?, &asked),
        Command::Ls(asked) => locks::ls(&target()?, &asked),
        Command::Show(asked) => locks::show(&target()?, &asked),
        Command::Break(asked) => locks::break_lock(&target()?, &asked),
        Command::Top(asked) => top::main(&target()?, &asked),
        Command::Doctor(asked) => doctor::main(&target()?, &asked),
        Command::Server(_) if options.place != Place::default() => Err(Failure::new(
            USAGE,
            "server starts a server of its own on 127.0.0.1: --url and the other options of a connection are not for it",
        )),
        Command::Server(asked) => server::main(&asked),
        Command::Bench(asked) => bench::main(&target()?, &asked),
        Command::Completions { shell } => {
            complete::script(shell)?;
            Ok(0)
        }
        Command::Man { folder } => {
            clap_mangen::generate_to(Options::command(), folder).map_err(Failure::output)?;
            Ok(0)
        }
    }
}
