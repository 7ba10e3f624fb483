//! The commands for the server.

use std::sync::Arc;
use std::time::Duration;

use super::{Error, Observed};
use redis::{Cmd, cmd};

/// A request for one lock or several. Bad input is refused here, before anything is sent.
#[derive(Clone, Default)]
pub(crate) struct Request {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) owner: Vec<u8>,
    pub(crate) named: bool,
    pub(crate) kept: bool,
    pub(crate) session: bool,
    pub(crate) sync: Option<(u32, Duration)>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) shared: bool,
    pub(crate) limit: Option<u32>,
    pub(crate) slot: Option<u32>,
    pub(crate) detect: bool,
    pub(crate) label: Option<Vec<u8>>,
    /// The description for an observer, if there is one.
    pub(crate) observed: Option<Arc<Observed>>,
}

/// The time in whole milliseconds, rounded up, and at least one.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

pub(crate) fn at_least_a_millisecond(name: &str, time: Option<Duration>) -> Result<(), Error> {
    match time {
        Some(time) if time < Duration::from_millis(1) => {
            Err(Error::Invalid(format!("{name} must be at least 1 ms: {time:?}")))
        }
        _ => Ok(()),
    }
}

impl Request {
    /// `owner` must be a name that nobody else uses.
    pub(crate) fn new(keys: Vec<Vec<u8>>, owner: Vec<u8>) -> Self {
        Self { keys, owner, kept: true, ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::Invalid(why));
        if self.keys.is_empty() {
            return refuse("a lock needs a key".to_string());
        }
        if let Some(key) = self
            .keys
            .iter()
            .enumerate()
            .find_map(|(at, key)| self.keys.iter().skip(at + 1).find(|other| *other == key))
        {
            return refuse(format!("the key {:?} is named twice", String::from_utf8_lossy(key)));
        }
        if self.shared && self.limit.is_some() {
            return refuse("`shared` and `limit` exclude each other".to_string());
        }
        if self.limit == Some(0) {
            return refuse("a limit must be at least 1".to_string());
        }
        if self.slot.is_some_and(|slot| !(1..=self.limit.unwrap_or(0)).contains(&slot)) {
            return refuse("a slot must be one of the numbers from 1 to the limit".to_string());
        }
        if !(1..=128).contains(&self.owner.len()) {
            return refuse(format!("an owner must be 1 to 128 bytes long: {}", self.owner.len()));
        }
        if self.sync.is_some_and(|(replicas, _)| replicas == 0) {
            return refuse("a number of replicas must be at least 1".to_string());
        }
        at_least_a_millisecond("a lease", self.lease)?;
        at_least_a_millisecond("a maximum age", self.max_hold)?;
        at_least_a_millisecond("the time of `sync`", self.sync.map(|(_, time)| time))
    }

    /// The names of the locks, for errors.
    pub(crate) fn locks(&self) -> String {
        self.keys.iter().map(|key| String::from_utf8_lossy(key)).collect::<Vec<_>>().join(", ")
    }

    fn command(&self, verb: &str) -> Cmd {
        match self.keys.as_slice() {
            [key] => cmd(&format!("LOCK.{verb}")).arg(key).take(),
            keys => cmd(&format!("LOCK.M{verb}")).arg(keys.len()).arg(keys).take(),
        }
    }

    /// Whether the work can begin at the `start` message, which describes only one new grant of a fresh owner. All other grants are claimed
    /// first; only the claim begins a session, or waits for replicas.
    pub(crate) fn starts(&self) -> bool {
        self.keys.len() == 1 && !self.named && !self.session && self.sync.is_none()
    }

    /// The command to acquire. `block`: `None` asks once, and 0 waits without limit. `start`: the number that the message repeats.
    pub(crate) fn acquire(
        &self,
        channel: &str,
        block: Option<u64>,
        lease: Option<Duration>,
        start: Option<u32>,
    ) -> Cmd {
        let mut command = self.command("ACQUIRE");
        command.arg("OWNER").arg(&self.owner).arg("NOTIFY").arg(channel);
        if let Some(number) = start {
            command.arg("START").arg(number);
        }
        command.arg("ONCE");
        let mut number = |word: &str, number: Option<u64>| {
            if let Some(number) = number {
                command.arg(word).arg(number);
            }
        };
        number("PX", lease.map(ms));
        number("BLOCK", block);
        number("MAXHOLD", self.max_hold.map(ms));
        number("LIMIT", self.limit.map(u64::from));
        number("SLOT", self.slot.map(u64::from));
        for (word, wanted) in [("SHARED", self.shared), ("SESSION", self.session), ("DETECT", self.detect)] {
            if wanted {
                command.arg(word);
            }
        }
        if let Some(label) = &self.label {
            command.arg("LABEL").arg(label);
        }
        self.confirmed(&mut command);
        command
    }

    pub(crate) fn extend(&self, fences: &[u64]) -> Cmd {
        let mut command = self.command("EXTEND");
        command.arg(&self.owner);
        if let Some(lease) = self.lease {
            command.arg("PX").arg(ms(lease));
        }
        fenced(&mut command, fences);
        self.confirmed(&mut command);
        command
    }

    pub(crate) fn release(&self, fences: &[u64]) -> Cmd {
        let mut command = self.command("RELEASE");
        command.arg(&self.owner);
        fenced(&mut command, fences);
        command
    }

    pub(crate) fn leave(&self) -> Cmd {
        let mut command = cmd("LOCK.LEAVE");
        command.arg(self.keys.first()).arg(&self.owner);
        command
    }

    fn confirmed(&self, command: &mut Cmd) {
        if let Some((replicas, time)) = self.sync {
            command.arg("SYNC").arg(replicas).arg(ms(time));
        }
    }
}

/// Restricts the command to this grant. If locks were re-entered, their fences differ, and no FENCE can name them.
fn fenced(command: &mut Cmd, fences: &[u64]) {
    if let Some(fence) = fences.first()
        && fences.iter().all(|other| other == fence)
    {
        command.arg("FENCE").arg(*fence);
    }
}
