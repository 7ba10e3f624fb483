//! `scripts/test`: the checks that guard a commit. Goes on after a failure, and closes with a table and a count.

mod asked;
mod lints;
mod needs;
mod output;
mod parts;
mod process;
mod runner;
mod servers;
mod steps;
mod tally;
mod tree;

use std::process::ExitCode;
use std::time::Instant;

use self::asked::{Asked, Tier};
use self::steps::Kind;

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let begin = Instant::now();
    match run(arguments, begin) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String], begin: Instant) -> Result<bool, String> {
    let asked = Asked::read(arguments)?;
    let (mut chosen, said) = steps::chosen(&asked, &tree::tree())?;
    if std::env::var("PROPTEST_RNG_SEED").is_ok_and(|seed| !seed.is_empty()) {
        // The caller's seed is the only one.
        chosen.retain(|step| !matches!(step.kind, Kind::Unit { seed: 2.., .. }));
    }
    if !said.is_empty() {
        println!("{said}");
    }
    needs::install(&chosen, asked.tier == Tier::Short && asked.is_whole())?;
    let mut runner = runner::Runner::new(asked)?;
    runner.run(&chosen);
    Ok(runner.close(&said, begin.elapsed()))
}
