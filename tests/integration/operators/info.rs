//! `LOCK.INFO`: looking at a lock.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{Client, PATIENCE, Server, wait_for};

#[test]
fn a_held_lock_shows_its_owner_fence_holds_lease_and_age() {
    let (_server, mut client) = Server::and_client();
    let fence = client.acquire("k", "OWNER alice PX 600000").unwrap().fence;
    client.acquire("k", "OWNER alice").unwrap();
    let info = client.lock_info("k").unwrap();
    assert_eq!(info["owner"], "alice");
    assert_eq!(info["fence"], fence.to_string());
    assert_eq!(info["holds"], "2");
    let lease: i64 = info["lease-ms"].parse().unwrap();
    assert!(lease > 500_000 && lease <= 600_000, "{lease}");
    let first: i64 = info["held-ms"].parse().unwrap();
    assert!((0..10_000).contains(&first), "{first}");
    wait_for("the lock to have been held for 20 ms more", || {
        client.lock_info("k").unwrap()["held-ms"].parse::<i64>().unwrap() >= first + 20
    });
}

/// Compares the bytes on the wire, because some clients distinguish a null array from a null string.
#[test]
fn null_is_a_null_array_in_resp2_and_null_in_resp3() {
    let server = Server::start();
    server.client().acquire("held", "OWNER alice").unwrap();
    for (hello, null) in [("", "*-1\r\n"), ("HELLO 3\r\n", "_\r\n")] {
        let mut wire = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        wire.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(wire, "{hello}PING\r\nLOCK.INFO free\r\nLOCK.ACQUIRE held\r\nECHO end\r\n").unwrap();
        let mut said = String::new();
        while !said.ends_with("$3\r\nend\r\n") {
            let mut byte = [0];
            wire.read_exact(&mut byte).unwrap();
            said.push(byte[0].into());
        }
        assert!(said.ends_with(&format!("+PONG\r\n{null}{null}$3\r\nend\r\n")), "{said}");
    }
}

/// Returns the name and the id of the connection that keeps a grant alive.
fn client_of(client: &mut Client, key: &str) -> (String, i64) {
    let info = client.lock_info(key).unwrap();
    (info["session"].clone(), info["client-id"].parse().unwrap())
}

#[test]
fn the_client_is_the_connection_that_took_the_session_last() {
    let (_server, [mut client, mut first, mut second]) = Server::and_clients();
    let ids: [i64; 2] = [&mut first, &mut second].map(|session| session.ask("CLIENT ID"));
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    assert_eq!(client_of(&mut client, "k"), ("0".into(), 0));
    first.acquire("k", "OWNER alice PX 600000 ONCE SESSION").unwrap();
    assert_eq!(client_of(&mut client, "k"), ("1".into(), ids[0]));
    second.acquire("k", "OWNER alice PX 600000 ONCE SESSION").unwrap();
    assert_eq!(client_of(&mut client, "k"), ("1".into(), ids[1]));
    client.ask::<i64>(&format!("CLIENT KILL ID {}", ids[1]));
    wait_for("the end of the session", || client.lock_info("k").is_none());
}
