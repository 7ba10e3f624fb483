//! A cluster of three primaries, with a replica each on request. The server's own command-line client makes it.

use std::collections::{HashMap, HashSet};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Client, Outcome, Rng, Route, Server, Setup, cli_program, wait_for};

/// The number of hash slots of a cluster.
const SLOTS: u16 = 16384;

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
    ids: Vec<String>,
}

impl Cluster {
    /// The first three nodes are primaries.
    pub(crate) fn start(setup: Setup, replicas: bool) -> Self {
        let setup = setup.set("cluster-enabled", "yes");
        let count = if replicas { 6 } else { 3 };
        let nodes: Vec<Server> = (0..count).map(|_| setup.clone().start()).collect();
        let ids = nodes.iter().map(|node| node.client().ask("CLUSTER MYID")).collect();
        let cluster = Self { nodes, ids };
        // A node contacts each other node within half of the node timeout. With a short timeout, new nodes agree within 3 s; with 15 s,
        // within 5 to 21 s. A node that is wrongly taken for dead meanwhile is not replaced.
        cluster.set("cluster-node-timeout 3000 cluster-replica-no-failover yes");
        let addresses: Vec<String> =
            cluster.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let mut args = vec!["--cluster", "create"];
        args.extend(addresses.iter().map(String::as_str));
        args.extend(["--cluster-replicas", if replicas { "1" } else { "0" }, "--cluster-yes"]);
        cluster.cli(&args);
        cluster.wait_for_agreement();
        if replicas {
            wait_for("replicas in sync", || {
                cluster.nodes[3..]
                    .iter()
                    .all(|node| node.client().info("replication", "master_link_status") == "up")
            });
        }
        // From now on, no node should take another for dead, even on a busy machine.
        cluster.set("cluster-node-timeout 15000 cluster-replica-no-failover no");
        cluster
    }

    /// Returns a channel named as packages name it, in a slot that this node serves.
    pub(super) fn channel_of(&self, node: usize) -> String {
        let mut client = self.client(node);
        let (ports, port) = (served(&mut client).expect("a whole cluster"), self.nodes[node].port());
        let mut tags = (0..).step_by(1000).flat_map(|first| {
            let asked: Vec<String> =
                (first..first + 1000).map(|tag| format!("CLUSTER KEYSLOT {tag}")).collect();
            (first..).zip(client.ask_all::<u16, _>(&asked))
        });
        let (tag, _) = tags.find(|(_, slot)| ports[usize::from(*slot)] == port).unwrap();
        format!("redislock:web-7:12:5f0c:{{{tag}}}")
    }

    /// Returns how many messages of this kind the nodes have sent each other: `publish` (to all nodes) or `publishshard`.
    pub(super) fn bus_messages(&self, kind: &str) -> u64 {
        let sent = format!("cluster_stats_messages_{kind}_sent:");
        let count = |node: &Server| {
            let info: String = node.client().ask("CLUSTER INFO");
            info.lines().find_map(|line| line.strip_prefix(&sent)?.parse().ok()).unwrap_or(0)
        };
        self.nodes.iter().map(count).sum::<u64>()
    }

    /// Changes settings of all nodes.
    pub(crate) fn set(&self, settings: &str) {
        for node in &self.nodes {
            node.client().ask::<()>(&format!("CONFIG SET {settings}"));
        }
    }

