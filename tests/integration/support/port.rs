//! Ports for the servers under test, chosen by the system.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex};

/// Those of the servers of this process: one that is down for a moment keeps its port.
static TAKEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// Where a cluster node listens beside its port.
const OTHER_PORT: u16 = 10_000;

/// A port that is no other server's of this process until it is dropped.
#[derive(Debug)]
pub(super) struct Port(u16);

impl Port {
    /// One that nobody listens on, with room above for a cluster node's other port. Another process may take it before the
    /// server does.
    pub(super) fn free() -> Self {
        loop {
            let port = listen().local_addr().unwrap().port();
            if port <= u16::MAX - OTHER_PORT && TAKEN.lock().unwrap().insert(port) {
                return Self(port);
            }
        }
    }

    pub(super) fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        TAKEN.lock().unwrap().remove(&self.0);
    }
}

/// Listens on a port that is no server's.
pub(super) fn listen() -> TcpListener {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let taken = TAKEN.lock().unwrap();
        let is_other = port.checked_sub(OTHER_PORT).is_some_and(|port| taken.contains(&port));
        if !is_other && !taken.contains(&port) {
            return listener;
        }
    }
}
