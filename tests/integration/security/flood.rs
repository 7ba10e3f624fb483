//! A client never reads: the other clients must still be served.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use crate::support::{Setup, Waiter, wait_for};

/// A client that requests a long queue again and again without reading exceeds the server's output limit, and is closed.
#[test]
fn a_client_that_never_reads_is_closed_and_nobody_else() {
    const LIMIT: u64 = 1 << 20;
    let (server, mut client) =
        Setup::new().set("client-output-buffer-limit", "normal 1mb 0 0").start_and_client();
    client.acquire("k", "OWNER alice PX 600000").unwrap();
    let mut waiters: Vec<Waiter> = (0..100)
        .map(|number| Waiter::new(&server, "k", &format!("OWNER {}{number:03}", "w".repeat(100))))
        .collect();
    let mut deaf = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    deaf.set_nonblocking(true).unwrap();
    let question = b"LOCK.INFO k FULL\r\n".repeat(100);
    let closed =
        |log: &str| log.contains("scheduled to be closed ASAP for overcoming of output buffer limits");
    wait_for("the end of the deaf client", || {
        match deaf.write(&question) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return true,
        }
        closed(&server.log())
    });
    wait_for("a line in the log", || closed(&server.log()));
    client.acquire("mine", "OWNER carol").unwrap();
    assert!(client.info("memory", "used_memory").parse::<u64>().unwrap() < 100 * LIMIT);
    assert_eq!(client.info("lock", "lock_waiters"), "100");
    client.ask::<i64>("LOCK.RELEASE k alice");
    assert!(waiters[0].granted().owner.ends_with("w000"));
}
