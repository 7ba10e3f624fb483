//! Clusters, sockets and passwords in files: where a server may be.

use super::top::Screen;
use super::{Running, command, ended};
use crate::cluster::Cluster;
use crate::support::{Setup, wait_for};

#[test]
fn a_cluster_of_three() {
    let cluster = Cluster::start(Setup::new(), false);
    let nodes: Vec<String> =
        cluster.nodes.iter().map(|node| format!("redis://127.0.0.1:{}", node.port())).collect();
    let url = nodes.join(",");
    // They lie on three nodes.
    let keys = ["a", "b", "c"];
    let running: Vec<Running> = keys
        .iter()
        .map(|key| Running(command(&url, &["run", key, "--cluster", "--", "sleep", "60"]).spawn().unwrap()))
        .collect();
    let list = || ended(command(&nodes[0], &["ls", "--cluster"]));
    wait_for("three holders", || list().out.lines().count() == 4);
    assert_eq!(list().err, "");
    let one = ended(command(&nodes[0], &["ls"]));
    assert!(one.out.lines().count() < 4 && one.err.contains("say --cluster"), "{one:?}");
    let shown = ended(command(&url, &["show", "b", "--cluster"]));
    assert!(shown.out.contains("sleep 60"), "{shown:?}");
    let screen = Screen::start(&url, &["top", "--cluster", "--every", "100ms"]);
    screen.shows("locks 3");
    wait_for("all three on the screen", || screen.text().matches("sleep 60").count() == 3);
    drop(screen);
    let refused = ended(command(&url, &["run", "c", "--cluster", "--no-wait", "--", "true"]));
    assert_eq!(refused.code, Some(75), "{}", refused.err);
    let doctor = ended(command(&url, &["doctor", "--cluster"]));
    assert_eq!(doctor.out.matches("no replica").count(), 3, "{}", doctor.out);
    for run in running {
        run.signal(rustix::process::Signal::TERM);
        assert_eq!(run.end().code, Some(143));
    }
    assert_eq!(list().out, "no locks\n");
    // One node alone says where to go, and the program says what to say.
    let alone: Vec<_> = nodes.iter().map(|node| ended(command(node, &["show", "a"])).code).collect();
    assert_eq!(alone.iter().filter(|code| **code == Some(69)).count(), 2, "{alone:?}");
}

#[test]
fn a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let server = Setup::new().set("unixsocket", socket.to_str().unwrap()).start();
    let url = format!("unix://{}", socket.display());
    let ran = ended(command(&url, &["run", "k", "--", "echo", "held"]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "held\n"), "{}", ran.err);
    drop(server);
}

#[test]
fn another_database() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("SELECT 3");
    client.ask::<()>("LOCK.ACQUIRE k OWNER alice");
    let ran = ended(command(&format!("redis://127.0.0.1:{}/3", server.port()), &["ls"]));
    assert!(ran.out.contains("alice"), "{ran:?}");
    assert_eq!(super::redislock(&server, &["ls"]).out, "no locks\n");
}
