//! Which faults the tests find: mutants of src, drawn at random, and for each the tests that fail with it.
//!
//!     cargo run --package xtask --features mutants -- mutants RESULT.json                   draws 40, and tries them
//!     cargo run --package xtask --features mutants -- mutants RESULT.json --rules           draws 100 of the rules: unit tests
//!     cargo run --package xtask --features mutants -- mutants RESULT.json --after EARLIER.json    tries those again
//!
//! The last form is for a change of the tests: which of the mutants that were found escape now? It begins with the tests that
//! found them, and asks all others only where none of those is left, or none of them fails any more. The numbers of the mutants are
//! those of the earlier run.
//!
//! Unit tests come first, without the wide worlds; those on Redis 7.0 only where they find nothing. All mutants are in one build, in
//! a copy of the tree under target/mutants. What was found is written at once: the same command goes on where it was ended.

mod draw;
mod hunt;
mod plant;
mod record;
mod scratch;
mod suite;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use draw::Scope;

type Result<T> = std::result::Result<T, String>;

/// With which they are drawn.
const SEED: u64 = 1;

pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match *words {
        [result] => hunt::main(Path::new(result), Scope::All, None),
        [result, "--rules"] => hunt::main(Path::new(result), Scope::Rules, None),
        [result, "--after", earlier] => hunt::main(Path::new(result), Scope::All, Some(Path::new(earlier))),
        _ => Err("mutants wants RESULT.json, and --rules for those of the rules, or --after EARLIER.json \
                  for another run with the same ones"
            .into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The project's folder.
fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.map(Path::to_path_buf).ok_or_else(|| "the project has no folder".into())
}

/// An error, with the path that it is about.
fn told<E: Display>(path: &Path) -> impl Fn(E) -> String {
    move |error| format!("{}: {error}", path.display())
}
