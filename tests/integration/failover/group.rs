//! A primary, its replicas and three sentinels. The servers reach each other through relays that can lose effects, or be cut.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::Value;

use crate::support::{Client, Link, Outcome, Proxy, Route, Server, Setup};

/// The longest time that a failover and everything around it may take.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// How often the sentinels check, in ms, so that they notice a failover within one second instead of ten. After the machine stood still,
/// they pause for `tilt-period`.
const PACE: &str = "info-period 300 ask-period 200 publish-period 300 tilt-period 1000";

/// What the sentinels call the group.
const NAME: &str = "locks";

pub(super) struct Group {
    pub(super) servers: Vec<Server>,
    pub(super) relays: Vec<Proxy>,
    sentinels: Vec<Server>,
    addresses: Arc<Addresses>,
}

/// The ports of the sentinels and servers.
struct Addresses {
    sentinels: Vec<u16>,
    /// For each relay's port, the port of the server behind it.
    servers: HashMap<u16, u16>,
}

/// Puts the server's files into memory, if there is such a folder. A server that is promoted syncs its configuration file: on a slow disk,
/// it would not answer for seconds, and the sentinels would give up its promotion.
fn in_memory(setup: Setup) -> Setup {
    let folder = Path::new("/dev/shm");
    if folder.is_dir() { setup.in_folder(folder) } else { setup }
}

impl Group {
    /// Starts the servers, with this many replicas, and the sentinels; the first server is the primary.
    pub(super) fn start(setup: &Setup, replicas: usize) -> Self {
        let setup = in_memory(setup.clone());
        let servers: Vec<Server> = (0..=replicas).map(|_| setup.clone().start()).collect();
        let relays: Vec<Proxy> = servers.iter().map(|server| Proxy::to(server.port())).collect();
        let mut group = Self {
            addresses: Arc::new(Addresses {
                sentinels: Vec::new(),
                servers: servers
                    .iter()
                    .zip(&relays)
                    .map(|(server, relay)| (relay.port(), server.port()))
                    .collect(),
            }),
            servers,
            relays,
            sentinels: Vec::new(),
        };
        group.announce(0);
        for replica in 1..=replicas {
            group.follow(replica, 0);
        }
        for replica in 1..=replicas {
            group.wait_for_sync(replica, 0);
        }
        let monitor = format!("monitor {NAME} 127.0.0.1 {} 2", group.relays[0].port());
        for _ in 0..3 {
            let setup = in_memory(Setup::sentinel())
                .set("sentinel", &monitor)
                .set("sentinel", &format!("down-after-milliseconds {NAME} 1000"))
                .set("sentinel", &format!("failover-timeout {NAME} 3000"))
                .set("sentinel", &format!("parallel-syncs {NAME} 2"));
            let sentinel = setup.start();
            sentinel.client().ask::<()>(&format!("SENTINEL DEBUG {PACE}"));
            group.sentinels.push(sentinel);
        }
        group.addresses = Arc::new(Addresses {
            sentinels: group.sentinels.iter().map(Server::port).collect(),
            servers: group.addresses.servers.clone(),
        });
        group
    }

    /// The ports of the sentinels.
    pub(super) fn sentinels(&self) -> &[u16] {
        &self.addresses.sentinels
    }

    /// Returns this many clients that ask the sentinels.
    pub(super) fn routes(&self, count: usize) -> Vec<BySentinel> {
        (0..count)
            .map(|number| BySentinel {
                addresses: Arc::clone(&self.addresses),
                next: number,
                known: None,
                faithful: false,
            })
            .collect()
    }

    /// Makes the other servers reach this server through its relay.
    fn announce(&self, server: usize) {
        insist(
            &self.servers[server],
            &format!("CONFIG SET replica-announce-port {}", self.relays[server].port()),
        );
    }

    /// Makes a server a replica of another.
    pub(super) fn follow(&self, server: usize, primary: usize) {
        self.announce(server);
        insist(&self.servers[server], &format!("REPLICAOF 127.0.0.1 {}", self.relays[primary].port()));
    }

    /// Waits until a server is a replica in sync with the primary.
    pub(super) fn wait_for_sync(&self, server: usize, primary: usize) {
        patiently("a replica in sync", || self.is_in_sync(server, primary));
    }

    /// Waits until a server is in sync with the primary, or is it: on a busy machine the sentinels may make another failover.
    pub(super) fn wait_until_back(&self, server: usize) {
        patiently("a server that is back", || {
            self.primary().is_some_and(|primary| primary == server || self.is_in_sync(server, primary))
        });
    }

