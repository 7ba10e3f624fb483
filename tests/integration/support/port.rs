//! Ports for the servers under test, chosen by the system.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A cluster node also listens on its port plus this number.
const OTHER_PORT: u16 = 10_000;

/// A port that stays reserved for its server until this is dropped, also while the server is down. A socket that never listens is bound to
/// it. So the system gives the port to no other program, but the server may listen on it: with `SO_REUSEADDR`, Linux lets several sockets
/// have one port as long as only one of them listens (socket(7)).
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _held: [Socket; 2],
}

impl Port {
    /// Returns a free port. The second port of a cluster node is free, too.
    pub(crate) fn free() -> Self {
        loop {
            let (held, number) = hold(0).expect("a free port");
            let Some(other) = number.checked_add(OTHER_PORT) else { continue };
            if let Ok((other, _)) = hold(other) {
                return Self { number, _held: [held, other] };
            }
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Binds a socket to this port, or to any free port if it is 0.
fn hold(port: u16) -> io::Result<(Socket, u16)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    let number = socket.local_addr()?.as_socket().expect("an address of IPv4").port();
    Ok((socket, number))
}

/// While a server is down, nobody answers on its ports, no other program gets one, and the server can start again.
#[test]
fn a_port_is_kept() {
    use std::net::{TcpListener, TcpStream};

    let port = Port::free();
    for number in [port.number(), port.number() + OTHER_PORT] {
        for _ in 0..2 {
            assert!(TcpStream::connect(("127.0.0.1", number)).is_err());
            let others = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            let taken = others.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, number)).into()).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);

            let _server = TcpListener::bind(("127.0.0.1", number)).unwrap();
            TcpStream::connect(("127.0.0.1", number)).unwrap();
        }
    }
}
