//! What it costs to keep locks for as long as a client lives: sessions, beside a client library's watchdog that renews
//! each lease by a script; and how soon the locks of a client that dies are another's.

use std::time::{Duration, Instant};

use crate::net::{Conn, Net};
use crate::plan::{Plan, progress};
use crate::report::{Figure, Report, Row};
use crate::resp::{owner, words};
use crate::rivals::{Rival, Scripts};
use crate::server::{Server, Setup};
use crate::stats::{Spread, percentile, sorted};

/// Both renew a lease when a third of it has gone by.
const RENEWALS_PER_LEASE: u32 = 3;
/// How often each lock is renewed while it is watched.
const RENEWALS: u32 = 6;
/// In how many turns.
const TURNS: u32 = 3;

/// Locks that are kept, on a server of their own.
struct Scene {
    who: &'static str,
    server: Server,
    locks: Vec<Lock>,
    /// Whether the client has to renew.
    watchdog: bool,
    /// The server's processor time with all connections open and nothing to do, for each second, in ns.
    idle_ns: f64,
    /// What it used in each of the turns in which its locks are kept.
    cpu_ns: Vec<f64>,
    commands: usize,
}

struct Lock {
    conn: Conn,
    acquire: Vec<u8>,
    renew: Vec<u8>,
    /// What is to be sent next, and when.
    due: Option<Instant>,
    taken: bool,
}

impl Scene {
    fn new(net: &mut Net, watchdog: bool, locks: usize, connections: usize, lease: &str) -> Self {
        let mut server = Server::start(if watchdog { Setup::PLAIN } else { Setup::MODULE });
        let scripts = Scripts::load(&mut server);
        let conns: Vec<Conn> = (0..connections).map(|_| net.connect(server.port)).collect();
        let lock = |number| {
            let (key, owner) = (format!("lock:{number}"), owner(number));
            let acquire = if watchdog {
                scripts.acquire(Rival::HashLua, &key, &owner, lease)
            } else {
                words(&format!("LOCK.ACQUIRE {key} OWNER {owner} PX {lease} SESSION"))
            };
            let renew = scripts.renew_hash(&key, &owner, lease);
            Lock { conn: conns[number % connections], acquire, renew, due: None, taken: false }
        };
        Self {
            who: if watchdog { "watchdog, hash in Lua" } else { "Redislock, SESSION" },
            locks: (0..locks).map(lock).collect(),
            server,
            watchdog,
            idle_ns: 0.0,
            cpu_ns: Vec::new(),
            commands: 0,
        }
    }

    /// Sends what is due.
    fn send_due(&mut self, net: &mut Net, now: Instant, period: Duration) {
        for lock in &mut self.locks {
            let Some(due) = lock.due.filter(|due| *due <= now) else { continue };
            net.out.send(lock.conn, if lock.taken { &lock.renew } else { &lock.acquire });
            self.commands += usize::from(lock.taken);
            lock.taken = true;
            lock.due = self.watchdog.then(|| due + period);
        }
    }