    /// Runs the server's command-line client.
    pub(super) fn cli(&self, args: &[&str]) {
        let output = Command::new(cli_program()).args(args).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Waits until all nodes find the cluster complete, agree on slots and replicas, and are connected: before that, messages published on
    /// one node do not reach the others.
    pub(super) fn wait_for_agreement(&self) {
        wait_for("the nodes to agree", || {
            if !self.nodes.iter().zip(&self.ids).all(|(node, id)| self.is_linked(&mut node.client(), id)) {
                return false;
            }
            let views: Vec<Option<(Vec<u16>, Vec<String>)>> = self
                .nodes
                .iter()
                .map(|node| {
                    let client = &mut node.client();
                    Some((served(client)?, followers(client)))
                })
                .collect();
            views[0].as_ref().is_some_and(|first| views.iter().all(|view| view.as_ref() == Some(first)))
        });
    }

    /// Whether the node with this id is connected to and from each other node. An incoming connection counts once the other node has
    /// identified itself on it.
    fn is_linked(&self, client: &mut Client, own: &str) -> bool {
        let links: Vec<HashMap<String, redis::Value>> = client.ask("CLUSTER LINKS");
        let text = |value: &redis::Value| redis::from_redis_value::<String>(value.clone()).unwrap();
        let links: HashSet<(String, String)> =
            links.iter().map(|link| (text(&link["node"]), text(&link["direction"]))).collect();
        let others = self.ids.iter().filter(|id| *id != own);
        others
            .flat_map(|id| ["to", "from"].map(|way| (id.clone(), way.into())))
            .all(|link| links.contains(&link))
    }

    pub(super) fn id(&self, node: usize) -> &str {
        &self.ids[node]
    }

    pub(super) fn client(&self, node: usize) -> Client {
        self.nodes[node].client()
    }

    /// Returns the slot of a key, the node that has it, and another node, for a move.
    pub(crate) fn way_of(&self, key: &str) -> (u16, usize, usize) {
        let slot = self.client(0).ask(&format!("CLUSTER KEYSLOT {key}"));
        let from = self.owner_of(slot);
        (slot, from, (from + 1) % 3)
    }

    /// Returns the node that serves a slot, as the first node sees it. On a busy machine, this node may miss another one for a moment.
    pub(super) fn owner_of(&self, slot: u16) -> usize {
        let mut owner = None;
        wait_for("a whole cluster", || {
            owner = self.seen_by(0, slot);
            owner.is_some()
        });
        owner.unwrap()
    }

    /// Returns the node that serves a slot, as this node sees it, or `None` if it finds the cluster broken.
    pub(super) fn seen_by(&self, node: usize, slot: u16) -> Option<usize> {
        let port = served(&mut self.client(node))?[usize::from(slot)];
        self.nodes.iter().position(|node| node.port() == port)
    }

    /// The replica of a primary.
    pub(super) fn replica_of(&self, primary: usize) -> usize {
        let port = self.nodes[primary].port().to_string();
        let follows = |node: &Server| node.client().info("replication", "master_port") == port;
        self.nodes.iter().position(follows).expect("a replica")
    }

    /// Makes a replica take over from its live primary. The replica asks for this in one message, which may be lost, and gives up after 5
    /// s: then the command is sent again, as an operator would.
    pub(super) fn promote(&self, replica: usize) {
        let mut client = self.client(replica);
        let mut asked: Option<Instant> = None;
        wait_for("the replica to take over", || {
            let done = client.info("replication", "role") == "master";
            if !done && asked.is_none_or(|at| at.elapsed() > Duration::from_secs(6)) {
                // The replica refuses the command if it has just taken over.
                client.send("CLUSTER FAILOVER").ok();
                asked = Some(Instant::now());
            }
            done
        });
    }

    /// Begins to move a slot.
    pub(crate) fn begin_move(&self, slot: u16, from: usize, to: usize) {
        self.client(to).ask::<()>(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.id(from)));
        self.client(from).ask::<()>(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.id(to)));
    }

    /// Moves one key of a slot whose move has begun.
    pub(crate) fn move_key(&self, key: &str, from: usize, to: usize) {
        let port = self.nodes[to].port().to_string();
        let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", key];
        assert_eq!(self.client(from).ask_words::<String, _>(words), "OK");
    }

    /// Ends the move of a slot, on one node after the other. A node that takes a slot gives itself a new epoch: if two nodes did so at the
    /// same time, the slot might go back.
    pub(super) fn end_move(&self, slot: u16, from: usize, to: usize) {
        for node in [to, from] {
            self.client(node).ask::<()>(&format!("CLUSTER SETSLOT {slot} NODE {}", self.id(to)));
        }
        self.wait_for_agreement();
    }

    /// Returns this many lock names whose slots are below `end`.
    pub(super) fn names_below(&self, end: u16, count: usize) -> Vec<String> {
        let mut client = self.client(0);
        let mut found = Vec::new();
        let mut next = 0..;
        while found.len() < count {
            let names: Vec<String> = next.by_ref().take(1000).map(|number| format!("lock{number}")).collect();
            let asked: Vec<String> = names.iter().map(|name| format!("CLUSTER KEYSLOT {name}")).collect();
            let slots: Vec<u16> = client.ask_all(&asked);
            found.extend(names.into_iter().zip(slots).filter(|(_, slot)| *slot < end).map(|(name, _)| name));
        }
        found.truncate(count);
        found
    }

    /// Returns this many clients of the cluster.
    pub(super) fn routes(&self, count: usize) -> Vec<ByCluster> {
        let ports: Vec<u16> = self.nodes.iter().map(Server::port).collect();
        let mut rng = Rng::new();
        (0..count)
            .map(|_| ByCluster { ports: ports.clone(), known: HashMap::new(), rng: rng.fork() })
            .collect()
    }
}

/// Returns the port that serves each slot, or `None` if a slot is not served or the node finds the cluster broken.
fn served(client: &mut Client) -> Option<Vec<u16>> {
    let state: String = client.ask("CLUSTER INFO");
    if !state.contains("cluster_state:ok") {
        return None;
    }
    let ranges: Vec<Vec<redis::Value>> = client.ask("CLUSTER SLOTS");
    let mut ports = vec![0; usize::from(SLOTS)];
    for range in ranges {
        let number = |value: &redis::Value| redis::from_redis_value::<u16>(value.clone()).unwrap();
        let primary: Vec<redis::Value> = redis::from_redis_value(range[2].clone()).unwrap();
        ports[usize::from(number(&range[0]))..=usize::from(number(&range[1]))].fill(number(&primary[1]));
    }
    (!ports.contains(&0)).then_some(ports)
}

/// Returns each replica with its primary, by their ids.
fn followers(client: &mut Client) -> Vec<String> {
    let nodes: String = client.ask("CLUSTER NODES");
    let words = nodes.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let replicas = words.filter(|words| words[2].contains("slave"));
    let mut pairs: Vec<String> = replicas.map(|words| format!("{} {}", words[0], words[3])).collect();
    pairs.sort();
    pairs
}

/// A client that asks any node, and follows redirections.
pub(super) struct ByCluster {
    ports: Vec<u16>,
    known: HashMap<String, u16>,
    rng: Rng,
}

impl Route for ByCluster {
    fn port(&mut self, key: &str) -> Option<u16> {
        Some(*self.known.entry(key.into()).or_insert_with(|| *self.rng.one_of(&self.ports)))
    }

    fn learn(&mut self, key: &str, _port: u16, outcome: &Outcome) {
        if let Some(port) = outcome.redirected("MOVED") {
            self.known.insert(key.into(), port);
        } else if matches!(outcome, Outcome::Gone | Outcome::Unreachable)
            || matches!(outcome.code(), Some("CLUSTERDOWN" | "UNBLOCKED"))
        {
            self.known.remove(key);
        }
    }
}