    fn is_in_sync(&self, server: usize, primary: usize) -> bool {
        let field = |name: &str| replication(&self.servers[server], name);
        let relay = self.relays[primary].port().to_string();
        field("role") == "slave" && field("master_port") == relay && field("master_link_status") == "up"
    }

    /// Returns the primary, if all sentinels agree on it.
    pub(super) fn primary(&self) -> Option<usize> {
        let mut views = self.sentinels.iter().map(|sentinel| primary_by(sentinel.port()));
        let first = views.next()??;
        views.all(|view| view == Some(first)).then_some(())?;
        self.relays.iter().position(|relay| relay.port() == first)
    }

    /// Waits until each sentinel knows all replicas as up, and two other sentinels.
    pub(super) fn wait_for_health(&self) {
        patiently("a healthy group", || {
            self.sentinels.iter().all(|sentinel| {
                let mut client = sentinel.client();
                let state = state(&mut client, "MASTER");
                let replicas: Vec<HashMap<String, String>> = client.ask(&format!("SENTINEL REPLICAS {NAME}"));
                let up = replicas
                    .iter()
                    .filter(|replica| replica["flags"] == "slave" && replica["master-link-status"] == "ok");
                let all = self.servers.len() - 1;
                state["flags"] == "master" && state["num-other-sentinels"] == "2" && up.count() == all
            })
        });
    }

    /// Whether a sentinel has begun to replace the primary.
    pub(super) fn failover_has_begun(&self) -> bool {
        self.sentinels
            .iter()
            .any(|sentinel| state(&mut sentinel.client(), "MASTER")["flags"].contains("failover_in_progress"))
    }

    /// Whether another server than this one has become a primary.
    pub(super) fn has_primary_beside(&self, old: usize) -> bool {
        let mut others = self.servers.iter().enumerate().filter(|(number, _)| *number != old);
        others.any(|(_, server)| replication(server, "role") == "master")
    }
}

/// Sends a command until it is answered, because sentinels close connections.
#[track_caller]
fn insist(server: &Server, line: &str) {
    patiently(line, || {
        let link = Link::open(server.port(), Duration::from_secs(1));
        matches!(link.map(|mut link| link.send(line)), Some(Outcome::Reply(_)))
    });
}

/// Returns a field of `INFO replication`, or an empty string if the server does not answer.
fn replication(server: &Server, field: &str) -> String {
    let link = Link::open(server.port(), Duration::from_secs(1));
    let Some(Outcome::Reply(reply)) = link.map(|mut link| link.send("INFO replication")) else {
        return String::new();
    };
    let text: String = redis::from_redis_value(reply).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().into()
}

fn state(client: &mut Client, what: &str) -> HashMap<String, String> {
    client.ask(&format!("SENTINEL {what} {NAME}"))
}

/// Returns the port of the primary's relay, as this sentinel sees it.
fn primary_by(sentinel: u16) -> Option<u16> {
    let mut link = Link::open(sentinel, Duration::from_millis(500))?;
    match link.send(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}")) {
        Outcome::Reply(reply @ Value::Array(_)) => {
            let (_, port): (String, u16) = redis::from_redis_value(reply).ok()?;
            Some(port)
        }
        _ => None,
    }
}

/// As `wait_for`, but waits as long as a failover may take.
#[track_caller]
pub(super) fn patiently(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "waited {LONG:?} in vain for: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// A client that asks the sentinels for the primary, and asks again after each problem with it.
pub(super) struct BySentinel {
    addresses: Arc<Addresses>,
    next: usize,
    known: Option<u16>,
    /// Whether the client stays with a primary that has too few replicas.
    faithful: bool,
}

impl BySentinel {
    /// Returns a client that stays with a primary that has too few replicas.
    pub(super) fn faithful(self) -> Self {
        Self { faithful: true, ..self }
    }

    fn ask(&mut self) -> Option<u16> {
        self.next = (self.next + 1) % self.addresses.sentinels.len();
        let relay = primary_by(self.addresses.sentinels[self.next])?;
        self.addresses.servers.get(&relay).copied()
    }
}

impl Route for BySentinel {
    fn port(&mut self, _key: &str) -> Option<u16> {
        if self.known.is_none() {
            self.known = self.ask();
        }
        self.known
    }

    fn learn(&mut self, _key: &str, _port: u16, outcome: &Outcome) {
        let bears = match outcome.code() {
            Some("NOTHELD") => true,
            Some("NOREPLICAS") => self.faithful,
            _ => matches!(outcome, Outcome::Reply(_)),
        };
        if !bears {
            self.known = None;
        }
    }
}
