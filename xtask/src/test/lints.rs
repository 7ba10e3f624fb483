//! The steps that look at files: format, lints, scripts, workflows, the names of packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::needs;
use super::tree::says;

/// The one Rust whose format and lints count. Another one finds other faults in what nobody changed.
const LINTS_RUST: &str = "1.95.0";
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7";

/// Rust in that version, which is installed if it has to be; None where it can't.
pub(super) fn toolchain(version: &str, components: &str) -> Option<String> {
    let named = format!("+{version}");
    let needed = if components.is_empty() { "--version" } else { "clippy" };
    let has = |arguments: &[&str]| {
        Command::new("cargo").args(arguments).output().is_ok_and(|ran| ran.status.success())
    };
    if has(&[&named, needed, "--version"]) {
        return Some(named);
    }
    let mut install = Command::new("timeout");
    install.args(["300", "rustup", "toolchain", "install", version, "--profile", "minimal"]);
    if !components.is_empty() {
        install.args(["--component", components]);
    }
    install.status().is_ok_and(|ended| ended.success()).then_some(named)
}

/// What cargo is to be told for the lints' Rust.
pub(super) fn lints_rust() -> Option<String> {
    toolchain(LINTS_RUST, "clippy,rustfmt")
}

/// A command of bash's.
pub(super) fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    command
}

/// Each package by itself, since `--all` follows the packages that they depend on; clients' files one by one, since those name modules
/// that are made for their tests.
pub(super) fn format(rust: &str) -> Command {
    bash(&format!(
        "status=0
        for manifest in $(git ls-files '*Cargo.toml' ':!clients/Cargo.toml' ':!tests/clients'); do
            cargo {rust} fmt --check --manifest-path \"$manifest\" || status=1
        done
        for file in tests/clients/rust/tests/*.rs tests/clients/conformance/rust/src/*.rs docs/programs/*.rs; do
            [ ! -e \"$file\" ] || diff -u \"$file\" <(rustfmt {rust} --edition 2024 <\"$file\") || status=1
        done
        exit $status"
    ))
}

/// All scripts, by their first line.
pub(super) fn shellcheck() -> Command {
    let mut scripts = Vec::new();
    for folder in ["scripts", "packaging", ".ci", "tests", "benches"] {
        collect(Path::new(folder), &mut scripts);
    }
    scripts.sort();
    let mut command = bash("printf '%s\\0' \"$@\" | xargs -0 -n 8 -P \"$(nproc)\" shellcheck -x");
    command.arg("shellcheck").args(scripts);
    command
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.is_ok_and(|kind| kind.is_dir()) {
            let skipped = ["target", "node_modules", "vendor"].iter().any(|name| path.ends_with(name));
            if !skipped {
                collect(&path, found);
            }
        } else if fs::read_to_string(&path).is_ok_and(|text| is_script(&text)) {
            found.push(path);
        }
    }
}

fn is_script(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let interpreter = first.strip_prefix("#!").map(|line| line.rsplit(['/', ' ']).next().unwrap_or_default());
    matches!(interpreter, Some("bash" | "sh")) || first.starts_with("# shellcheck shell")
}

/// The workflows, with what reads them.
pub(super) fn workflows(target: &str) -> Command {
    let tools = format!("{target}/tools");
    bash(&format!(
        "command -v go >/dev/null || {{ echo 'go is not installed'; exit 77; }}
        [ -x {tools}/actionlint ] || GOBIN={tools} go install {ACTIONLINT} ||
            {{ echo 'go cannot get actionlint'; exit 77; }}
        {tools}/actionlint -color=false"
    ))
}

/// Each package that a script or a step may ask for is in Debian by that name.
pub(super) fn packages() -> Command {
    let names: Vec<&str> = needs::names().collect();
    let names = names.join(" ");
    bash(&format!(
        ". scripts/lib.sh
        command -v apt-get >/dev/null || {{ echo 'no apt-get here'; exit 77; }}
        status=0 known=$(apt-cache pkgnames)
        while read -r name; do
            grep -qxF \"$name\" <<<\"$known\" || {{ echo \"no package $name\"; status=1; }}
        done < <(
            grep -hoP '\\bwant \\K[a-z][a-z0-9+.-]*' scripts/* packaging/image/{{build,check,group,podman.sh}}
            printf '%s\\n' {names}
            # Debian has none for the machine's own.
            for arch in x86_64 aarch64; do [ $arch = \"$(uname -m)\" ] || cross_packages $arch | tr ' ' '\\n'; done
        )
        exit $status"
    ))
}

/// The oldest Rust that Cargo.toml declares.
pub(super) fn declared_rust() -> Option<String> {
    says("sed", &["-n", "s/^rust-version *= *\"\\(.*\\)\".*/\\1/p", "Cargo.toml"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_by_its_first_line() {
        assert!(is_script("#!/usr/bin/env bash\nset -e\n"));
        assert!(is_script("#!/bin/sh\n"));
        assert!(is_script("# shellcheck shell=bash\n"));
        assert!(!is_script("#!/usr/bin/env python3\n"));
        assert!(!is_script("fn main() {}\n"));
    }
}