    /// The processor time for one renewal of one lock, beyond what the server uses anyway, in µs; turn by turn.
    fn cpu_us_per_renewal(&self, turn: Duration) -> Vec<f64> {
        let renewals = self.locks.len() as f64 * f64::from(RENEWALS) / f64::from(TURNS);
        let beyond = |used: &f64| used - self.idle_ns * turn.as_secs_f64();
        self.cpu_ns.iter().map(|used| (beyond(used) / 1e3 / renewals).max(0.0)).collect()
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    keep(plan, report);
    kill(plan, report);
}

/// All scenes at once: their servers have little to do.
fn keep(plan: &Plan, report: &mut Report) {
    let lease = plan.ms(30_000, 3_000);
    let period = lease / RENEWALS_PER_LEASE;
    let length = period * RENEWALS;
    let mut net = Net::new();
    let lease = lease.as_millis().to_string();
    let mut scenes = [(false, 10_000, 100), (true, 10_000, 100), (false, 100, 10), (true, 100, 10)]
        .map(|(watchdog, locks, connections)| Scene::new(&mut net, watchdog, locks, connections, &lease));

    let idle = plan.ms(5_000, 2_000);
    let before = scenes.each_mut().map(|scene| scene.server.cpu_ns());
    std::thread::sleep(idle);
    for (scene, before) in scenes.iter_mut().zip(before) {
        scene.idle_ns = (scene.server.cpu_ns() - before) / idle.as_secs_f64();
    }

    // Taken one after the other, so that they do not all fall due at once.
    let begin = Instant::now();
    for scene in &mut scenes {
        let step = period / scene.locks.len() as u32;
        for (number, lock) in (0..).zip(&mut scene.locks) {
            lock.due = Some(begin + step * number);
        }
    }
    let mut go_on_for = |scenes: &mut [Scene; 4], until: Instant| {
        while Instant::now() < until {
            for scene in scenes.iter_mut() {
                scene.send_due(&mut net, Instant::now(), period);
            }
            net.turn(Duration::from_millis(1), |_, _, reply| {
                assert!(!reply.starts_with(b"*-1") && !reply.starts_with(b":0"), "a lock was lost");
            });
        }
    };
    go_on_for(&mut scenes, begin + period);
    for scene in &mut scenes {
        scene.commands = 0;
    }
    for turn in 1..=TURNS {
        let before = scenes.each_mut().map(|scene| scene.server.cpu_ns());
        go_on_for(&mut scenes, begin + period + length / TURNS * turn);
        for (scene, before) in scenes.iter_mut().zip(before) {
            let used = scene.server.cpu_ns() - before;
            scene.cpu_ns.push(used);
        }
        progress(&format!("  session, locks kept: {turn}/{TURNS}"));
    }
    for scene in &mut scenes {
        let kept = scene.server.ask("DBSIZE");
        assert_eq!(
            kept,
            format!(":{}\r\n", scene.locks.len()).into_bytes(),
            "{}: locks were lost",
            scene.who
        );
    }
    for pair in scenes.chunks_exact(2) {
        tell(report, pair, length / TURNS);
    }
}

fn tell(report: &mut Report, scenes: &[Scene], turn: Duration) {
    let count = scenes[0].locks.len();
    let work = format!("keeping {count} locks, each renewed {RENEWALS} times");
    let [ours, theirs] = [0, 1].map(|place| scenes[place].cpu_us_per_renewal(turn));
    // A hundred locks cost too little to be told from what a server does anyway.
    if count > 100 && ours.iter().all(|ours| *ours > 0.0) {
        report.row(Row {
            work: format!("server CPU for {work}"),
            beside: scenes[1].who.into(),
            bound: None,
            unit: "x".into(),
            value: Spread::of(theirs.iter().zip(&ours).map(|(theirs, ours)| theirs / ours)),
            cpu: None,
        });
    }
    for (scene, cpu) in scenes.iter().zip([ours, theirs].map(Spread::of)) {
        // With a lease of 30 s each lock is renewed every 10 s.
        let share = cpu.median / 1e6 * count as f64 / 10.0 * 100.0;
        report.figure(Figure {
            work: work.clone(),
            who: scene.who.into(),
            unit: "commands sent".into(),
            value: Spread::one(scene.commands as f64),
            cpu_us: Some(cpu),
            remark: format!("{share:.2} % of a core with leases of 30 s"),
        });
    }
}

/// A client that holds 1,000 locks in sessions, each of which somebody waits for, goes away.
fn kill(plan: &Plan, report: &mut Report) {
    const LOCKS: usize = 1_000;
    let (mut all, mut each) = (Vec::new(), Vec::new());
    for _ in 0..plan.pick(7, 3) {
        let mut server = Server::start(Setup::MODULE);
        let mut net = Net::with(1 + LOCKS, server.port);
        for number in 0..LOCKS {
            let owner = owner(number);
            net.out.send(0, &words(&format!("LOCK.ACQUIRE lock:{number} OWNER {owner} PX 600000 SESSION")));
        }
        net.replies(LOCKS, |_, _| ());
        for number in 0..LOCKS {
            let owner = owner(LOCKS + number);
            net.out.send(
                1 + number,
                &words(&format!("LOCK.ACQUIRE lock:{number} OWNER {owner} PX 600000 BLOCK 0")),
            );
        }
        while server.blocked_clients() < LOCKS {
            net.turn(Duration::from_millis(5), |_, conn, _| panic!("client {conn} does not wait"));
        }
        let begin = Instant::now();
        net.close(0);
        net.replies(LOCKS, |_, _| each.push(begin.elapsed().as_secs_f64() * 1e3));
        all.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let each = sorted(each);
    report.figure(Figure {
        work: "a client with 1,000 session locks dies, each lock waited for".into(),
        who: "Redislock, SESSION".into(),
        unit: "ms until all have a new holder".into(),
        value: Spread::of(all),
        cpu_us: None,
        remark: format!(
            "one lock: p50 {:.2} ms, p99 {:.2} ms",
            percentile(&each, 50.0),
            percentile(&each, 99.0)
        ),
    });
}
