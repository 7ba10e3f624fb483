//! What the clients of a load ask for.

use redis::Value;

use super::{Grant, Rng, grant};
use crate::several::{Grants, grants};

/// The kinds of commands that the clients of a load send.
#[derive(Clone)]
pub(crate) struct Work {
    keys: Vec<String>,
    /// The lease, in ms.
    lease: u64,
    /// How many replicas must confirm each grant and extension, and within how many ms.
    sync: Option<(usize, u64)>,
    /// Whether some clients share locks, and some use sessions.
    mixed: bool,
}

/// The locks that a client acquires with one command.
pub(super) struct Locks {
    pub(super) names: Vec<String>,
    /// How many owners may hold each lock at a time.
    pub(super) room: usize,
    /// Whether the client uses `SESSION`.
    pub(super) session: bool,
}

impl Work {
    /// Work on locks with these names, with leases of this many ms.
    pub(crate) fn new(keys: &[String], lease: u64) -> Self {
        Self { keys: keys.to_vec(), lease, sync: None, mixed: false }
    }

    /// Adds `SYNC`: this many replicas must confirm grants within this many ms.
    pub(crate) fn sync(self, replicas: usize, within: u64) -> Self {
        Self { sync: Some((replicas, within)), ..self }
    }

    /// Adds shared locks, locks for two holders, and sessions.
    pub(crate) fn mixed(self) -> Self {
        Self { mixed: true, ..self }
    }

    /// Returns the lease, in ms.
    pub(crate) fn lease(&self) -> u64 {
        self.lease
    }

    /// Returns the `SYNC` option of commands, or an empty text.
    pub(crate) fn option(&self) -> String {
        self.sync.map(|(replicas, within)| format!("SYNC {replicas} {within}")).unwrap_or_default()
    }

    /// Returns one of the keys, and either this lock or several locks in its slot.
    pub(super) fn next(&self, random: &mut Rng) -> (String, Locks) {
        let key = random.one_of(&self.keys).clone();
        let mut names = vec![key.clone()];
        if random.percent(40) {
            names.extend([1, 2].map(|number| format!("{{{key}}}{number}")));
            names.swap_remove(random.below(3));
        }
        let session = self.mixed && names.len() == 1 && random.percent(10);
        let room = if self.mixed && !session { *random.one_of(&[1, 1, 2, usize::MAX]) } else { 1 };
        (key, Locks { names, room, session })
    }
}

impl Locks {
    /// Returns a command for these locks: the one for a single lock, or the one for several.
    pub(super) fn line(&self, command: &str, rest: &str) -> String {
        match &self.names[..] {
            [key] => format!("LOCK.{command} {key} {rest}"),
            keys => format!("LOCK.M{command} {} {} {rest}", keys.len(), keys.join(" ")),
        }
    }

    /// Returns the options of the acquire.
    pub(super) fn options(&self) -> String {
        let session = if self.session { "SESSION" } else { "" };
        match self.room {
            1 => session.into(),
            usize::MAX => format!("SHARED {session}"),
            room => format!("LIMIT {room} {session}"),
        }
    }

    /// Reads the grant in a reply. The locks of one command have the same fence and number of holds, because the owner asks only once.
    pub(super) fn granted(&self, reply: Value) -> Option<Grant> {
        if self.names.len() == 1 {
            return grant(reply);
        }
        let Grants { owner, fences, holds, lease, .. } = grants(reply)?;
        let count = self.names.len();
        assert_eq!((&fences, holds), (&vec![fences[0]; count], vec![1; count]));
        Some(Grant { owner, fence: fences[0], holds: 1, lease, slot: None })
    }
}
