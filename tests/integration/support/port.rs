//! Ports for the servers under test, chosen by the system.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// Where a cluster node listens beside its port.
const OTHER_PORT: u16 = 10_000;

/// A port that is its server's until it is dropped, also while the server is down. A socket is bound to it that never listens: so
/// the system gives the port to nobody, but a server may listen on it, since Linux lets several sockets with `SO_REUSEADDR`
/// have one port while no more than one of them listens (socket(7)).
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _held: [Socket; 2],
}

impl Port {
    /// A port that nobody has; nor has anybody the one on which a cluster node would listen beside it.
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

/// A socket on that port, or with 0 on one that nobody has.
fn hold(port: u16) -> io::Result<(Socket, u16)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    let number = socket.local_addr()?.as_socket().expect("an address of IPv4").port();
    Ok((socket, number))
}

/// The ports of a server that is down: nobody is there, no program that asks for a port of its own gets one, and the server comes up
/// again.
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
