//! What it costs to keep locks for as long as a client lives: sessions, beside a client library's watchdog that renews
//! each lease by a script; and how soon the locks of a client that dies are another's.

use std::thread;
use std::time::{Duration, Instant};

use crate::net::{Conn, Net};
use crate::report::{Figure, Report, Row};
use crate::resp::{owner, words};
use crate::rivals::{self, PUB_SUB, SESSION};
use crate::rounds::{Plan, percentiles, progress, ratio};
use crate::server::{Server, Setup};
use crate::stats::{Spread, sorted};

/// Both renew a lease when a third of it has gone by.
const RENEWALS_PER_LEASE: u32 = 3;
/// How often each lock is renewed while it is watched.
const RENEWALS: u32 = 6;
const TURNS: u32 = 3;

/// Whose locks: how many, and on how many connections.
const SCENES: [(bool, usize, usize); 4] =
    [(false, 10_000, 100), (true, 10_000, 100), (false, 100, 10), (true, 100, 10)];

/// Locks that are kept, on a server of their own.
struct Scene {
    who: &'static str,
    server: Server,
    locks: Vec<Lock>,
    watchdog: bool,
    /// The server's processor time with all connections open and nothing to do, for each second, in ns.
    idle_ns: f64,
    /// What it used in each of the turns in which its locks are kept.
    cpu_ns: Vec<f64>,
}

struct Lock {
    conn: Conn,
    /// What takes it, and what renews it.
    requests: [Vec<u8>; 2],
    sent: usize,
    /// When the next one is to be sent.
    due: Option<Instant>,
}

impl Scene {
    fn new(net: &mut Net, watchdog: bool, locks: usize, connections: usize, lease: &str) -> Self {
        let rival = rivals::wait(if watchdog { PUB_SUB } else { SESSION });
        let server = Server::start(rival.setup());
        let rival = rival.on(&server);
        let renew = server.script(include_str!("lua/hash_renew.lua"));
        let conns: Vec<Conn> = (0..connections).map(|_| net.connect(server.port)).collect();
        let lock = |number| {
            let key = format!("lock:{number}");
            let renew = words(&format!("EVALSHA {renew} 1 {key} {lease} {}:1", owner(number)));
            let requests = [rival.acquire(&key, number, lease), renew];
            Lock { conn: conns[number % connections], requests, sent: 0, due: None }
        };
        Self {
            who: if watchdog { "watchdog, hash in Lua" } else { SESSION },
            locks: (0..locks).map(lock).collect(),
            server,
            watchdog,
            idle_ns: 0.0,
            cpu_ns: Vec::new(),
        }
    }

    fn send_due(&mut self, net: &mut Net, now: Instant, period: Duration) {
        for lock in &mut self.locks {
            let Some(due) = lock.due.filter(|due| *due <= now) else { continue };
            net.out.send(lock.conn, &lock.requests[lock.sent.min(1)]);
            lock.sent += 1;
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

/// What the servers of all have used, in ns.
fn used(scenes: &[Scene; 4]) -> [f64; 4] {
    scenes.each_ref().map(|scene| scene.server.cpu_ns())
}

/// All scenes at once: their servers have little to do.
fn keep(plan: &Plan, report: &mut Report) {
    let lease = plan.ms(30_000, 3_000);
    let period = lease / RENEWALS_PER_LEASE;
    let length = period * RENEWALS;
    let mut net = Net::new();
    let lease = lease.as_millis().to_string();
    let mut scenes = SCENES
        .map(|(watchdog, locks, connections)| Scene::new(&mut net, watchdog, locks, connections, &lease));

    let idle = plan.ms(5_000, 2_000);
    let before = used(&scenes);
    thread::sleep(idle);
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
    for lock in scenes.iter_mut().flat_map(|scene| &mut scene.locks) {
        lock.sent = lock.sent.min(1);
    }
    for turn in 1..=TURNS {
        let before = used(&scenes);
        go_on_for(&mut scenes, begin + period + length / TURNS * turn);
        for (scene, before) in scenes.iter_mut().zip(before) {
            scene.cpu_ns.push(scene.server.cpu_ns() - before);
        }
        progress(&format!("  session, locks kept: {turn}/{TURNS}"));
    }
    for scene in &scenes {
        let (kept, all) = (scene.server.ask("DBSIZE"), format!(":{}\r\n", scene.locks.len()));
        assert_eq!(kept, all.as_bytes(), "{}: locks were lost", scene.who);
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
        let ratio = ratio(&theirs, &ours, |cpu| *cpu);
        report.rows.push(Row::ratio(format!("server CPU for {work}"), scenes[1].who, ratio));
    }
    for (scene, cpu) in scenes.iter().zip([ours, theirs].map(Spread::of)) {
        // With a lease of 30 s each lock is renewed every 10 s.
        let share = cpu.median / 1e6 * count as f64 / 10.0 * 100.0;
        let sent: usize = scene.locks.iter().map(|lock| lock.sent.saturating_sub(1)).sum();
        let figure = Figure::new(&work, scene.who, "commands sent", Spread::one(sent as f64));
        report.figures.push(figure.cpu(cpu).remark(format!("{share:.2} % of a core with leases of 30 s")));
    }
}

/// A client that holds 1,000 locks in sessions, each of which somebody waits for, goes away.
fn kill(plan: &Plan, report: &mut Report) {
    const LOCKS: usize = 1_000;
    let (mut all, mut each) = (Vec::new(), Vec::new());
    for _ in 0..plan.pick(7, 3) {
        let server = Server::start(Setup::MODULE);
        let mut net = Net::with(1 + LOCKS, server.port);
        net.fill(1, LOCKS, "LOCK.ACQUIRE lock:{number} OWNER {owner} PX 600000 SESSION", b"*4\r\n");
        net.block(1, LOCKS, "LOCK.ACQUIRE lock:{number} OWNER {owner2} PX 600000 BLOCK 0");
        net.wait_until(|| server.blocked_clients() >= LOCKS);
        let begin = Instant::now();
        net.close(0);
        net.replies(LOCKS, |_, _| each.push(begin.elapsed().as_secs_f64() * 1e3));
        all.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let [half, most, _] = percentiles(&sorted(each));
    let work = "a client with 1,000 session locks dies, each lock waited for";
    let figure = Figure::new(work, SESSION, "ms until all have a new holder", Spread::of(all));
    report.figures.push(figure.remark(format!("one lock: p50 {half:.2} ms, p99 {most:.2} ms")));
}
