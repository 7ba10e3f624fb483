//! How this machine gets on: it may be busy with other work, or stand still for a moment, and that is not the server's fault.

use std::cell::{Cell, RefCell};
use std::fs;
use std::panic;
use std::sync::{LazyLock, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant, SystemTime};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What is to happen at once has happened within that time of the machine's work, even of a busy machine. A server that forgot it
/// would come to it at the end of a lease, which is longer, or never.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// How late the server may be on a busy machine with what it does at a time of its own.
const LATE: Duration = Duration::from_secs(2);

/// How long each sleep is by which the machine is measured.
const NAP: Duration = Duration::from_millis(1);

/// A server that was not let go on for so long at a time may take that for a freeze.
const HALT: Duration = Duration::from_millis(500);

/// What a thread tells that sleeps again and again, as a server does that waits for its turn.
struct Sleeper {
    /// By how much it has overslept so far.
    overslept: Duration,
    /// When its present sleep ends.
    due: Instant,
    /// When it came back from each sleep that it overslept by [`HALT`] or more, and by how much.
    halts: Vec<(Instant, Duration)>,
    /// When the wall clock jumped by [`HALT`] or more, forward or back, and by how much.
    jumps: Vec<(Instant, Duration)>,
}

thread_local! {
    /// When this test started its first server; none on other threads that a test starts.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };

    /// The processes of the servers that this test has started.
    static SERVERS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// One for each processor that this process may use: a host may take away one, and leave another.
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

/// Begins to watch the machine for a test, which tells what the machine did meanwhile if it fails.
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

/// That process is a server of this test.
pub(super) fn watch_server(pid: u32) {
    SERVERS.with_borrow_mut(|servers| servers.push(pid));
}

/// scripts/counts looks for these lines.
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

/// For how long each processor could have gone on and was not let, since the first question.
fn overslept() -> Vec<Duration> {
    let lost = |sleeper: &Mutex<Sleeper>| {
        let sleeper = sleeper.lock().unwrap();
        sleeper.overslept + sleeper.due.elapsed()
    };
    SLEEPERS.iter().map(lost).collect()
}

/// Whether a processor has stood still for half a second or more at a time, in the last five seconds.
pub(crate) fn halted_lately() -> bool {
    SLEEPERS.iter().any(|sleeper| {
        let sleeper = sleeper.lock().unwrap();
        let lately = |(halt, _): &(Instant, Duration)| halt.elapsed() < Duration::from_secs(5);
        sleeper.due.elapsed() >= HALT || sleeper.halts.last().is_some_and(lately)
    })
}

/// For how long the servers of this test, and the test itself, could have gone on and had no processor, since they began: the second
/// figure of `schedstat` (Linux, Documentation/scheduler/sched-stats.rst). Where many tests share a few processors, one that has work to
/// do waits much longer than one that only wakes up.
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

/// Measures what must not take long.
pub(crate) struct Stopwatch {
    began: Instant,
    overslept: Vec<Duration>,
    without_processor: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), overslept: overslept(), without_processor: without_processor() }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How much of it the machine had for others: on the processor that had the most, since a server may have been there, or while this
    /// test or a server of its own had work to do.
    pub(crate) fn lost(&self) -> Duration {
        let each = overslept().into_iter().zip(&self.overslept).map(|(now, then)| now.saturating_sub(*then));
        let waited = without_processor().saturating_sub(self.without_processor);
        each.max().unwrap_or_default().max(waited)
    }

    /// The time since then without what the machine spent on others.
    pub(crate) fn worked(&self) -> Duration {
        self.elapsed().saturating_sub(self.lost())
    }

    /// By how many ms the server may be late.
    pub(crate) fn allowed(&self) -> i64 {
        (LATE + self.lost()).as_millis() as i64
    }
}
