//! Grants that replicas confirm: `SYNC`, beside `WAIT` sent by the client, and beside a pair that nobody confirms; on one machine
//! with one replica and with two. Through clients, beside Redisson, which has each lock confirmed by default.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::hosts::Kind;
use crate::mixes::{self, Mix, Served};
use crate::plan::{Plan, order, progress};
use crate::programs::{JAVA, Lock};
use crate::report::{Bound, Figure, Report, Row};
use crate::resp::{self, owner, words};
use crate::rivals::LEASE;
use crate::server::{Server, Setup};
use crate::stats::{Spread, percentile, sorted};

const SYNC: &str = "LOCK.ACQUIRE ... SYNC + LOCK.RELEASE";
const WAIT: &str = "LOCK.ACQUIRE, WAIT + LOCK.RELEASE";
const NOBODY: &str = "LOCK.ACQUIRE + LOCK.RELEASE";

/// The longest that one client may wait for a grant on a machine with its replica: the median, in ms.
const MOST_MS: f64 = 2.0;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    for replicas in [1, 2] {
        for clients in [1, 16] {
            pairs(plan, report, replicas, clients);
        }
    }
    mixes::run(plan, report, &MIXES, plan.pick(5, 2));
}

/// What one of several clients sends for its lock: what takes it, in how many commands, and what gives it back.
struct Pair {
    take: Vec<u8>,
    replies: usize,
    give_back: Vec<u8>,
}

fn pair(who: &str, client: usize, replicas: usize) -> Pair {
    let (key, owner) = (format!("lock:{client}"), owner(client));
    let acquire = format!("LOCK.ACQUIRE {key} OWNER {owner} PX {LEASE}");
    let (take, replies) = match who {
        SYNC => (words(&format!("{acquire} SYNC {replicas} 1000")), 1),
        // In one go: the client need not wait for the first reply.
        WAIT => ([words(&acquire), words(&format!("WAIT {replicas} 1000"))].concat(), 2),
        _ => (words(&acquire), 1),
    };
    Pair { take, replies, give_back: words(&format!("LOCK.RELEASE {key} {owner}")) }
}

/// How long each grant took to be told, in ms, in so long a time; by clients that do nothing else, each in a thread.
fn contest(port: u16, who: &str, clients: usize, replicas: usize, length: Duration) -> Vec<f64> {
    let threads: Vec<_> = (0..clients)
        .map(|client| {
            let pair = pair(who, client, replicas);
            thread::spawn(move || {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
                stream.set_nodelay(true).expect("a socket's option");
                let (begin, mut took) = (Instant::now(), Vec::new());
                while begin.elapsed() < length {
                    let sent = Instant::now();
                    let reply = ask(&mut stream, &pair.take, pair.replies);
                    took.push(sent.elapsed().as_secs_f64() * 1e3);
                    assert!(reply.starts_with(b"*4"), "no grant: {}", reply.escape_ascii());
                    ask(&mut stream, &pair.give_back, 1);
                }
                took
            })
        })
        .collect();
    threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
}

fn ask(stream: &mut TcpStream, request: &[u8], replies: usize) -> Vec<u8> {
    stream.write_all(request).expect("a request that goes out");
    let (mut all, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        let count = stream.read(&mut buffer).expect("a reply");
        assert!(count > 0, "the server closed the connection");
        all.extend_from_slice(&buffer[..count]);
        let (mut at, mut came) = (0, 0);
        while let Some(len) = resp::reply_len(&all[at..]).filter(|_| at < all.len()) {
            (at, came) = (at + len, came + 1);
        }
        if came == replies {
            return all;
        }
    }
}

fn pairs(plan: &Plan, report: &mut Report, replicas: usize, clients: usize) {
    let plural =
        |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    let work = format!("acquire + release, {}, {}", plural(replicas, "replica"), plural(clients, "client"));
    let (rounds, length) = (plan.pick(10, 4), plan.ms(500, 250));
    let mut server = Server::start(Setup::MODULE);
    let _replicas: Vec<Server> = (0..replicas).map(|_| server.replica(Setup::MODULE)).collect();
    let mut samples = [SYNC, WAIT, NOBODY].map(|who| (who, Vec::new(), Vec::new()));
    for round in 0..=rounds {
        for place in order(samples.len(), round) {
            let (who, rates, all) = &mut samples[place];
            let took = contest(server.port, who, clients, replicas, length);
            // The first round warms up.
            if round > 0 {
                rates.push(took.len() as f64 / length.as_secs_f64());
                all.extend(took);
            }
        }
    }
    progress(&format!("  {work}"));
    for (who, rates, all) in &samples {
        let all = sorted(all.iter().copied());
        let median = percentile(&all, 50.0);
        let remark = format!("told after {median:.2} ms, p99 {:.2} ms", percentile(&all, 99.0));
        let value = Spread::of(rates.iter().copied());
        let (work, unit) = (work.clone(), "per second".into());
        report.figure(Figure { work, who: (*who).into(), unit, value, cpu_us: None, remark });
        if *who == SYNC && clients == 1 {
            let work = format!("until a grant is told, {}", plural(replicas, "replica"));
            let bound = (replicas == 1).then_some(Bound::AtMost(MOST_MS));
            let (unit, value) = (" ms".into(), Spread::one(median));
            report.row(Row { work, beside: "on the same machine".into(), bound, unit, value, cpu: None });
        }
    }
    let [(_, ours, _), others @ ..] = &samples;
    for (who, rates, _) in others {
        let ratios = ours.iter().zip(rates).map(|(ours, theirs)| ours / theirs);
        let (work, beside, unit) = (work.clone(), (*who).into(), "x".into());
        report.row(Row { work, beside, bound: None, unit, value: Spread::of(ratios), cpu: None });
    }
}

const MIXES: [Mix; 1] = [Mix {
    run: JAVA,
    mode: "alone",
    who: Cow::Borrowed("8 clients with a lock each of their own, confirmed by a replica with Jedis"),
    served: Served::Alone,
    ours: Lock { who: "sync", name: "LOCK.ACQUIRE ... BLOCK 0 SYNC 1 1000", host: Kind::ModulePair },
    peers: &[Lock { who: "synced", name: "Redisson's RLock, checkLockSyncedSlaves", host: Kind::PlainPair }],
}];
