//! A process with the core of the Rust client as it ships: its clock, its connections and its tasks.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::super::server::Lock;
use super::core::{Acquired, Core, Granted, Id, Lane};
use super::trace::Call;
use crate::lock::{Millis, Room};

/// The time 0 of all clocks.
pub(super) static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

pub(super) fn ms(time: Millis) -> Duration {
    Duration::from_millis(time.max(0).unsigned_abs())
}

pub(super) struct Process {
    pub(super) core: Core,
    /// Its tasks share locks under the name of this process: the one that it was forked from, or itself.
    pub(super) name: usize,
    pub(super) tasks: Vec<Task>,
    pub(super) dead: bool,
    /// Whether the process's user has been deleted.
    pub(super) denied: bool,
    /// Whether the process has ever had a subscription.
    pub(super) subscribed: bool,
    pub(super) lanes: HashMap<Lane, usize>,
    /// How long the process waits before it subscribes again.
    pub(super) pause: Millis,
    /// Nothing happens in a frozen process before this time, though its clock goes on.
    pub(super) frozen: Millis,
    /// By how many millionths the process's clock is fast.
    pub(super) drift: i64,
    /// When the core's timer is due next.
    pub(super) looks: Option<Millis>,
    pub(super) recorder: Option<Recorder>,
}

/// What the core of a process has been told, for a trace.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) calls: Vec<(Millis, Call)>,
    /// The acquires and the commands that the process has begun.
    pub(super) ids: Vec<Id>,
    pub(super) sent: Vec<(u64, String)>,
}

impl Recorder {
    /// The number of an acquire.
    pub(super) fn task(&self, id: Id) -> u64 {
        1 + self.ids.iter().position(|known| *known == id).unwrap() as u64
    }
}

#[derive(Default)]
pub(super) enum Task {
    #[default]
    Idle,
    Waits {
        id: Id,
        acquired: Acquired,
        locks: Vec<Lock>,
        /// What the task asked for: the room, and whether replicas have to confirm the grant.
        room: Room,
        synced: bool,
    },
    Holds {
        id: Id,
        granted: Granted,
        locks: Vec<Lock>,
        room: Room,
        synced: bool,
    },
}

impl Process {
    pub(super) fn new(channel: String, name: usize, tasks: usize, drift: i64) -> Self {
        Self {
            name,
            core: Core::new(channel),
            tasks: (0..tasks).map(|_| Task::Idle).collect(),
            dead: false,
            denied: false,
            subscribed: false,
            lanes: HashMap::new(),
            pause: 0,
            frozen: 0,
            drift,
            looks: None,
            recorder: None,
        }
    }

    /// Returns what the process's clock shows at this time.
    pub(super) fn clock(&self, now: Millis) -> Instant {
        let nanos = i128::from(now) * (1_000_000 + i128::from(self.drift));
        *BEGIN + Duration::from_nanos(nanos as u64)
    }

    /// Returns the first millisecond in which the process's clock shows at least this.
    pub(super) fn time(&self, clock: Instant) -> Millis {
        let rate = 1_000_000 + i128::from(self.drift);
        let nanos = clock.saturating_duration_since(*BEGIN).as_nanos() as i128;
        (nanos + rate - 1).div_euclid(rate) as Millis
    }

    /// Notes what has become of the tasks' acquires. Returns the news in words, and the acquires that have ended.
    pub(super) fn look(&mut self) -> (Vec<String>, Vec<Id>) {
        let (mut told, mut ended) = (Vec::new(), Vec::new());
        for task in &mut self.tasks {
            *task = match std::mem::take(task) {
                Task::Waits { id, acquired, locks, room, synced } => {
                    match acquired.wait(Some(Duration::ZERO)) {
                        None => Task::Waits { id, acquired, locks, room, synced },
                        Some(Ok(granted)) => {
                            told.push(format!("{id} holds it with {:?}", granted.fences));
                            Task::Holds { id, granted, locks, room, synced }
                        }
                        Some(Err(why)) => {
                            told.push(format!("{id} does not get it: {why}"));
                            ended.push(id);
                            Task::Idle
                        }
                    }
                }
                Task::Holds { id, granted, locks, room, synced } => {
                    match granted.lost.wait(Some(Duration::ZERO)) {
                        None => Task::Holds { id, granted, locks, room, synced },
                        Some(why) => {
                            told.push(format!("{id} is told: {why}"));
                            ended.push(id);
                            Task::Idle
                        }
                    }
                }
                Task::Idle => Task::Idle,
            };
        }
        (told, ended)
    }
}
