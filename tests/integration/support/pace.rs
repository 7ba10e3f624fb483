//! How this machine gets on: it may be busy with other work, or stand still for a moment, and that is not the server's fault.

use std::sync::{LazyLock, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What is to happen at once has happened within that time of the machine's work. A server that forgot it would come to it
/// at the end of a lease, or never.
pub(crate) const SOON: Duration = Duration::from_millis(500);

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
    /// When it came back from the last sleep that it overslept by [`HALT`] or more.
    halted: Option<Instant>,
}

/// One for each processor that this process may use: a host may take away one, and leave another.
static SLEEPERS: LazyLock<Vec<Mutex<Sleeper>>> = LazyLock::new(|| {
    let usable = sched_getaffinity(None).unwrap();
    let processors = (0..CpuSet::MAX_CPU).filter(|&number| usable.is_set(number));
    let sleepers = processors.enumerate().map(|(at, processor)| {
        spawn(move || sleep_on(processor, at));
        Mutex::new(Sleeper { overslept: Duration::ZERO, due: Instant::now() + NAP, halted: None })
    });
    sleepers.collect()
});

fn sleep_on(processor: usize, at: usize) {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).unwrap();
    loop {
        sleep(NAP);
        let mut sleeper = SLEEPERS[at].lock().unwrap();
        let late = sleeper.due.elapsed();
        sleeper.overslept += late;
        if late >= HALT {
            sleeper.halted = Some(Instant::now());
        }
        sleeper.due = Instant::now() + NAP;
    }
}

/// Begins to watch the machine.
pub(super) fn watch() {
    LazyLock::force(&SLEEPERS);
}

/// For how long each processor could have gone on and was not let, since the first question.
fn lost() -> Vec<Duration> {
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
        let lately = |halt: Instant| halt.elapsed() < Duration::from_secs(5);
        sleeper.due.elapsed() >= HALT || sleeper.halted.is_some_and(lately)
    })
}

/// Measures what must not take long.
pub(crate) struct Stopwatch {
    began: Instant,
    lost: Vec<Duration>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), lost: lost() }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How much of it the machine had for others, on the processor that had the most: a server may have been there.
    pub(crate) fn lost(&self) -> Duration {
        let each = lost().into_iter().zip(&self.lost).map(|(now, then)| now.saturating_sub(*then));
        each.max().unwrap_or_default()
    }

    /// How much of it the machine had for us: no more than it takes when nobody else is at work.
    pub(crate) fn worked(&self) -> Duration {
        self.elapsed().saturating_sub(self.lost())
    }

    /// By how many ms what is to happen at once may be late.
    pub(crate) fn allowed(&self) -> i64 {
        (SOON + self.lost()).as_millis() as i64
    }
}
