//! Servers with I/O threads: these look up the keys of a command before the server runs it, and before it knows the client's user.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{PATIENCE, Server, Setup, size, wait_for};

fn threaded() -> Setup {
    Setup::new().set("io-threads", "4").set("appendonly", "yes").set("appendfsync", "no")
}

/// Some clients send this line, the others acquire and release, as fast as they can.
#[track_caller]
fn flood(server: &Server, line: &str) {
    let connect = || {
        let socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let pair = "LOCK.ACQUIRE k OWNER o PX 10000\r\nLOCK.RELEASE k o\r\n";
    let sent = |place: usize| if place < 15 { format!("{line}\r\n").repeat(10) } else { pair.repeat(5) };
    let mut sockets: Vec<_> = (0..20).map(|place| (connect(), sent(place))).collect();
    let mut buffer = [0; 65_536];
    for _ in 0..size(300, 60_000) {
        for (socket, sent) in &mut sockets {
            socket.write_all(sent.as_bytes()).expect("a server that runs");
        }
        for (socket, _) in &mut sockets {
            assert_ne!(socket.read(&mut buffer).expect("a server that runs"), 0, "the connection ended");
        }
    }
}

/// The line names more keys than it has arguments, or none.
#[test]
fn keys_that_are_not_there_hurt_nobody() {
    let server = threaded().start();
    for line in ["LOCK.MACQUIRE 5 a o", "LOCK.MRELEASE 0 a o", "LOCK.WAITS KEY"] {
        flood(&server, line);
    }
    assert!(server.client().acquire("k", "OWNER last").is_some());
}

/// In a cluster, Valkey's I/O threads would ask the module for these commands' keys, and crash. So the module has no such commands.
#[test]
fn a_cluster_goes_without_several_locks_where_they_are_not_safe() {
    let server = threaded().set("cluster-enabled", "yes").start();
    let mut client = server.client();
    client.ask::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_for("a whole cluster", || client.send("LOCK.ACQUIRE k OWNER o").is_ok());
    client.ask::<()>("LOCK.RELEASE k o");
    let is_valkey = !client.info("server", "valkey_version").is_empty();
    let several = client.send("LOCK.MACQUIRE 2 {k}a {k}b OWNER o");
    let is_unknown = several.as_ref().is_err_and(|error| error.contains("unknown command"));
    assert_eq!(is_unknown, is_valkey, "{several:?}");
    assert_eq!(server.log().contains("lock.macquire is left out"), is_valkey);
    for line in ["LOCK.MACQUIRE 2 {k}a {k}b OWNER o", "LOCK.MACQUIRE 5 {k}a o", "LOCK.WAITS KEY {k}a"] {
        flood(&server, line);
    }
    assert!(client.acquire("k", "OWNER last").is_some());
}
