//! The project's own tools: `cargo run --package xtask -- COMMAND`. The programs in scripts/ start them.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, _rest)) = arguments.split_first() else {
        return wrong("xtask wants a command");
    };
    // One line for each command.
    #[expect(clippy::match_single_binding, reason = "the commands come one by one")]
    match command.as_str() {
        _ => wrong(&format!("xtask has no command {command}")),
    }
}

/// It was called in a wrong way.
fn wrong(what: &str) -> ExitCode {
    eprintln!("error: {what}");
    ExitCode::from(2)
}
