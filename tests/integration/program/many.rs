//! Many processes at once, and large outputs.

use std::fs;

use super::{Running, command, ended, redislock, url};
use crate::support::Server;

#[test]
fn two_hundred_runs_of_one_lock_never_overlap() {
    const RUNS: usize = 200;
    let (server, mut client) = super::with_client();
    let count = server.folder().join("count");
    fs::write(&count, "0").unwrap();
    // Increments would be lost if two commands ran at the same time.
    let add = format!("n=$(cat {0}); echo $((n + 1)) > {0}", count.display());
    let runs: Vec<Running> =
        (0..RUNS).map(|_| Running::start(&server, &["run", "k", "--", "sh", "-c", &add])).collect();
    for run in runs {
        let ran = run.end();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    assert_eq!(fs::read_to_string(&count).unwrap().trim(), RUNS.to_string());
    assert!(client.holders("k").is_empty());
}

#[test]
fn a_hundred_megabytes_go_through() {
    let server = Server::start();
    let program = crate::support::program_path().display().to_string();
    let pipe = format!("{program} run k -- head -c 100000000 /dev/zero | wc -c");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &pipe]).env("REDIS_URL", url(&server));
    assert_eq!(ended(shell).out.trim(), "100000000");
}

#[test]
fn a_list_of_thousands_comes_in_steps() {
    let (server, mut client) = super::with_client();
    for number in 0..2_500 {
        client.ask::<()>(&format!("LOCK.ACQUIRE job:{number} OWNER alice"));
        client.ask::<()>(&format!("SET data:{number} x"));
    }
    client.ask::<()>("CONFIG RESETSTAT");
    let ran = redislock(&server, &["ls", "job:*", "--json"]);
    let locks: Vec<serde_json::Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(locks.len(), 2_500);
    assert!(client.info("commandstats", "cmdstat_keys").is_empty());
    // A reader that closes the pipe after the first lines causes no error.
    let head = format!("{} ls | head -n 1", crate::support::program_path().display());
    let mut shell = command(&url(&server), &[]);
    shell = {
        let mut other = std::process::Command::new("sh");
        other.args(["-c", &head]).envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))));
        other
    };
    let ran = ended(shell);
    assert!(ran.out.starts_with("KEY") && ran.err.is_empty(), "{ran:?}");
}
