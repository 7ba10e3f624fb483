//! A server that stands still for longer than a session's lease: nobody else could have been granted anything meanwhile, so
//! the session goes on, as long as its connection lives.

use std::thread::sleep;
use std::time::Duration;

use redis::Value;

use crate::support::{
    Client, Grant, Server, Setup, Waiter, all_along, busy_script, held, owners, wait_for, while_stopped,
};

/// The lease of the sessions here is 1 s.
const STALL: Duration = Duration::from_millis(1500);

/// How a server stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stall {
    /// A script keeps it busy.
    Script,
    /// It sleeps in a command.
    Sleep,
    /// Its process is stopped.
    Freeze,
}

pub(crate) const STALLS: [Stall; 3] = [Stall::Script, Stall::Sleep, Stall::Freeze];

/// Has the server stand still, with commands of that client's to be read right afterwards; their replies.
pub(crate) fn stall(
    server: &Server,
    how: Stall,
    client: &mut Client,
    then: &[&str],
) -> Vec<Result<Value, String>> {
    let busy = busy_script(client, 1.5);
    let first = match how {
        Stall::Script => vec!["EVAL", &busy, "0"],
        Stall::Sleep => vec!["DEBUG", "SLEEP", "1.5"],
        Stall::Freeze => vec!["PING"],
    };
    let rest = then.iter().map(|line| line.split(' ').collect());
    let commands: Vec<Vec<&str>> = [first].into_iter().chain(rest).collect();
    if let Stall::Freeze = how {
        while_stopped(server, || {
            client.begin_together(&commands);
            sleep(STALL);
        });
    } else {
        client.begin_together(&commands);
    }
    let mut replies: Vec<_> = commands.iter().map(|_| client.finish()).collect();
    replies.remove(0).unwrap();
    replies
}

/// Alice's session on `k`, which bob waits for, and who listens for lapses.
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
        let setup = Setup::new().set("notify-keyspace-events", "Ed").set("busy-reply-threshold", "60000");
        let server = setup.start();
        let (mut alice, client, mut listener) = (server.client(), server.client(), server.client());
        listener.ask::<()>("SUBSCRIBE __keyevent@0__:lock.lapsed end");
        listener.finish().unwrap();
        let first = alice.acquire("k", "OWNER alice PX 1000 SESSION").unwrap();
        let bob = Waiter::new(&server, "k", "OWNER bob PX 60000");
        Self { server, alice, first, bob, client, listener }
    }

    /// The keys whose leases have lapsed, by the events so far.
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

    /// Alice has the lock, in her session, and keeps it; bob waits until her connection closes.
    #[track_caller]
    fn goes_on(mut self, what: &str) {
        // For as long as it takes to renew the lease a few times.
        all_along(&mut self.client, 1500, |client| {
            held(client, "k");
            let info = client.lock_info("k").unwrap_or_else(|| panic!("{what}: the lock is free"));
            let seen = (&info["owner"][..], info["fence"].parse().unwrap(), &info["session"][..]);
            assert_eq!(seen, ("alice", self.first.fence, "1"), "{what}");
        });
        assert!(self.bob.is_blocked(&mut self.client), "{what}");
        assert_eq!(owners(&mut self.client, "k"), ["bob"], "{what}");
        assert_eq!(self.lapsed(), [""; 0], "{what}");
        assert_eq!(self.client.info("lock", "lock_lapses"), "0", "{what}");
        drop(self.alice);
        assert!(self.bob.granted().fence > self.first.fence, "{what}");
    }
}

/// Whoever asks for the lock, or looks at its key.
#[test]
fn a_session_goes_on_whatever_is_asked_right_afterwards() {
    for how in STALLS {
        for then in [
            &[][..],
            &["LOCK.ACQUIRE k OWNER dave", "LOCK.RELEASE k dave", "LOCK.ACQUIRE k OWNER alice ONCE"],
            &["EXISTS k", "LOCK.INFO k", "PTTL k"],
        ] {
            let scene = Scene::new();
            let mut other = scene.server.client();
            stall(&scene.server, how, &mut other, then);
            scene.goes_on(&format!("{how:?}, {then:?}"));
        }
    }
}

/// The server runs, and only refuses the renewals: that is a lapse, as for any lock.
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
