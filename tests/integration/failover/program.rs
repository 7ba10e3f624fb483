//! `redislock run` with sentinels, while the primary is replaced.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::group::{Group, patiently};
use crate::support::{Setup, program_path, wait_for};

#[test]
fn a_command_goes_on_under_its_lock() {
    let mut group = Group::start(&Setup::new(), 1);
    group.wait_for_health();
    let urls: Vec<String> =
        group.sentinels().iter().map(|port| format!("redis://127.0.0.1:{port}")).collect();
    let mut run = std::process::Command::new(program_path())
        .args([
            "run",
            "k",
            "--lease",
            "20s",
            "--sentinel",
            "locks",
            "--url",
            &urls.join(","),
            "--",
            "sleep",
            "600",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut client = group.servers[0].client();
    wait_for("the command to hold", || !client.holders("k").is_empty());
    let fence = client.holders("k").remove(0).fence;
    assert_eq!(client.ask::<i64>("WAIT 1 60000"), 1, "the replica has it");
    group.servers[0].kill();
    patiently("another primary", || group.has_primary_beside(0));
    // The lease grows, so the program has renewed it on the new primary.
    let mut client = group.servers[1].client();
    let mut last = i64::MAX;
    patiently("a renewal", || {
        let lease = client.holders("k").first().map_or(0, |holder| holder.lease);
        std::mem::replace(&mut last, lease) < lease
    });
    assert_eq!(client.holders("k").remove(0).fence, fence);
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    let status = run.wait().unwrap();
    assert_eq!(status.code(), Some(143));
    assert!(client.holders("k").is_empty());
}
