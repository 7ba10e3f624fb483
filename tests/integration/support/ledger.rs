//! What owners believe to hold, and when: they record it themselves, and the records are compared afterwards.
//!
//! This judges what `history` can't: servers that live at the same time, such as a primary that is frozen, replaced and woken; clients that
//! move between servers, whose fences are independent in a cluster; and owners that rely on what a failover lost, which are counted if
//! nothing prevents this. Tests also query it while they run.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use super::Grant;

/// One grant, as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Belief {
    pub(crate) key: String,
    pub(crate) owner: String,
    pub(crate) fence: i64,
    /// How many holders this grant allows at a time.
    pub(crate) room: usize,
    /// The port of the server that granted it.
    pub(crate) server: u16,
    /// When the owner asked for it.
    pub(crate) asked: Instant,
    /// When the owner received the reply.
    pub(crate) since: Instant,
    /// Until when the owner relies on the grant.
    pub(crate) until: Instant,
}

/// All records.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Vec<Belief>>);

impl Ledger {
    /// Records a grant, once its end is known.
    pub(crate) fn add(&self, belief: Belief) {
        self.0.lock().unwrap().push(belief);
    }

    pub(crate) fn all(&self) -> Vec<Belief> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Returns how many grants by this server were requested since this time.
    pub(crate) fn count_since(&self, from: Instant, server: u16) -> usize {
        let all = self.0.lock().unwrap();
        all.iter().filter(|belief| belief.asked > from && belief.server == server).count()
    }

    /// Returns when the first owner that asked this server since this time was told of its grant.
    pub(crate) fn first_since(&self, from: Instant, server: u16) -> Option<Instant> {
        let all = self.0.lock().unwrap();
        let by_server = all.iter().filter(|belief| belief.asked > from && belief.server == server);
        by_server.map(|belief| belief.since).min()
    }

    /// Returns the pairs of owners that relied on one lock at the same time, if they were more than the room of one of their grants.
    pub(crate) fn overlaps(&self) -> Vec<(Belief, Belief)> {
        let mut all = self.0.lock().unwrap().clone();
        all.retain(|belief| belief.since < belief.until);
        all.sort_by_key(|belief| belief.since);
        let mut found = Vec::new();
        let mut by_key: HashMap<&str, Vec<&Belief>> = HashMap::new();
        for later in &all {
            let open = by_key.entry(&later.key).or_default();
            open.retain(|earlier| earlier.until > later.since);
            let others: Vec<_> = open.iter().filter(|earlier| earlier.owner != later.owner).collect();
            let room = others.iter().map(|earlier| earlier.room).fold(later.room, usize::min);
            if others.len() >= room {
                found.extend(others.into_iter().map(|&earlier| (earlier.clone(), later.clone())));
            }
            open.push(later);
        }
        found
    }

    /// Returns the pairs of grants of one lock whose fences contradict the order of time: the first was known before the second was
    /// requested, but its fence is not lower. If `all` is true, compares grants of all locks.
    pub(crate) fn disorder(&self, all: bool) -> Vec<(Belief, Belief)> {
        let mut by_key: HashMap<String, Vec<Belief>> = HashMap::new();
        for belief in self.0.lock().unwrap().iter() {
            let key = if all { String::new() } else { belief.key.clone() };
            by_key.entry(key).or_default().push(belief.clone());
        }
        let mut found = Vec::new();
        for known in by_key.values_mut() {
            let mut asked = known.clone();
            asked.sort_by_key(|belief| belief.asked);
            known.sort_by_key(|belief| belief.since);
            let mut highest: Option<&Belief> = None;
            let mut known = known.iter().peekable();
            for later in &asked {
                while let Some(earlier) = known.next_if(|earlier| earlier.since < later.asked) {
                    highest = highest.filter(|highest| highest.fence > earlier.fence).or(Some(earlier));
                }
                found.extend(
                    highest
                        .filter(|earlier| earlier.fence >= later.fence)
                        .map(|e| (e.clone(), later.clone())),
                );
            }
        }
        found
    }

    /// Returns the pairs of grants of one lock with the same fence and different owners.
    pub(crate) fn repeats(&self) -> Vec<(Belief, Belief)> {
        let mut seen: HashMap<(String, i64), Belief> = HashMap::new();
        let mut found = Vec::new();
        for belief in self.0.lock().unwrap().iter() {
            let earlier = seen.insert((belief.key.clone(), belief.fence), belief.clone());
            found
                .extend(earlier.filter(|earlier| earlier.owner != belief.owner).map(|e| (e, belief.clone())));
        }
        found
    }
}

/// Returns when this machine's wall clock, which the server also uses, showed this time.
pub(crate) fn instant_of(ms_since_1970: i64) -> Instant {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(ms_since_1970.unsigned_abs());
    match at.duration_since(SystemTime::now()) {
        Ok(ahead) => Instant::now() + ahead,
        Err(ago) => Instant::now() - ago.duration(),
    }
}

impl Grant {
    /// Returns when the lease ends if nobody changes it. An owner that did not wait counts from its request. One that waited does not know
    /// how old the reply is, so it uses the fence, which is the time of the grant.
    pub(crate) fn ends(&self, asked: Instant, waited: bool) -> Instant {
        if waited {
            instant_of(self.granted_at() + self.lease)
        } else {
            asked + Duration::from_millis(self.lease.unsigned_abs())
        }
    }
}
