//! The project's own tools: `cargo run --package xtask -- COMMAND`. The programs in scripts/ start them.

#[cfg(feature = "mutants")]
mod mutants;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        return wrong("xtask wants a command");
    };
    match command.as_str() {
        #[cfg(feature = "mutants")]
        "mutants" => mutants::main(rest),
        _ => wrong(&format!("xtask has no command {command}")),
    }
}

/// It was called in a wrong way.
fn wrong(what: &str) -> ExitCode {
    eprintln!("error: {what}");
    ExitCode::from(2)
}
