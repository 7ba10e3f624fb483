//! Replicas get the same grants and fences, in one transaction.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{ask, granted, holds, release, waits};
use crate::support::{Client, PATIENCE, Server, Setup, wait_for};

/// A server that becomes a replica sends waiters for several locks away, like those for a single lock.
#[test]
fn a_demotion_sends_waiters_away() {
    let (server, other) = (Server::start(), Server::start());
    let mut client = server.client();
    let mut mail = crate::support::Mailbox::of(&server, "ch");
    holds(&mut client, "a b", "alice", "");
    let mut waiter = waits(&server, "free a b", "bob", "");
    let mut asker = server.client();
    asker.ask::<redis::Value>(&ask("a free2 b", "carol", "ONCE BLOCK 0 NOTIFY ch"));
    client.ask::<()>(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    // Redis then closes the connection.
    assert!(waiter.client.finish().unwrap_err().starts_with("UNBLOCKED "));
    assert_eq!(mail.next(), "gone carol");
    wait_for("no waiters", || super::count(&mut client, "lock_waiters") == 0);
    client.ask::<()>("REPLICAOF NO ONE");
    client.ask::<()>("FLUSHALL");
    holds(&mut client, "free free2 a b", "dave", "");
}

/// The replication stream, without pings.
struct Stream(TcpStream, Vec<u8>);

impl Stream {
    fn of(server: &Server) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"SYNC\r\n").unwrap();
        let mut this = Self(stream, Vec::new());
        // The stream begins with the RDB file, so everything before this known command is skipped.
        server.client().ask::<()>("SET mark begin");
        this.until("begin");
        this
    }

    /// Returns the lines of the stream up to one that ends with this word, without lines that only contain a length.
    fn until(&mut self, word: &str) -> Vec<String> {
        let end = format!("{word}\r\n").into_bytes();
        let mut bytes = [0; 4096];
        let at = loop {
            if let Some(at) = self.1.windows(end.len()).position(|window| window == end) {
                break at + end.len();
            }
            let len = self.0.read(&mut bytes).unwrap();
            assert!(len > 0, "the stream ended");
            self.1.extend(&bytes[..len]);
        };
        let text: Vec<u8> = self.1.drain(..at).collect();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.split("\r\n").filter(|line| !line.starts_with(['$', '*'])).map(String::from).collect()
    }
}

/// Returns the names of the commands that replicas receive because of `body`.
#[track_caller]
fn sent(
    server: &Server,
    stream: &mut Stream,
    client: &mut Client,
    body: impl FnOnce(&mut Client),
) -> Vec<String> {
    client.ask::<()>("SET mark one");
    stream.until("one");
    body(client);
    server.client().ask::<()>("SET mark two");
    let words = stream.until("two");
    let words = words.into_iter().map(|word| word.to_uppercase());
    words.filter(|word| ["MULTI", "EXEC", "LOCK.APPLY", "DEL", "UNLINK"].contains(&&word[..])).collect()
}

#[test]
fn what_changes_several_is_one_transaction() {
    let server = Setup::new().set("repl-ping-replica-period", "3600").start();
    let mut stream = Stream::of(&server);
    let mut client = server.client();
    let block = ["MULTI", "LOCK.APPLY", "LOCK.APPLY", "LOCK.APPLY", "EXEC"];
    let alone = |client: &mut Client, line: &str| client.send(line).map(|_| ()).unwrap();
    let mut check = |client: &mut Client, line: &str, expected: &[&str]| {
        let words = sent(&server, &mut stream, client, |client| alone(client, line));
        assert_eq!(words, expected, "{line}");
    };
    check(&mut client, &ask("a b c", "alice", ""), &block);
    check(&mut client, &ask("a b c", "alice", ""), &block);
    check(&mut client, &ask("a b c", "alice", "ONCE PX 1"), &[]);
    check(&mut client, &ask("a b d", "bob", ""), &[]);
    check(&mut client, "LOCK.MEXTEND 3 a b c alice PX 700000", &block);
    check(&mut client, "LOCK.MRELEASE 3 a b c alice", &block);
    // A handover must also be a single transaction.
    let mut waiter = waits(&server, "c b a", "bob", "");
    let words = sent(&server, &mut stream, &mut client, |client| {
        release(client, "a b c", "alice");
        granted(&mut waiter);
    });
    let grants = words.rsplit(|word| word == "MULTI").next().unwrap();
    assert_eq!(grants, &block[1..], "{words:?}");
}
