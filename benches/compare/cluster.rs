//! A cluster on one machine: the processor time that a handover takes on all servers together, by the number of servers.

use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::clients::{Contestant, contest};
use crate::hosts::{Host, install};
use crate::notify::{Home, Places};
use crate::programs::{TABLES, lock, script};
use crate::report::{Figure, Report, Row};
use crate::resp::integer;
use crate::rivals::REDISLOCK;
use crate::rounds::{Plan, Rounds, Sample, ratio, spread};
use crate::server::{Server, Setup, field};
use crate::stats::Spread;
use crate::waiters::Circle;

const NODES: [usize; 3] = [3, 12, 30];
const SLOTS: usize = 16_384;
/// How many locks each node has if all nodes are busy.
const LOCKS: usize = 100;

const BLOCK: &str = "BLOCK";
const OLD: &str = "NOTIFY, SUBSCRIBE at another node";
const NEW: &str = "NOTIFY, SSUBSCRIBE";
const MANY: &str = "NOTIFY, SSUBSCRIBE, 100 locks on each node";

pub(crate) struct Cluster {
    nodes: Vec<Rc<Server>>,
    /// The processor time that the nodes use without clients, as a share of real time.
    idle: f64,
}

impl Cluster {
    fn start(count: usize) -> Self {
        let nodes: Vec<_> = (0..count).map(|_| Server::shared(Setup::NODE)).collect();
        for (number, node) in nodes.iter().enumerate() {
            let (first, next) = (number * SLOTS / count, (number + 1) * SLOTS / count);
            node.ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            node.ask(&format!("CLUSTER ADDSLOTSRANGE {first} {}", next - 1));
            for other in &nodes[..number] {
                let bus = String::from_utf8_lossy(&other.ask("CONFIG GET cluster-port")).into_owned();
                let bus = bus.lines().last().expect("a port").to_string();
                node.ask(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", other.port));
            }
        }
        let begin = Instant::now();
        let is_whole = |node: &Rc<Server>| {
            let info = node.ask("CLUSTER INFO");
            ["cluster_state", "cluster_known_nodes"].map(|name| field(&info, name))
                == ["ok".into(), count.to_string()].map(Some)
        };
        while !nodes.iter().all(is_whole) {
            assert!(begin.elapsed() < Duration::from_secs(60), "the nodes do not find each other");
            sleep(Duration::from_millis(100));
        }
        let mut cluster = Self { nodes, idle: 0.0 };
        let (begin, cpu) = (Instant::now(), cluster.cpu_ns());
        sleep(Duration::from_secs(2));
        cluster.idle = (cluster.cpu_ns() - cpu) / begin.elapsed().as_nanos() as f64;
        cluster
    }

    /// Returns the node that serves a key.
    fn of(&self, key: &str) -> usize {
        let slot = integer(&self.nodes[0].ask(&format!("CLUSTER KEYSLOT {key}"))).expect("a slot");
        (0..self.nodes.len()).rposition(|node| node * SLOTS / self.nodes.len() <= slot).expect("a node")
    }

    /// Returns a node's locks of this name, and the channel of its shard.
    fn home(&self, node: usize, name: &str) -> Home {
        let tags = (0..).map(|tag| format!("{{{tag}}}"));
        let tag = name.replace([' ', ','], "-")
            + &tags.into_iter().find(|tag| self.of(tag) == node).expect("a tag");
        let (at, how) = if name == OLD { (node + 1, "SUBSCRIBE") } else { (node, "SSUBSCRIBE") };
        let at = &self.nodes[at % self.nodes.len()];
        let channel = format!("redislock:web-7:12:{tag}");
        Home { server: Rc::clone(&self.nodes[node]), tag, hears: (Rc::clone(at), how), channel }
    }

    pub(crate) fn address(&self) -> String {
        self.nodes.iter().map(|node| node.address()).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn cpu_ns(&self) -> f64 {
        self.nodes.iter().map(|node| node.cpu_ns()).sum()
    }

    /// Returns how many pub/sub messages the nodes have sent each other.
    fn bus_messages(&self) -> f64 {
        let of = |info: &[u8], kind| field(info, &format!("cluster_stats_messages_{kind}_sent"));
        let count =
            |info: Vec<u8>| ["publish", "publishshard"].map(|kind| of(&info, kind)).into_iter().flatten();
        let all = self.nodes.iter().flat_map(|node| count(node.ask("CLUSTER INFO")).collect::<Vec<_>>());
        all.map(|text| text.parse::<f64>().expect("a number")).sum()
    }

    /// Measures a turn by the processor time of all servers. Its shares: that of the locks' own node, and the messages between nodes.
    fn measure(&self, count: usize, run: &mut dyn FnMut(usize) -> Sample) -> Sample {
        let (cpu, messages) = (self.cpu_ns(), self.bus_messages());
        let sample = run(count);
        let [cpu, messages] =
            [self.cpu_ns() - cpu, self.bus_messages() - messages].map(|all| all / count as f64);
        Sample { cpu_us: cpu / 1e3, shares: [sample.cpu_us, messages], ..sample }
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let (turns, handovers) = (plan.pick(30, 10), plan.pick(3_000, 1_000));
    let all = NODES.map(|count| {
        let cluster = Rc::new(Cluster::start(count));
        let idle = Spread::one(100.0 * cluster.idle);
        report.figures.push(Figure::new(
            format!("{count} nodes without clients"),
            REDISLOCK,
            "% of a core",
            idle,
        ));
        let start = || {
            type Run = Box<dyn FnMut(usize) -> Sample>;
            let mut circle = Circle::new(REDISLOCK, &cluster.nodes[cluster.of("lock:2")], 2);
            let [mut old, mut new] = [OLD, NEW].map(|name| Places::new(&[cluster.home(0, name)], 1, 2));
            let homes: Vec<Home> = (0..count).map(|node| cluster.home(node, MANY)).collect();
            let mut many = Places::new(&homes, LOCKS, 2);
            vec![
                (
                    BLOCK.to_string(),
                    (handovers, Box::new(move |count| circle.run(count, Duration::MAX)) as Run),
                ),
                (OLD.into(), (handovers, Box::new(move |count| old.run(count)))),
                (NEW.into(), (handovers, Box::new(move |count| new.run(count)))),
                (MANY.into(), (handovers * count, Box::new(move |count| many.run(count)))),
            ]
        };
        let work = format!("a handover, {count} nodes");
        let rounds = Rounds::play(&work, "µs", 1, 0..=turns, start, |(handovers, run)| {
            cluster.measure(*handovers, run)
        });
        report.figures.extend(rounds.figures(|samples| {
            let [own, messages] = [0, 1].map(|share| spread(samples, |sample| sample.shares[share]).median);
            format!("{own:.1} µs at the locks' own nodes; {messages:.0} messages between nodes")
        }));
        rounds
    });
    let [few, _, many] = &all;
    let cpu = |who, [dividend, divisor]: [&Rounds; 2]| {
        let [dividend, divisor] = [dividend, divisor].map(|rounds| rounds.of(who).unwrap_or_default());
        ratio(dividend, divisor, |sample| sample.cpu_us)
    };
    let work = "processor time of all servers for a handover by NOTIFY in a cluster of 30 nodes";
    report.rows.push(Row::ratio(work, "3 nodes", cpu(NEW, [many, few])).at_most(1.2));
    let work = "handovers for a second of all servers' processor time, many locks on 30 nodes";
    report.rows.push(Row::ratio(work, "3 nodes", cpu(MANY, [few, many])).at_least(0.9));
    let messages = many.of(NEW).map(|samples| spread(samples, |sample| sample.shares[1]));
    let work = "messages to other nodes for a handover by NOTIFY in a cluster of 30 nodes";
    report.rows.extend(messages.map(|count| Row::new(work, "none", "", count).at_most(0.0)));
    packages(plan, report);
}

/// Eight clients of a package use one lock. The idle use of the nodes is subtracted, because slower clients hand over less often, so more
/// of it would count for each handover.
fn packages(plan: &Plan, report: &mut Report) {
    let (turns, seconds) = (plan.pick(5, 2), plan.pick(3, 2));
    for language in TABLES.languages.iter().filter(|language| language.cluster) {
        if let Err(reason) = install(&script(&language.run)) {
            report.note(format!("cluster, {}: left out, {reason}", language.name));
            continue;
        }
        let clusters = NODES.map(|count| (count.to_string(), Host::Cluster(Cluster::start(count))));
        let start = || -> Vec<(String, Contestant<'_>)> {
            clusters
                .iter()
                .map(|(count, host)| (count.clone(), (lock("package"), host, Vec::new())))
                .collect()
        };
        let work = format!("handovers, 8 clients of the {} package, by nodes", language.name);
        let rounds = Rounds::play(&work, "per second", 1, 1..=turns, start, |contestant| {
            let mut sample = contest(language, contestant, seconds, 0).expect("a handover");
            if let Host::Cluster(cluster) = contestant.1 {
                sample.cpu_us -= cluster.idle * 1e6 / sample.value;
            }
            sample
        });
        report.figures.extend(rounds.figures(|_| "without what idle nodes use".into()));
        if let [few, _, many] = &rounds.all[..] {
            let work =
                format!("processor time of all servers for a handover, {} package, 30 nodes", language.name);
            let more = ratio(&many.1, &few.1, |sample| sample.cpu_us);
            report.rows.push(Row::ratio(work, "3 nodes", more).at_most(1.2));
        }
    }
}
