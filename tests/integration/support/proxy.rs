//! A TCP relay in front of a server, which can lose what the server and its replicas send, or be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Relays connections until it is dropped; connections that are open then continue until one side closes.
pub(crate) struct Proxy {
    port: u16,
    trouble: Arc<Trouble>,
    closed: Arc<AtomicBool>,
}

/// Faults between a server and those that reach it through the relay.
#[derive(Default)]
struct Trouble {
    /// Whether data from the server are discarded.
    lossy: AtomicBool,
    /// Whether the server does not notice that a replica closes its link.
    silent: AtomicBool,
    /// Whether nothing passes, neither bytes nor the end of a connection: everything waits, as in a network that is cut.
    cut: Mutex<bool>,
    mended: Condvar,
    /// By how many ms everything is delayed.
    delay: AtomicU64,
}

impl Trouble {
    fn hold_up(&self) {
        thread::sleep(Duration::from_millis(self.delay.load(Ordering::Relaxed)));
        drop(self.mended.wait_while(self.cut.lock().unwrap(), |cut| *cut).unwrap());
    }
}

impl Proxy {
    /// Starts a relay to this port of this machine.
    pub(crate) fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (trouble, closed) = (Arc::new(Trouble::default()), Arc::new(AtomicBool::new(false)));
        let proxy = Self { port, trouble: Arc::clone(&trouble), closed: Arc::clone(&closed) };
        thread::spawn(move || {
            for client in listener.incoming() {
                if closed.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(client), trouble) = (client, Arc::clone(&trouble)) else { continue };
                thread::spawn(move || {
                    trouble.hold_up();
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", target)) {
                        relay(client, server, &trouble);
                    }
                });
            }
        });
        proxy
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sets whether data from the server to its replicas are lost. The link of a replica can't be used any more after a loss.
    pub(crate) fn lose_effects(&self, lose: bool) {
        self.trouble.lossy.store(lose, Ordering::Relaxed);
    }

    /// From now on, the server does not notice that a replica closes its link, as in a network that is cut.
    pub(crate) fn hide_ends(&self) {
        self.trouble.silent.store(true, Ordering::Relaxed);
    }

    /// Delays everything by this many ms from now on.
    pub(crate) fn delay(&self, ms: usize) {
        self.trouble.delay.store(ms as u64, Ordering::Relaxed);
    }

    /// Sets whether the relay is cut. What was sent meanwhile arrives when it no longer is.
    pub(crate) fn cut(&self, cut: bool) {
        *self.trouble.cut.lock().unwrap() = cut;
        self.trouble.mended.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.cut(false);
        // This connection wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn relay(client: TcpStream, server: TcpStream, trouble: &Arc<Trouble>) {
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let (Ok(to_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
    let replica = Arc::new(AtomicBool::new(false));
    let (silent, lossy) = (Arc::clone(trouble), Arc::clone(trouble));
    let is_replica = Arc::clone(&replica);
    thread::spawn(move || {
        pump(&client, &to_server, |bytes| {
            if bytes.windows(5).any(|word| word.eq_ignore_ascii_case(b"PSYNC")) {
                replica.store(true, Ordering::Relaxed);
            }
            silent.hold_up();
            true
        });
        silent.hold_up();
        if replica.load(Ordering::Relaxed) && silent.silent.load(Ordering::Relaxed) {
            // The other direction still uses the socket, and the server ends it.
            return;
        }
        let _ = to_server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let lost = || is_replica.load(Ordering::Relaxed) && lossy.lossy.load(Ordering::Relaxed);
        pump(&server, &to_client, |_| {
            lossy.hold_up();
            !lost()
        });
        lossy.hold_up();
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
}

/// Passes on data for which `keep` returns true, until one side ends or the other accepts no more.
fn pump(mut from: &TcpStream, mut to: &TcpStream, mut keep: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if keep(&buffer[..len]) && to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
}
