//! Sessions whose leases end because the server does not renew them.

use std::thread::sleep;
use std::time::Duration;

use crate::support::{Client, Grant, Server, Setup, Waiter, held, wait_for, while_stopped};

/// For how long the server stands still; the sessions' lease is 1 s.
const STALL: Duration = Duration::from_millis(1500);

/// Alice holds `k` with a session, bob waits for it, and a client subscribes to lapses.
struct Scene {
    server: Server,
    alice: Client,
    first: Grant,
    bob: Waiter,
    client: Client,
    listener: Client,
}

impl Scene {
    fn new() -> Self {
        let server = Setup::new().set("notify-keyspace-events", "Ed").start();
        let (mut alice, client, mut listener) = (server.client(), server.client(), server.client());
        listener.ask::<()>("SUBSCRIBE __keyevent@0__:lock.lapsed end");
        listener.finish().unwrap();
        let first = alice.acquire("k", "OWNER alice PX 1000 SESSION").unwrap();
        let bob = Waiter::new(&server, "k", "OWNER bob PX 60000");
        Self { server, alice, first, bob, client, listener }
    }

    /// Returns the keys whose leases have lapsed, from the events so far.
    fn lapsed(&mut self) -> Vec<String> {
        self.client.ask::<i64>("PUBLISH end end");
        let mut seen = Vec::new();
        loop {
            let (_kind, _channel, message): (String, String, String) =
                redis::from_redis_value(self.listener.finish().unwrap()).unwrap();
            if message == "end" {
                return seen;
            }
            seen.push(message);
        }
    }

    /// Checks that alice has lost the lock to bob.
    #[track_caller]
    fn lapses(mut self) {
        let bob = self.bob.granted();
        assert!(bob.fence > self.first.fence);
        assert_eq!(self.lapsed(), ["k"]);
        assert_eq!(self.client.info("lock", "lock_lapses"), "1");
        assert_eq!(self.client.info("lock", "lock_sessions"), "0");
        drop(self.alice);
        assert_eq!(held(&mut self.client, "k").fence, bob.fence);
    }
}

#[test]
fn a_session_whose_lease_ends_while_the_server_stands_still_lapses() {
    let scene = Scene::new();
    while_stopped(&scene.server, || sleep(STALL));
    scene.lapses();
}

/// The server runs, but refuses the renewals: then the session lapses like any lock.
#[test]
fn a_session_whose_renewals_are_refused_lapses() {
    let mut scene = Scene::new();
    scene.client.ask::<()>("CONFIG SET min-replicas-to-write 1");
    wait_for("a lapse", || scene.client.info("lock", "lock_lapses") == "1");
    assert_eq!(scene.lapsed(), ["k"]);
    scene.client.ask::<()>("CONFIG SET min-replicas-to-write 0");
    assert!(scene.bob.granted().fence > scene.first.fence);
    assert_eq!(scene.client.info("lock", "lock_sessions"), "0");
}
