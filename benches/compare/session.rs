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

const LOCKS: usize = 10_000;
const CONNECTIONS: usize = 100;

/// Locks that are kept, on a server of their own.
struct Scene {
    who: &'static str,
    server: Server,
    conns: Vec<Conn>,
    /// What takes each lock, and what renews it.
    requests: Vec<[Vec<u8>; 2]>,
    /// How many have been sent, lock by lock, and how many there are to send.
    sent: usize,
    most: usize,
    /// The server's processor time with all connections open and nothing to do, for each second, in ns.
    idle_ns: f64,
    /// What it used in each of the turns in which its locks are kept.
    cpu_ns: Vec<f64>,
}

impl Scene {
    fn new(net: &mut Net, watchdog: bool, lease: &str) -> Self {
        let rival = rivals::wait(if watchdog { PUB_SUB } else { SESSION });
        let server = Server::start(rival.setup());
        let rival = rival.on(&server);
        let renew = server.script(include_str!("lua/hash_renew.lua"));
        let requests = |number| {
            let key = format!("lock:{number}");
            let renew = words(&format!("EVALSHA {renew} 1 {key} {lease} {}:1", owner(number)));
            [rival.acquire(&key, number, lease), renew]
        };
        Self {
            who: if watchdog { "watchdog, hash in Lua" } else { SESSION },
            conns: (0..CONNECTIONS).map(|_| net.connect(server.port)).collect(),
            requests: (0..LOCKS).map(requests).collect(),
            server,
            sent: 0,
            most: if watchdog { usize::MAX } else { LOCKS },
            idle_ns: 0.0,
            cpu_ns: Vec::new(),
        }
    }

    /// Sends what is due after so many periods, in each of which it is every lock's turn once: they do not all fall due at once.
    fn send_due(&mut self, net: &mut Net, periods: f64) {
        let due = (periods * LOCKS as f64) as usize;
        while self.sent < due.min(self.most) {
            let lock = self.sent % LOCKS;
            let request = &self.requests[lock][(self.sent / LOCKS).min(1)];
            net.out.send(self.conns[lock % CONNECTIONS], request);
            self.sent += 1;
        }
    }

    /// The processor time for one renewal of one lock, beyond what the server uses anyway, in µs; turn by turn.
    fn cpu_us_per_renewal(&self, turn: Duration) -> Vec<f64> {
        let renewals = LOCKS as f64 * f64::from(RENEWALS) / f64::from(TURNS);
        let beyond = |used: &f64| used - self.idle_ns * turn.as_secs_f64();
        self.cpu_ns.iter().map(|used| (beyond(used) / 1e3 / renewals).max(0.0)).collect()
    }
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    keep(plan, report);
    kill(plan, report);
}

/// What the servers of both have used, in ns.
fn used(scenes: &[Scene; 2]) -> [f64; 2] {
    scenes.each_ref().map(|scene| scene.server.cpu_ns())
}

/// Both scenes at once: their servers have little to do.
fn keep(plan: &Plan, report: &mut Report) {
    let lease = plan.ms(30_000, 3_000);
    let period = lease / RENEWALS_PER_LEASE;
    let turn = period * RENEWALS / TURNS;
    let mut net = Net::new();
    let lease = lease.as_millis().to_string();
    let mut scenes = [false, true].map(|watchdog| Scene::new(&mut net, watchdog, &lease));

    let idle = plan.ms(5_000, 2_000);
    let before = used(&scenes);
    thread::sleep(idle);
    for (scene, before) in scenes.iter_mut().zip(before) {
        scene.idle_ns = (scene.server.cpu_ns() - before) / idle.as_secs_f64();
    }

    let begin = Instant::now();
    let mut go_on_until = |scenes: &mut [Scene; 2], end: Duration| {
        while begin.elapsed() < end {
            for scene in scenes.iter_mut() {
                scene.send_due(&mut net, begin.elapsed().div_duration_f64(period));
            }
            net.turn(Duration::from_millis(1), |_, _, reply| {
                assert!(!reply.starts_with(b"*-1") && !reply.starts_with(b":0"), "a lock was lost");
            });
        }
    };
    go_on_until(&mut scenes, period);
    for number in 1..=TURNS {
        let before = used(&scenes);
        go_on_until(&mut scenes, period + turn * number);
        for (scene, before) in scenes.iter_mut().zip(before) {
            scene.cpu_ns.push(scene.server.cpu_ns() - before);
        }
        progress(&format!("  session, locks kept: {number}/{TURNS}"));
    }
    for scene in &scenes {
        let kept = scene.server.ask("DBSIZE");
        assert_eq!(kept, format!(":{LOCKS}\r\n").as_bytes(), "{}: locks were lost", scene.who);
    }
    tell(report, &scenes, turn);
}

fn tell(report: &mut Report, scenes: &[Scene; 2], turn: Duration) {
    let work = format!("keeping {LOCKS} locks, each renewed {RENEWALS} times");
    let [ours, theirs] = scenes.each_ref().map(|scene| scene.cpu_us_per_renewal(turn));
    if ours.iter().all(|ours| *ours > 0.0) {
        let ratio = ratio(&theirs, &ours, |cpu| *cpu);
        report.rows.push(Row::ratio(format!("server CPU for {work}"), scenes[1].who, ratio));
    }
    for (scene, cpu) in scenes.iter().zip([ours, theirs].map(Spread::of)) {
        // With a lease of 30 s each lock is renewed every 10 s.
        let share = cpu.median / 1e6 * LOCKS as f64 / 10.0 * 100.0;
        let sent = Spread::one((scene.sent - LOCKS) as f64);
        let figure = Figure::new(&work, scene.who, "commands sent", sent);
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
