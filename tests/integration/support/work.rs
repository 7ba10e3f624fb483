//! What clients at work ask for.

use redis::Value;

use super::{Grant, Rng, grant};
use crate::several::{Grants, grants};

/// The kind of commands that all clients of a load send.
#[derive(Clone)]
pub(crate) struct Work {
    keys: Vec<String>,
    /// In ms.
    lease: u64,
    /// So many replicas are to have each grant and extension, in so many ms.
    sync: Option<(usize, u64)>,
    /// Some share locks, and some hold them by a session.
    mixed: bool,
}

/// The locks that one client takes with one command.
pub(super) struct Locks {
    pub(super) names: Vec<String>,
    /// How many may hold each at a time.
    pub(super) room: usize,
    /// The server keeps the lease alive.
    pub(super) session: bool,
}

impl Work {
    /// On locks with these names, with leases of so many ms.
    pub(crate) fn new(keys: &[String], lease: u64) -> Self {
        Self { keys: keys.to_vec(), lease, sync: None, mixed: false }
    }

    /// With `SYNC`: so many replicas are to have what is granted, in so many ms.
    pub(crate) fn sync(self, replicas: usize, within: u64) -> Self {
        Self { sync: Some((replicas, within)), ..self }
    }

    /// With readers, locks for two at a time, and sessions.
    pub(crate) fn mixed(self) -> Self {
        Self { mixed: true, ..self }
    }

    /// In ms.
    pub(crate) fn lease(&self) -> u64 {
        self.lease
    }

    /// The option of commands that replicas are to confirm; empty where there is none.
    pub(crate) fn option(&self) -> String {
        self.sync.map(|(replicas, within)| format!("SYNC {replicas} {within}")).unwrap_or_default()
    }

    /// One of the keys, and the lock there or several at once in its slot.
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
    /// A command about them: for one lock, or the one for several.
    pub(super) fn line(&self, command: &str, rest: &str) -> String {
        match &self.names[..] {
            [key] => format!("LOCK.{command} {key} {rest}"),
            keys => format!("LOCK.M{command} {} {} {rest}", keys.len(), keys.join(" ")),
        }
    }

    /// How they are to be held.
    pub(super) fn options(&self) -> String {
        let session = if self.session { "SESSION" } else { "" };
        match self.room {
            1 => session.into(),
            usize::MAX => format!("SHARED {session}"),
            room => format!("LIMIT {room} {session}"),
        }
    }

    /// The grant that is answered: an owner that asks once has the same of each.
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
