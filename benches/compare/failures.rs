//! How long it takes until the next holder has the lock if a process fails. Each holder and waiter is a process.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

use crate::hosts::{Host, Kind};
use crate::programs::{Lock, Program, TABLES, hosted};
use crate::report::{Report, table};
use crate::rounds::{Plan, progress};
use crate::stats::Spread;

/// What happens to the users of a lock. At the end, one process is still waiting.
const EVENTS: [&str; 3] = ["the holder is killed", "the holder is stopped", "the first waiter is killed"];
/// The longest wait that is observed.
const LIMIT: Duration = Duration::from_secs(35);

// The indexes of `EVENTS`.
const HOLDER_KILLED: usize = 0;
const HOLDER_STOPPED: usize = 1;
const WAITER_KILLED: usize = 2;

/// After this time, a process that was told to acquire is waiting in the server.
const SETTLED: Duration = Duration::from_secs(1);
/// Trials begin this far apart, so that they do not disturb each other at the event.
const APART: Duration = Duration::from_millis(200);

/// An event, and the processes of its lock: the holder, and the waiters in the order in which they ask.
struct Trial {
    event: usize,
    processes: Vec<Program>,
}

impl Trial {
    fn prepare(run: &str, lock: &Lock, host: &Host, event: usize) -> Self {
        let key = format!("trial-{event}");
        let count = if event == WAITER_KILLED { 3 } else { 2 };
        let start = |_| Program::start(run, "hold", host, lock, &key);
        let mut processes: Vec<Program> = (0..count).map(start).collect();
        processes.iter_mut().for_each(Program::wait_until_ready);
        Self { event, processes }
    }

    /// Returns how long the last process waited, in ms.
    fn run(mut self) -> Option<f64> {
        let [holder, waiters @ ..] = &mut self.processes[..] else { panic!("no processes") };
        holder.tell("acquire");
        holder.hear(LIMIT).expect("a lock that nobody holds");
        for waiter in &mut *waiters {
            waiter.tell("acquire");
            thread::sleep(SETTLED);
        }
        let mut from = now_ns();
        match self.event {
            HOLDER_KILLED => holder.signal(Signal::KILL),
            HOLDER_STOPPED => holder.signal(Signal::STOP),
            _ => {
                waiters[0].signal(Signal::KILL);
                thread::sleep(SETTLED);
                holder.tell("release");
                from = time(&holder.hear(LIMIT).expect("the time of the release"));
            }
        }
        let granted = waiters.last_mut().expect("a waiter").hear(LIMIT)?;
        Some((time(&granted) - from) / 1e6)
    }
}

fn time(line: &str) -> f64 {
    line.parse().unwrap_or_else(|_| panic!("no time: {line}"))
}

/// Reads the clock that all processes read.
fn now_ns() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let (mut hosts, mut names, mut trials) = (Vec::new(), Vec::new(), Vec::new());
    for language in TABLES.languages.iter().filter(|language| language.fails) {
        let client = &language.client;
        let locks = ["raw", "session"].into_iter().chain(language.peers.iter().map(String::as_str));
        for (lock, host) in hosted(plan, report, &language.run, &format!("failures, {client}"), locks) {
            trials.extend((0..EVENTS.len()).map(|event| Trial::prepare(&language.run, lock, &host, event)));
            let ours = lock.host == Kind::Module;
            names.push(if ours { format!("{}: {}", language.name, lock.name) } else { lock.name.clone() });
            hosts.push(host);
        }
        progress(&format!("  failures, {client}: ready"));
    }
    let running: Vec<_> = trials
        .into_iter()
        .map(|trial| {
            thread::sleep(APART);
            thread::spawn(|| trial.run())
        })
        .collect();
    let waits: Vec<_> = running.into_iter().map(|trial| trial.join().expect("a trial's end")).collect();
    let cell = |wait: &Option<f64>| match wait {
        Some(ms) => format!("{} ms", Spread::one(*ms)),
        None => format!("over {} s", LIMIT.as_secs()),
    };
    let waits = waits.chunks(EVENTS.len()).map(|waits| waits.iter().map(cell));
    let rows = names.into_iter().zip(waits).map(|(who, waits)| [who].into_iter().chain(waits).collect());
    report.more = table(&[&["lock"], &EVENTS[..]].concat(), rows);
}
