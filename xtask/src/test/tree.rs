//! What the folders and files of the project say of what there is to test.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::steps::Tree;

/// The words that the file tests/servers.conf has for a server: name, version, tests.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) has_all: bool,
}

pub(super) fn servers() -> Vec<Listed> {
    let text = fs::read_to_string("tests/servers.conf").unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let listed = lines.filter_map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (name, version, tests) = (words.next()?, words.next()?, words.next()?);
        Some(Listed { name, version, has_all: tests == "all" })
    });
    listed.collect()
}

/// What may be skipped where every other skip is a failure.
pub(super) fn skips() -> BTreeSet<String> {
    let text = fs::read_to_string("tests/skips.conf").unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The folders in that one that have such a file.
fn folders(within: &str, file: &str) -> Vec<String> {
    let entries = fs::read_dir(within).into_iter().flatten().flatten();
    let having = entries.filter(|entry| entry.path().join(file).exists());
    let mut names: Vec<String> = having.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// What a program says, without its end of line; nothing if it fails.
pub(super) fn says(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim_end().to_owned())
}

pub(super) fn tree() -> Tree {
    let mut clients = folders("tests/clients", "run");
    clients.retain(|name| name != "conformance");
    Tree {
        servers: servers().into_iter().map(|listed| (listed.name, listed.has_all)).collect(),
        clients,
        packages: folders("tests/clients/conformance", "start"),
        is_arm: std::env::consts::ARCH == "aarch64",
        // A copy without its history is as the first commit.
        commit: says("git", &["rev-list", "--count", "HEAD"])
            .and_then(|count| count.parse().ok())
            .unwrap_or(0),
    }
}
