//! Streams of bytes that no client library would send: lock commands with odd arguments, altered bytes, frames cut in half,
//! connections that close in the middle or never read. The server serves others all the while, and is as before at the end.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use redis::{Value, from_redis_value};

use crate::support::{Client, Rng, Setup, blocked_clients, figure, size, wait_for};

const NAMES: [&str; 8] = [
    "LOCK.ACQUIRE",
    "LOCK.ACQUIRE",
    "LOCK.RELEASE",
    "LOCK.EXTEND",
    "LOCK.INFO",
    "LOCK.BREAK",
    "LOCK.APPLY",
    "LOCK.SETTLE",
];

const WORDS: [&str; 34] = [
    "OWNER",
    "EX",
    "PX",
    "BLOCK",
    "ONCE",
    "SESSION",
    "MAXHOLD",
    "FENCE",
    "ALL",
    "FULL",
    "alice",
    "bob",
    "0c1b6a0e-4f6b-4d0c-8f7e-3f8f1f0a9b11",
    "%s%n%n%s",
    "\0",
    "\r\n",
    "",
    "0",
    "1",
    "20",
    "60000",
    "-1",
    "+1",
    "01",
    " 1",
    "1.5",
    "1e3",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "\u{fc}\u{1f512}",
    "NaN",
];

fn frame(words: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        frame.extend(format!("${}\r\n", word.len()).into_bytes());
        frame.extend(word);
        frame.extend(b"\r\n");
    }
    frame
}

fn bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    let len = rng.below(most + 1);
    (0..len).map(|_| rng.next() as u8).collect()
}

fn word(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => bytes(rng, 200),
        1 => vec![b'x'; 127 + rng.below(3)],
        2 if rng.percent(10) => vec![b'x'; 100_000],
        3 => rng.next().to_string().into(),
        _ => (*rng.one_of(&WORDS)).into(),
    }
}

/// A command that may even be right.
fn command(rng: &mut Rng) -> Vec<u8> {
    let mut words: Vec<Vec<u8>> = vec![(*rng.one_of(&NAMES)).into(), format!("k{}", rng.below(5)).into()];
    words.extend((0..rng.below(8)).map(|_| word(rng)));
    if rng.percent(5) {
        words.truncate(1);
    }
    if rng.percent(1) {
        words.extend((0..20_000).map(|_| b"ONCE".to_vec()));
    }
    if rng.percent(40) {
        words = ["LOCK.ACQUIRE", "k1", "PX", "20", "OWNER", *rng.one_of(&["alice", "bob"]), "BLOCK", "50"]
            .map(|word| word.as_bytes().to_vec())
            .into();
        words.extend(rng.percent(50).then(|| b"SESSION".to_vec()));
    }
    frame(&words)
}

/// The next bytes of a stream.
fn chunk(rng: &mut Rng) -> Vec<u8> {
    let mut chunk = match rng.below(30) {
        0 => bytes(rng, 300),
        1 => format!("*{}\r\n", rng.next() as i32).into_bytes(),
        2 => format!("*2\r\n$9\r\nLOCK.INFO\r\n${}\r\n", rng.next() as i16).into_bytes(),
        3 => b"MULTI\r\n".to_vec(),
        4 => b"EXEC\r\n".to_vec(),
        5 => b"LOCK.ACQUIRE k2 \"OWNER\" 'alice' PX 30\r\n".to_vec(),
        6 => b"HELLO 3\r\n".to_vec(),
        7 => b"CLIENT REPLY SKIP\r\n".to_vec(),
        8 => b"SELECT 1\r\n".to_vec(),
        _ => (0..=rng.below(4)).flat_map(|_| command(rng)).collect(),
    };
    if rng.percent(25) && !chunk.is_empty() {
        for _ in 0..=rng.below(3) {
            let place = rng.below(chunk.len());
            match rng.below(3) {
                0 => chunk[place] = rng.next() as u8,
                1 => chunk.insert(place, rng.next() as u8),
                _ if chunk.len() > 1 => drop(chunk.remove(place)),
                _ => {}
            }
        }
    }
    if rng.percent(15) {
        chunk.truncate(rng.below(chunk.len() + 1));
    }
    chunk
}

/// Sends what the server takes, and reads what there is now and then; whether the connection is of further use.
fn go_on(stream: &mut TcpStream, rng: &mut Rng) -> bool {
    match stream.write(&chunk(rng)) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(_) => return false,
    }
    if rng.percent(70) {
        let mut replies = [0; 65_536];
        return match stream.read(&mut replies) {
            Ok(len) => len > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
    }
    true
}

/// A client with manners is served, whatever the others do.
#[track_caller]
fn check(client: &mut Client, taken: &mut i64) {
    let grant = client.acquire("mine", "OWNER carol PX 600000").unwrap();
    assert!(grant.fence > *taken, "fence {} after {taken}", grant.fence);
    *taken = grant.fence;
    assert_eq!(client.ask::<i64>("LOCK.RELEASE mine carol"), 0);
}

#[track_caller]
fn in_range(client: &mut Client) {
    for key in client.ask::<Vec<Vec<u8>>>("KEYS *") {
        // Altered bytes may make keys of any name, and even of another type.
        let Ok(Value::Array(info)) = client.send_words([b"LOCK.INFO", &key[..]]) else { continue };
        let owner: Vec<u8> = from_redis_value(info[1].clone()).unwrap();
        let fence: u64 = from_redis_value(info[3].clone()).unwrap();
        let holds: u64 = from_redis_value(info[5].clone()).unwrap();
        assert!((1..=128).contains(&owner.len()) && (1..1 << 53).contains(&fence), "{owner:?} {fence}");
        assert!((1..1 << 32).contains(&holds), "{holds}");
    }
}

#[test]
fn streams_of_any_bytes_hurt_nobody() {
    let steps = size(20_000, 1_000_000);
    let server = Setup::new().set("client-query-buffer-limit", "1mb").start();
    let (mut client, mut rng) = (server.client(), Rng::new());
    let (mut streams, mut opened, mut taken) = (Vec::new(), 0, 0);
    for step in 0..steps {
        if streams.len() < 30 {
            let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            streams.push(stream);
            opened += 1;
        }
        let chosen = rng.below(streams.len());
        if !go_on(&mut streams[chosen], &mut rng) || rng.percent(4) {
            streams.swap_remove(chosen);
        }
        if step % 200 == 0 {
            check(&mut client, &mut taken);
        }
    }
    drop(streams);
    wait_for("the others to be gone", || client.info("clients", "connected_clients") == "1");
    assert_eq!(blocked_clients(&mut client), 0);
    wait_for("no waiters and no sessions", || {
        client.info("lock", "lock_waiters") == "0" && client.info("lock", "lock_sessions") == "0"
    });
    assert!(client.info("lock", "lock_grants").parse::<i64>().unwrap() > 0);
    in_range(&mut client);
    check(&mut client, &mut taken);
    assert!(!server.log().contains("internal error"), "{}", server.log());
    figure("streams of any bytes", format!("{steps} chunks over {opened} connections, no crash"));
}
