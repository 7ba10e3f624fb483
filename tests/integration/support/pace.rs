//! How this machine gets on: it may be busy with other work, or stand still for a moment, and that is not the server's fault.

use std::sync::{LazyLock, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// What is to happen at once has happened within that time of the machine's work. A server that forgot it would come to it
/// at the end of a lease, or never.
pub(crate) const SOON: Duration = Duration::from_millis(500);

/// How long each sleep is by which the machine is measured.
const NAP: Duration = Duration::from_millis(1);

/// A thread that sleeps again and again, as a server does that waits for its turn.
struct Sleeper {
    /// By how much it has overslept so far.
    overslept: Duration,
    /// When its present sleep ends.
    due: Instant,
}

static SLEEPER: LazyLock<Mutex<Sleeper>> = LazyLock::new(|| {
    spawn(|| {
        loop {
            sleep(NAP);
            let mut sleeper = SLEEPER.lock().unwrap();
            let late = sleeper.due.elapsed();
            sleeper.overslept += late;
            sleeper.due = Instant::now() + NAP;
        }
    });
    Mutex::new(Sleeper { overslept: Duration::ZERO, due: Instant::now() + NAP })
});

/// For how long this process could have gone on and was not let, since its first question.
fn lost() -> Duration {
    let sleeper = SLEEPER.lock().unwrap();
    sleeper.overslept + sleeper.due.elapsed()
}

/// Measures what must not take long.
pub(crate) struct Stopwatch {
    began: Instant,
    lost: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), lost: lost() }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How much of it the machine had for others.
    pub(crate) fn lost(&self) -> Duration {
        lost().saturating_sub(self.lost)
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
