//! A TCP relay before a server, which can lose what the server and its replicas tell each other, or be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Relays connections until dropped; those that are open then go on until either side closes.
pub(crate) struct Proxy {
    port: u16,
    trouble: Arc<Trouble>,
    closed: Arc<AtomicBool>,
}

/// What goes wrong between a server and those who reach it by the relay.
#[derive(Default)]
struct Trouble {
    /// What the server sends is thrown away.
    lossy: AtomicBool,
    /// The server does not hear of it when a replica closes its link.
    silent: AtomicBool,
    /// Nothing passes, neither bytes nor the end of a connection: all of it waits, as in a network that is cut.
    cut: Mutex<bool>,
    mended: Condvar,
    /// By so many ms all that passes is late.
    delay: AtomicU64,
}

impl Trouble {
    fn hold_up(&self) {
        thread::sleep(Duration::from_millis(self.delay.load(Ordering::Relaxed)));
        drop(self.mended.wait_while(self.cut.lock().unwrap(), |cut| *cut).unwrap());
    }
}

impl Proxy {
    /// A relay to that port of this machine.
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

    /// Whether what the server sends to its replicas gets lost from now on. A replica's link is of no use after that.
    pub(crate) fn lose_effects(&self, lose: bool) {
        self.trouble.lossy.store(lose, Ordering::Relaxed);
    }

    /// From now on the server does not hear of it when a replica closes its link, as where a network is cut.
    pub(crate) fn hide_ends(&self) {
        self.trouble.silent.store(true, Ordering::Relaxed);
    }

    /// By how many ms all that passes is late from now on.
    pub(crate) fn delay(&self, ms: usize) {
        self.trouble.delay.store(ms as u64, Ordering::Relaxed);
    }

    /// Whether nothing passes from now on. What was sent meanwhile arrives when it does again.
    pub(crate) fn cut(&self, cut: bool) {
        *self.trouble.cut.lock().unwrap() = cut;
        self.trouble.mended.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.cut(false);
        // Wakes the listener up.
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
            // The other direction, which the server ends, holds its socket.
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

/// Passes on what `keep` lets through, until the one side ends or the other takes no more.
fn pump(mut from: &TcpStream, mut to: &TcpStream, mut keep: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if keep(&buffer[..len]) && to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
}
