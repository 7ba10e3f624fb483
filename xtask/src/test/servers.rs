//! The servers to test on, which scripts/servers installs.

use std::process::{Command, Stdio};

pub(super) struct Server {
    pub(super) name: String,
    /// Its path, or the reason why it can't be had.
    pub(super) place: Result<String, String>,
}

/// That server; none if nobody knows it.
pub(super) fn find(name: &str) -> Result<Option<Server>, String> {
    let output = Command::new("scripts/servers").arg(name).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("scripts/servers: {error}"))?;
    if !output.status.success() {
        return Err("scripts/servers failed".to_owned());
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

/// `NAME PATH`, or `NAME - REASON`.
fn read(line: &str) -> Option<Server> {
    let (name, place) = line.trim_end().split_once(' ')?;
    let place = match place.strip_prefix("- ") {
        Some(reason) => Err(reason.to_owned()),
        None => Ok(place.to_owned()),
    };
    Some(Server { name: name.to_owned(), place })
}

/// What it says of its version: `Redis server v=7.0.15 ...`.
pub(super) fn version(path: &str) -> Option<String> {
    let said = super::tree::says(path, &["--version"])?;
    let version = said.split(" v=").nth(1)?;
    Some(version.split_whitespace().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_path_or_a_reason() {
        assert_eq!(read("redis-7.0 /a b/redis-server\n").unwrap().place, Ok("/a b/redis-server".to_owned()));
        assert_eq!(read("redis-7.0 - sid has 8\n").unwrap().place, Err("sid has 8".to_owned()));
        assert!(read("").is_none());
    }
}
