//! Thousands of clients at a time, each of which is only a socket.

use std::io::Write;
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{PATIENCE, Server};

/// Raises the limit of open files of this process to its maximum, at most 65,536, because several tests open many sockets at once. The
/// server raises its own limit.
pub(crate) fn allow_open_files() {
    const ENOUGH: u64 = 65_536;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).unwrap();
    }
}

/// Opens this many sockets, and sends a line on each, which depends on its index.
pub(crate) fn sockets(server: &Server, many: usize, line: impl Fn(usize) -> String) -> Vec<TcpStream> {
    let sockets = (0..many).map(|place| {
        let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(socket, "{}\r\n", line(place)).unwrap();
        socket
    });
    sockets.collect()
}
