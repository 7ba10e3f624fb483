//! Thousands of clients at a time: a socket each, and no more.

use std::io::Write;
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{PATIENCE, Server};

/// As many open files as this process may have at all, up to 65,536: crowds of several tests stand in it at a time. The server raises its
/// limit by itself.
pub(crate) fn allow_open_files() {
    const ENOUGH: u64 = 65_536;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
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
