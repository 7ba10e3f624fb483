//! The steps that are one command.

use std::process::Command;

use super::lints;
use super::steps::Kind;

/// That step as a command; None where its Rust can't be had.
pub(super) fn command(kind: &Kind, target: &str) -> Option<Command> {
    let rust = match kind {
        Kind::Format | Kind::Lints { .. } | Kind::LintsOfPackage => lints::lints_rust(),
        Kind::OldestRust | Kind::OldestRustOfPackage => {
            lints::declared_rust().and_then(|version| lints::toolchain(&version, ""))
        }
        _ => Some(String::new()),
    };
    let rust = rust?;
    let cargo = |words: &str| {
        let mut command = Command::new("cargo");
        command.arg(&rust).args(words.split_whitespace());
        command
    };
    let rigour = "--all-targets --all-features --locked -- -D warnings";
    let members = "-p redislock -p redislock-integration -p xtask";
    let command = match kind {
        Kind::Format => lints::format(&rust),
        Kind::Lints { workspace: true } => cargo(&format!("clippy --workspace {rigour}")),
        Kind::Lints { workspace: false } => cargo(&format!("clippy {members} {rigour}")),
        Kind::LintsOfPackage => cargo(&format!("clippy --manifest-path clients/rust/Cargo.toml {rigour}")),
        Kind::OldestRust => cargo("check --locked --all-targets"),
        Kind::OldestRustOfPackage => {
            cargo("check --locked --all-features --manifest-path clients/rust/Cargo.toml")
        }
        Kind::Shellcheck => lints::shellcheck(),
        Kind::Workflows => lints::workflows(target),
        Kind::Packages => lints::packages(),
        Kind::Tools => tests_of("xtask"),
        Kind::Command => tests_of("redislock-cli"),
        Kind::Script([script, arguments @ ..]) => {
            let mut command = Command::new(format!("scripts/{script}"));
            command.args(arguments);
            command
        }
        Kind::Fresh { suite, whole } => {
            let mut command = Command::new("packaging/fresh");
            command.arg(suite).arg(if *whole { "whole" } else { "quick" });
            command
        }
        // The others are more than one command.
        _ => return None,
    };
    Some(command)
}

/// The tests of another package of the workspace.
fn tests_of(package: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(["test", "--locked", "--package", package]);
    command
}
