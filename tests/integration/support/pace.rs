//! The machine may be busy with other work, or stand still for a moment. This measures it, so that tests do not blame the server.

use std::cell::{Cell, RefCell};
use std::fs;
use std::panic;
use std::sync::{LazyLock, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant, SystemTime};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The limit for what must happen at once, not counting time in which the machine did other work. If the server forgot it, it would happen
/// at the end of a lease, which is longer, or never.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// How late the server may be on a busy machine with scheduled work.
const LATE: Duration = Duration::from_secs(2);

/// The length of each sleep that measures the machine.
const NAP: Duration = Duration::from_millis(1);

/// A server that could not run for this long at a time may take this for a freeze.
const HALT: Duration = Duration::from_millis(500);

/// What a thread measures that sleeps again and again, like a server that waits for its turn.
struct Sleeper {
    /// By how much the thread has overslept so far.
    overslept: Duration,
    /// When its present sleep ends.
    due: Instant,
    /// When the thread returned from each sleep that it overslept by [`HALT`] or more, and by how much.
    halts: Vec<(Instant, Duration)>,
    /// When the wall clock jumped by [`HALT`] or more, in either direction, and by how much.
    jumps: Vec<(Instant, Duration)>,
}

thread_local! {
    /// When this test started its first server; `None` on other threads of the test.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };

    /// The processes of the servers that this test has started.
    static SERVERS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// One sleeper for each usable processor, because a host may take only some processors away.
static SLEEPERS: LazyLock<Vec<Mutex<Sleeper>>> = LazyLock::new(|| {
    let usable = sched_getaffinity(None).unwrap();
    let processors = (0..CpuSet::MAX_CPU).filter(|&number| usable.is_set(number));
    let sleepers = processors.enumerate().map(|(at, processor)| {
        spawn(move || sleep_on(processor, at));
        Mutex::new(Sleeper {
            overslept: Duration::ZERO,
            due: Instant::now() + NAP,
            halts: Vec::new(),
            jumps: Vec::new(),
        })
    });
    sleepers.collect()
});

fn sleep_on(processor: usize, at: usize) {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).unwrap();
    let (mut now, mut clock) = (Instant::now(), SystemTime::now());
    loop {
        sleep(NAP);
        let mut sleeper = SLEEPERS[at].lock().unwrap();
        let late = sleeper.due.elapsed();
        sleeper.overslept += late;
        let expected = clock + now.elapsed();
        (now, clock) = (Instant::now(), SystemTime::now());
        if late >= HALT {
            sleeper.halts.push((now, late));
        }
        let jump = clock.duration_since(expected).unwrap_or_else(|back| back.duration());
        if jump >= HALT {
            sleeper.jumps.push((now, jump));
        }
        sleeper.due = now + NAP;
    }
}

/// Begins to watch the machine for a test. If the test fails, this prints what the machine did meanwhile.
pub(super) fn watch() {
    static HOOK: LazyLock<()> = LazyLock::new(|| {
        let default = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            default(panic);
            tell_halts();
        }));
    });
    LazyLock::force(&SLEEPERS);
    LazyLock::force(&HOOK);
    BEGAN.set(BEGAN.get().or_else(|| Some(Instant::now())));
}

/// Adds a process to the servers of this test.
pub(super) fn watch_server(pid: u32) {
    SERVERS.with_borrow_mut(|servers| servers.push(pid));
}

/// Prints the lines for which scripts/counts looks.
fn tell_halts() {
    let Some(began) = BEGAN.get() else { return };
    for (processor, sleeper) in SLEEPERS.iter().enumerate() {
        let mut sleeper = sleeper.lock().unwrap();
        let late = sleeper.due.elapsed();
        if late >= HALT {
            sleeper.halts.push((Instant::now(), late));
        }
        for (what, events) in [("stood still for", &sleeper.halts), ("set its clock by", &sleeper.jumps)] {
            for (when, lasted) in events.iter().filter(|(when, _)| *when >= began) {
                eprintln!("this machine {what} {lasted:?} (processor {processor}), {:?} ago", when.elapsed());
            }
        }
    }
}

/// Returns for how long each processor could not run, although it had work, since the first call.
fn overslept() -> Vec<Duration> {
    let lost = |sleeper: &Mutex<Sleeper>| {
        let sleeper = sleeper.lock().unwrap();
        sleeper.overslept + sleeper.due.elapsed()
    };
    SLEEPERS.iter().map(lost).collect()
}

/// Whether a processor has stood still for half a second or more at a time in the last five seconds.
pub(crate) fn halted_lately() -> bool {
    SLEEPERS.iter().any(|sleeper| {
        let sleeper = sleeper.lock().unwrap();
        let lately = |(halt, _): &(Instant, Duration)| halt.elapsed() < Duration::from_secs(5);
        sleeper.due.elapsed() >= HALT || sleeper.halts.last().is_some_and(lately)
    })
}

/// Returns for how long this test and its servers were ready to run but had no processor: the second figure of `schedstat` (Linux,
/// Documentation/scheduler/sched-stats.rst). If many tests share a few processors, a process with much work waits much longer than one that
/// only wakes up.
fn without_processor() -> Duration {
    let waited = |path: &str| {
        let figures = fs::read_to_string(path).ok()?;
        figures.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
    };
    let servers = SERVERS.with_borrow(|servers| {
        servers.iter().filter_map(|pid| waited(&format!("/proc/{pid}/schedstat"))).sum::<Duration>()
    });
    servers + waited("/proc/thread-self/schedstat").unwrap_or_default()
}

/// Measures something that must not take long.
pub(crate) struct Stopwatch {
    began: Instant,
    overslept: Vec<Duration>,
    without_processor: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), overslept: overslept(), without_processor: without_processor() }
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns how much of the time the machine used for others: on the processor that lost most, because a server may have run there, or
    /// while this test or its servers were waiting for a processor.
    pub(crate) fn lost(&self) -> Duration {
        let each = overslept().into_iter().zip(&self.overslept).map(|(now, then)| now.saturating_sub(*then));
        let waited = without_processor().saturating_sub(self.without_processor);
        each.max().unwrap_or_default().max(waited)
    }

    /// Returns the time since the start without what the machine used for others.
    pub(crate) fn worked(&self) -> Duration {
        self.elapsed().saturating_sub(self.lost())
    }

    /// Returns by how many ms the server may be late.
    pub(crate) fn allowed(&self) -> i64 {
        (LATE + self.lost()).as_millis() as i64
    }
}
