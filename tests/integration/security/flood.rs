//! Clients that never read, send garbage or send without end: the others are served.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Rng, Server, Setup, Stopwatch, Waiter, figure, size, wait_for};

/// Acquires and releases for a while; how long the slowest pair took, without what the machine did for others.
#[track_caller]
fn served(server: &Server, pairs: usize) -> Duration {
    let mut client = server.client();
    client.set_patience(4 * PATIENCE);
    let mut slowest = Duration::ZERO;
    for _ in 0..pairs {
        let stopwatch = Stopwatch::start();
        client.acquire("mine", "OWNER carol").unwrap();
        assert_eq!(client.ask::<i64>("LOCK.RELEASE mine carol"), 0);
        slowest = slowest.max(stopwatch.worked());
    }
    slowest
}

/// A client that asks for the whole of a long queue without end and reads nothing: the server closes it at its own limit.
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
    served(&server, 100);
    assert!(client.info("memory", "used_memory").parse::<u64>().unwrap() < 100 * LIMIT);
    assert_eq!(client.info("lock", "lock_waiters"), "100");
    client.ask::<i64>("LOCK.RELEASE k alice");
    assert!(waiters[0].granted().owner.ends_with("w000"));
}

/// Garbage, commands that are refused, and whole lists of waiters, as fast as they go, from many sides.
#[test]
fn floods_hurt_nobody() {
    let (server, mut client) = Server::and_client();
    let done = AtomicBool::new(false);
    let pairs = size(50, 5_000);
    let slowest = thread::scope(|scope| {
        for number in 0..4_u64 {
            let (done, server) = (&done, &server);
            scope.spawn(move || {
                let mut rng = Rng::new();
                let mut buffer = [0; 65_536];
                let connect = || TcpStream::connect(("127.0.0.1", server.port()));
                // One of the four has it by a session when its connection closes, the others wait.
                let mut holder = connect().unwrap();
                let line = format!("LOCK.ACQUIRE last OWNER {number} PX 600000 BLOCK 0 SESSION\r\n");
                holder.write_all(line.as_bytes()).unwrap();
                // Should the others not be served, it ends all the same.
                let began = Instant::now();
                while !done.load(Ordering::Relaxed) && began.elapsed() < 2 * PATIENCE {
                    let Ok(mut stream) = connect() else { continue };
                    stream.set_nonblocking(true).unwrap();
                    let until = Instant::now() + Duration::from_millis(200);
                    while Instant::now() < until && !done.load(Ordering::Relaxed) {
                        let chunk: Vec<u8> = match number {
                            0 => (0..500).map(|_| rng.next() as u8).collect(),
                            1 => b"LOCK.ACQUIRE flood OWNER x PX 1 BLOCK 1\r\n".repeat(20),
                            2 => b"LOCK.ACQUIRE flood OWNER y SESSION\r\nLOCK.RELEASE flood y ALL\r\n".repeat(20),
                            _ => b"LOCK.RELEASE mine nobody ALL\r\nLOCK.INFO mine FULL\r\nLOCK.EXTEND mine x PX 0\r\n".repeat(20),
                        };
                        match stream.write(&chunk) {
                            Err(error) if error.kind() != ErrorKind::WouldBlock => break,
                            _ => {}
                        }
                        while matches!(stream.read(&mut buffer), Ok(1..)) {}
                    }
                }
            });
        }
        let slowest = served(&server, pairs);
        done.store(true, Ordering::Relaxed);
        slowest
    });
    wait_for("the others to be gone", || client.info("clients", "connected_clients") == "1");
    wait_for("no waiters and no sessions", || {
        client.info("lock", "lock_waiters") == "0" && client.info("lock", "lock_sessions") == "0"
    });
    assert!(slowest < PATIENCE, "{slowest:?}");
    figure("slowest acquire and release beside four floods", format!("{slowest:?} of {pairs}"));
}
