//! What the programs and the servers of benches/clients need.

use std::process::Command;

/// Installs what a script of benches/clients needs; the reason where that can't be had.
pub(crate) fn install(run: &str) -> Result<(), String> {
    let output = Command::new(run).output().unwrap_or_else(|error| panic!("{run}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(77) => Err(said.lines().last().unwrap_or_default().into()),
        _ => panic!("{run}: {said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
