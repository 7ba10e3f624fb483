//! What an observer is told about locks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Error;
use super::request::Request;

/// Is told what becomes of locks: give it to `Locks::observer`. Each `waiting` is followed by one `acquired` or `refused`, each `acquired`
/// by one `released` or `lost`. Each guard counts, also one that re-enters a lock.
///
/// The methods must not block: the thread or task that changes the lock calls them. A panic in them changes nothing.
#[expect(unused_variables, reason = "by default, nothing is done")]
pub trait Observer: Send + Sync + 'static {
    /// The lock is not free, and a wait begins.
    fn waiting(&self, lock: &Observed) {}

    /// The lock is held. `waited` is the time since the call.
    fn acquired(&self, lock: &Observed, waited: Duration, fence: u64) {}

    /// The acquire has ended without the lock. The outcome is `timeout`, `busy`, `cancelled`, `deadlock`, `closed` or `error`.
    fn refused(&self, lock: &Observed, waited: Duration, outcome: &'static str, error: &Error) {}

    /// The lock was released.
    fn released(&self, lock: &Observed, held: Duration) {}

    /// The lock ended before its release. The reason is one of a few texts, or the code of the server's error.
    fn lost(&self, lock: &Observed, held: Duration, reason: &str, error: &Error) {}
}

/// The lock, or the locks, of one acquire, as an [`Observer`] is told of it.
#[derive(Debug)]
pub struct Observed {
    keys: Vec<Vec<u8>>,
    mode: &'static str,
    waits: AtomicBool,
    #[cfg(feature = "opentelemetry")]
    pub(crate) context: opentelemetry::Context,
}

impl Observed {
    pub(crate) fn new(request: &Request) -> Self {
        let mode = match request {
            Request { shared: true, .. } => "shared",
            Request { limit: Some(_), .. } => "limit",
            _ => "exclusive",
        };
        Self {
            keys: request.keys.clone(),
            mode,
            waits: AtomicBool::new(false),
            #[cfg(feature = "opentelemetry")]
            context: opentelemetry::Context::current(),
        }
    }

    /// The keys, in the order in which they were named.
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// `exclusive`, `shared` or `limit`.
    pub fn mode(&self) -> &'static str {
        self.mode
    }

    /// Whether the acquire had to wait.
    pub fn waited(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Returns true at the first call only.
    pub(crate) fn begins_to_wait(&self) -> bool {
        !self.waits.swap(true, Ordering::Relaxed)
    }
}

pub(crate) enum Event {
    Waiting,
    Acquired { waited: Duration, fence: u64 },
    Refused { waited: Duration, outcome: &'static str, error: Error },
    Released { held: Duration },
    Lost { held: Duration, reason: String, error: Error },
}

impl Event {
    pub(crate) fn tell(&self, observer: &dyn Observer, lock: &Observed) {
        match self {
            Self::Waiting => observer.waiting(lock),
            Self::Acquired { waited, fence } => observer.acquired(lock, *waited, *fence),
            Self::Refused { waited, outcome, error } => observer.refused(lock, *waited, outcome, error),
            Self::Released { held } => observer.released(lock, *held),
            Self::Lost { held, reason, error } => observer.lost(lock, *held, reason, error),
        }
    }
}
