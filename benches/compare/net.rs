//! Many connections driven by one thread, so that a second core is enough for the load generator.
//!
//! Requests are appended to a connection's buffer. When all arrived replies have been handled, one system call per connection writes them.
//! Replies are passed on one by one, and are not copied if they arrived in one piece.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::resp;

/// How long the server may send nothing at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A connection's place in its [`Net`].
pub(crate) type Conn = usize;

pub(crate) struct Net {
    poll: Poll,
    events: Events,
    /// For each connection, the beginning of a reply that has not arrived completely.
    partial: Vec<Vec<u8>>,
    scratch: Vec<u8>,
    /// For how long nothing has arrived.
    waited: Duration,
    pub(crate) out: Outbox,
}

pub(crate) struct Outbox {
    lines: Vec<Line>,
    dirty: Vec<Conn>,
}

struct Line {
    /// `None`: we have closed the connection.
    stream: Option<TcpStream>,
    pending: Vec<u8>,
    dirty: bool,
}

impl Net {
    pub(crate) fn new() -> Self {
        Self {
            poll: Poll::new().expect("an epoll instance"),
            events: Events::with_capacity(1024),
            partial: Vec::new(),
            scratch: vec![0; 256 * 1024],
            waited: Duration::ZERO,
            out: Outbox { lines: Vec::new(), dirty: Vec::new() },
        }
    }

    /// Returns a net with this many connections to the server on this port.
    pub(crate) fn with(count: usize, port: u16) -> Self {
        let mut net = Self::new();
        for _ in 0..count {
            net.connect(port);
        }
        net
    }

    pub(crate) fn connect(&mut self, port: u16) -> Conn {
        // Connects in the blocking way, because thousands of connects at once would overrun the server's backlog.
        let stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection to the server");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_nonblocking(true).expect("a non-blocking socket");
        let mut stream = TcpStream::from_std(stream);
        let conn = self.out.lines.len();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(conn), interest).expect("a registered socket");
        self.out.lines.push(Line { stream: Some(stream), pending: Vec::new(), dirty: false });
        self.partial.push(Vec::new());
        conn
    }

    pub(crate) fn close(&mut self, conn: Conn) {
        self.out.lines[conn].stream = None;
    }

    /// Sends pending requests, waits for replies for at most `wait`, and passes each reply to `handle`. Panics if nothing arrives for
    /// `PATIENCE`, in one call or over several.
    pub(crate) fn turn(&mut self, wait: Duration, mut handle: impl FnMut(&mut Outbox, Conn, &[u8])) {
        self.out.flush();
        let begin = Instant::now();
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            result => result.expect("epoll works"),
        }
        self.waited = if self.events.is_empty() { self.waited + begin.elapsed() } else { Duration::ZERO };
        assert!(self.waited < PATIENCE, "no reply for {PATIENCE:?}");
        for event in &self.events {
            let Token(conn) = event.token();
            if event.is_readable() {
                read(&mut self.out, &mut self.partial[conn], &mut self.scratch, conn, &mut handle);
            }
            if event.is_writable() {
                self.out.write(conn);
            }
            self.out.flush();
        }
    }

    pub(crate) fn replies(&mut self, count: usize, mut handle: impl FnMut(Conn, &[u8])) {
        let mut missing = count;
        while missing > 0 {
            self.turn(PATIENCE, |_, conn, reply| {
                missing -= 1;
                handle(conn, reply);
            });
        }
    }

    /// Sends a line `count` times, with its number filled in, as [`Self::send_all`] does.
    pub(crate) fn fill(&mut self, conns: usize, count: usize, line: &str, success: &[u8]) {
        self.send_all(conns, (0..count).map(|number| resp::said(line, number)), success);
    }

    /// Sends these requests over the first `conns` connections, a limited number at a time, and checks how the replies begin.
    pub(crate) fn send_all(&mut self, conns: usize, requests: impl Iterator<Item = Vec<u8>>, success: &[u8]) {
        let mut requests = requests.peekable();
        while requests.peek().is_some() {
            let mut due = 0;
            for request in requests.by_ref().take(500 * conns) {
                self.out.send(due % conns, &request);
                due += 1;
            }
            self.replies(due, |_, reply| {
                assert!(reply.starts_with(success), "refused: {}", reply.escape_ascii());
            });
        }
    }

    /// Sends a line, with its number filled in, over `count` connections, beginning with `from`. Does not wait for replies.
    pub(crate) fn block(&mut self, from: Conn, count: usize, line: &str) {
        for number in 0..count {
            self.out.send(from + number, &resp::said(line, number));
            if number % 500 == 0 {
                self.out.flush();
            }
        }
    }

    /// Waits until `is_so` returns true. No reply may arrive before.
    pub(crate) fn wait_until(&mut self, is_so: impl Fn() -> bool) {
        while !is_so() {
            self.turn(Duration::from_millis(5), |_, conn, _| panic!("client {conn} does not wait"));
        }
    }
}

/// Reads everything that has arrived, and passes on each complete reply.
fn read(
    out: &mut Outbox,
    partial: &mut Vec<u8>,
    scratch: &mut [u8],
    conn: Conn,
    handle: &mut impl FnMut(&mut Outbox, Conn, &[u8]),
) {
    loop {
        let Some(stream) = &mut out.lines[conn].stream else { return };
        let count = match stream.read(scratch) {
            Ok(0) => panic!("the server closed connection {conn}"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => panic!("connection {conn}: {error}"),
        };
        let came = &scratch[..count];
        if partial.is_empty() {
            let used = hand_over(out, conn, came, handle);
            partial.extend_from_slice(&came[used..]);
        } else {
            partial.extend_from_slice(came);
            let whole = std::mem::take(partial);
            let used = hand_over(out, conn, &whole, handle);
            partial.extend_from_slice(&whole[used..]);
        }
        if count < scratch.len() {
            return;
        }
    }
}

/// Passes on each complete reply. Returns the number of their bytes.
fn hand_over(
    out: &mut Outbox,
    conn: Conn,
    bytes: &[u8],
    handle: &mut impl FnMut(&mut Outbox, Conn, &[u8]),
) -> usize {
    let mut at = 0;
    while let Some(len) = resp::reply_len(&bytes[at..]) {
        let reply = &bytes[at..at + len];
        assert!(reply[0] != b'-', "the server refused: {}", reply.escape_ascii());
        handle(out, conn, reply);
        at += len;
    }
    at
}

impl Outbox {
    /// Queues a request, which is sent at the latest at the next turn.
    pub(crate) fn send(&mut self, conn: Conn, request: &[u8]) {
        let line = &mut self.lines[conn];
        line.pending.extend_from_slice(request);
        if !line.dirty {
            line.dirty = true;
            self.dirty.push(conn);
        }
    }

    /// Writes the queued requests now, without waiting for replies.
    pub(crate) fn flush(&mut self) {
        while let Some(conn) = self.dirty.pop() {
            self.lines[conn].dirty = false;
            self.write(conn);
        }
    }

    fn write(&mut self, conn: Conn) {
        let Line { stream, pending, .. } = &mut self.lines[conn];
        let Some(stream) = stream else { return };
        let mut sent = 0;
        while sent < pending.len() {
            match stream.write(&pending[sent..]) {
                Ok(count) => sent += count,
                // The rest is written when poll reports that the socket is writable again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("connection {conn}: {error}"),
            }
        }
        pending.drain(..sent);
    }
}
