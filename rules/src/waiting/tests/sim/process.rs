//! A process with the shipped core of the Rust client: its clock, its connections and its tasks.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::super::server::Lock;
use super::core::{Acquired, Core, Granted, Id, Lane};
use super::trace::Call;
use crate::lock::{Millis, Room};

/// The moment from which all clocks count.
pub(super) static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

pub(super) fn ms(time: Millis) -> Duration {
    Duration::from_millis(time.max(0).unsigned_abs())
}

pub(super) struct Process {
    pub(super) core: Core,
    pub(super) tasks: Vec<Task>,
    pub(super) dead: bool,
    /// Its user has been deleted.
    pub(super) denied: bool,
    /// Whether it ever had a subscription.
    pub(super) subscribed: bool,
    pub(super) lanes: HashMap<Lane, usize>,
    /// The pause before the next subscription.
    pub(super) pause: Millis,
    /// Nothing happens in a frozen process before this time, though its clock goes on.
    pub(super) frozen: Millis,
    /// By how many millionths its clock is fast.
    pub(super) drift: i64,
    /// When its clock looks next.
    pub(super) looks: Option<Millis>,
    pub(super) recorder: Option<Recorder>,
}

/// What a process has been told, for a trace.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) calls: Vec<(Millis, Call)>,
    /// The acquires and the commands that it has begun.
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
        /// What it asked for: for how many there is room, and whether replicas have to confirm it.
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
    pub(super) fn new(channel: String, tasks: usize, drift: i64) -> Self {
        Self {
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

    /// What its clock shows at this time.
    pub(super) fn clock(&self, now: Millis) -> Instant {
        let nanos = i128::from(now) * (1_000_000 + i128::from(self.drift));
        *BEGIN + Duration::from_nanos(nanos as u64)
    }

    /// The first millisecond in which its clock shows this or more.
    pub(super) fn time(&self, clock: Instant) -> Millis {
        let rate = 1_000_000 + i128::from(self.drift);
        let nanos = clock.saturating_duration_since(*BEGIN).as_nanos() as i128;
        (nanos + rate - 1).div_euclid(rate) as Millis
    }

    /// Takes note of what has become of the tasks' acquires. Returns what is new, in words, and the acquires that have ended.
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
