//! Thousands of clients at a time: a socket each, and no more.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Grant, PATIENCE, Server};

/// A test is one process with the waiters' sockets, and so is the server, which raises its limit by itself.
pub(crate) fn allow_open_files(waiters: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = waiters as u64 + 2500;
    if current.is_some_and(|current| current < wanted) {
        let current = maximum.map_or(Some(wanted), |most| Some(most.min(wanted)));
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    }
}

/// So many sockets, each of which has sent the line made for its place.
pub(crate) fn sockets(server: &Server, many: usize, line: impl Fn(usize) -> String) -> Vec<TcpStream> {
    let sockets = (0..many).map(|place| {
        let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(socket, "{}\r\n", line(place)).unwrap();
        socket
    });
    sockets.collect()
}

/// The lines of one new grant's reply.
pub(crate) fn read_grant(socket: &mut TcpStream) -> Grant {
    let mut text = Vec::new();
    while text.iter().filter(|&&byte| byte == b'\n').count() < 6 {
        let mut bytes = [0; 256];
        let len = socket.read(&mut bytes).unwrap();
        assert!(len > 0, "the connection ended");
        text.extend(&bytes[..len]);
    }
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<_> = text.split_terminator("\r\n").collect();
    let ["*4", _, owner, fence, ":1", lease] = lines[..] else { panic!("no grant: {text:?}") };
    let number = |text: &str| text.strip_prefix(':').unwrap().parse().unwrap();
    Grant { owner: owner.into(), fence: number(fence), holds: 1, lease: number(lease) }
}
