//! The ways to reach a server: clusters, sockets, and passwords in files.

use super::top::Screen;
use super::{Running, command, ended};
use crate::cluster::Cluster;
use crate::support::{Port, Setup, wait_for};

#[test]
fn a_command_finds_its_lock_in_a_cluster() {
    let cluster = Cluster::start(Setup::new(), false);
    let nodes: Vec<String> =
        cluster.nodes.iter().map(|node| format!("redis://127.0.0.1:{}", node.port())).collect();
    let url = nodes.join(",");
    // The keys are on three nodes.
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
    let apart = ended(command(&url, &["run", "d", "--all", "e", "f", "--cluster", "--", "true"]));
    assert_eq!(apart.code, Some(64), "{}", apart.err);
    assert!(apart.err.contains("hash tag"), "{}", apart.err);
    let doctor = ended(command(&url, &["doctor", "--cluster"]));
    assert_eq!(doctor.out.matches("no replica").count(), 3, "{}", doctor.out);
    for run in running {
        run.signal(rustix::process::Signal::TERM);
        assert_eq!(run.end().code, Some(143));
    }
    assert_eq!(list().out, "no locks\n");
    // A single node redirects, and the program prints which option to use.
    let alone: Vec<_> = nodes.iter().map(|node| ended(command(node, &["show", "a"])).code).collect();
    assert_eq!(alone.iter().filter(|code| **code == Some(69)).count(), 2, "{alone:?}");
}

#[test]
fn a_cluster_that_moves_slots_and_loses_a_primary() {
    let mut cluster = Cluster::start(Setup::new(), false);
    cluster.set("cluster-require-full-coverage no");
    let (slot, from, to) = cluster.way_of("{k}1");
    for key in ["{k}1", "{k}2"] {
        cluster.nodes[from].client().ask::<()>(&format!("LOCK.ACQUIRE {key} OWNER alice PX 600000"));
    }
    cluster.begin_move(slot, from, to);
    cluster.move_key("{k}1", from, to);
    let url = format!("redis://127.0.0.1:{}", cluster.nodes[from].port());
    let says = |words: &[&str], code: i32, parts: &[&str]| {
        let ran = ended(command(&url, &[words, &["--cluster"]].concat()));
        assert_eq!(ran.code, Some(code), "{ran:?}");
        for part in parts {
            assert!(format!("{}{}", ran.out, ran.err).contains(part), "{part} is not in {ran:?}");
        }
    };
    says(&["ls"], 0, &["{k}1", "{k}2"]);
    let screen = Screen::start(&url, &["top", "--cluster", "--every", "100ms"]);
    wait_for("both locks", || ["{k}1", "{k}2"].iter().all(|key| screen.text().contains(key)));

    cluster.set("cluster-node-timeout 3000");
    cluster.nodes[to].kill();
    let dead = format!("127.0.0.1:{}", cluster.nodes[to].port());
    says(&["ls"], 69, &["{k}2", "its locks are not listed", &dead]);
    says(&["doctor"], 2, &["DANGER: ", &dead]);
    wait_for("both on the screen", || screen.text().contains("{k}2") && screen.text().contains(&dead));
    let mut client = cluster.nodes[from].client();
    wait_for("the others to notice", || {
        client.ask::<String>("CLUSTER NODES").replace("fail?", "").contains("master,fail")
    });
    says(&["ls"], 69, &["{k}2", "its locks are not listed", &dead]);
    says(&["doctor"], 2, &["DANGER: ", &dead]);
}

#[test]
fn a_command_locks_through_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let server = Setup::new().set("unixsocket", socket.to_str().unwrap()).start();
    let url = format!("unix://{}", socket.display());
    let ran = ended(command(&url, &["run", "k", "--", "echo", "held"]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "held\n"), "{}", ran.err);
    drop(server);
}

/// A server with the default `tls-auth-clients yes`, and a CA for this test.
#[test]
fn tls_with_certificates_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let script = "
        cd \"$1\"
        new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'
        for ca in ca other; do $new -x509 -keyout $ca.key -out $ca.crt -subj /CN=$ca; done
        for name in server client; do
            $new -keyout $name.key -subj /CN=$name -addext subjectAltName=IP:127.0.0.1 |
                openssl x509 -req -CA ca.crt -CAkey ca.key -copy_extensions copyall -days 2 -out $name.crt
        done";
    let made = std::process::Command::new("sh").args(["-ec", script, "-", &file("")]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let tls = Port::free();
    let server = Setup::new()
        .set("tls-port", &tls.number().to_string())
        .set("tls-cert-file", &file("server.crt"))
        .set("tls-key-file", &file("server.key"))
        .set("tls-ca-cert-file", &file("ca.crt"))
        .start();
    let with = |url: String, words: &[&str]| {
        let run = ["run", "k", "--no-wait"].iter().chain(words).chain(&["--", "echo", "held"]);
        ended(command(&url, &run.copied().collect::<Vec<_>>()))
    };
    let (ca, other, cert, key) = (file("ca.crt"), file("other.crt"), file("client.crt"), file("client.key"));
    let trusted = ["--cert", &cert, "--key", &key, "--cacert", &ca];
    for (scheme, words) in [
        ("rediss", &trusted as &[_]),
        ("redis", &trusted),
        ("redis", &["--insecure", "--cert", &cert, "--key", &key]),
    ] {
        let ran = with(format!("{scheme}://127.0.0.1:{}", tls.number()), words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "held\n"), "{}", ran.err);
    }
    for (host, words, advice) in [
        ("127.0.0.1", &["--cacert", &other as &str] as &[_], "not trusted: name its file with --cacert"),
        ("127.0.0.1", &["--cacert", &ca], "say --cert and --key"),
        ("localhost", &trusted, "name the host in --url as its certificate does"),
        ("127.0.0.1", &[], "say rediss:// or --tls"),
    ] {
        let ran = with(format!("redis://{host}:{}", tls.number()), words);
        assert_eq!(ran.code, Some(69), "{}", ran.err);
        assert!(ran.err.contains(advice), "{advice} is not in {}", ran.err);
    }
    let empty =
        ended(command(&format!("rediss://127.0.0.1:{}", tls.number()), &["ls", "--cacert", "/nowhere"]));
    assert_eq!(empty.code, Some(64), "{}", empty.err);
    // The guard process must also be able to connect to the server.
    let words = ["run", "k", "--lease", "1h"].iter().chain(&trusted).chain(&[
        "--",
        "sh",
        "-c",
        "echo up; exec sleep 60",
    ]);
    let run =
        command(&format!("rediss://127.0.0.1:{}", tls.number()), &words.copied().collect::<Vec<_>>()).spawn();
    let mut running = Running(run.unwrap());
    running.says("up\n");
    running.signal(rustix::process::Signal::KILL);
    let mut client = server.client();
    wait_for("the guard to release", || client.holders("k").is_empty());
}

#[test]
fn ls_lists_the_locks_of_the_chosen_database() {
    let (server, mut client) = super::with_client();
    client.ask::<()>("SELECT 3");
    client.ask::<()>("LOCK.ACQUIRE k OWNER alice");
    let ran = ended(command(&format!("redis://127.0.0.1:{}/3", server.port()), &["ls"]));
    assert!(ran.out.contains("alice"), "{ran:?}");
    assert_eq!(super::redislock(&server, &["ls"]).out, "no locks\n");
}
