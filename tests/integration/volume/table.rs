//! Who is inside which lock, as far as its owners know; what contradicts the guarantees of `docs/design.md` is a fault.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Microseconds since the trial began.
pub(super) type Micros = i64;

/// How many locks there are of each taste: for those who want one for themselves, for several at a time, and for those who take
/// some at once.
pub(super) const EACH: usize = 20;

/// A grant, as its owner sees it.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    pub(super) owner: String,
    pub(super) fence: i64,
    /// How many may hold the lock beside it, and it, by this grant.
    pub(super) room: usize,
    /// The number of its permit.
    pub(super) slot: Option<i64>,
    /// When it was asked for, by the acquire or the last extension.
    pub(super) asked: Micros,
    /// Until when its owner counts on it.
    pub(super) until: Micros,
}

#[derive(Default)]
struct Lock {
    inside: Vec<Belief>,
    /// The greatest fence that anybody was told.
    told: i64,
}

pub(super) struct Table {
    pub(super) over: AtomicBool,
    locks: Vec<Mutex<Lock>>,
    began: Instant,
    /// How much of its lease an owner counts on.
    share: f64,
    /// A client that asked before that counts on nothing.
    sure_from: AtomicI64,
    counts: Mutex<BTreeMap<&'static str, usize>>,
    faults: Mutex<Vec<String>>,
}

impl Table {
    pub(super) fn new(share: f64) -> Self {
        Self {
            over: false.into(),
            locks: (0..3 * EACH).map(|_| Mutex::default()).collect(),
            began: Instant::now(),
            share,
            sure_from: 0.into(),
            counts: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> Micros {
        self.began.elapsed().as_micros() as Micros
    }

    /// Until when one counts on a lease that it asked for at that time.
    pub(super) fn end(&self, asked: Micros, lease: i64) -> Micros {
        asked + (lease as f64 * 1000.0 * self.share) as Micros
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self, what: &'static str) {
        self.add([(what, 1)]);
    }

    pub(super) fn add(&self, counts: impl IntoIterator<Item = (&'static str, usize)>) {
        let mut all = self.counts.lock().unwrap();
        for (what, count) in counts {
            *all.entry(what).or_default() += count;
        }
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.counts.lock().unwrap().get(what).copied().unwrap_or(0)
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, usize> {
        self.counts.lock().unwrap().clone()
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap().clone()
    }

    /// The trial ends with that. What comes after its end is not judged: connections are closed then, and what hangs on them ends.
    pub(super) fn fault(&self, text: String) {
        if self.is_over() {
            return;
        }
        self.faults.lock().unwrap().push(text);
        self.over.store(true, Ordering::Relaxed);
    }

    /// Does something that ends leases early: who asked before it is done counts on nothing.
    pub(super) fn forget_while(&self, body: impl FnOnce()) {
        self.sure_from.store(Micros::MAX, Ordering::SeqCst);
        body();
        self.sure_from.store(self.now(), Ordering::SeqCst);
    }

    /// Whether a grant counts at this moment.
    pub(super) fn is_sure(&self, belief: &Belief) -> bool {
        self.now() < belief.until && belief.asked >= self.sure_from.load(Ordering::SeqCst)
    }

    /// The greatest fence that anybody was told of that lock: who asks from now on gets a greater one.
    pub(super) fn told(&self, lock: usize) -> i64 {
        self.locks[lock].lock().unwrap().told
    }

    /// An owner was told that it has that lock; when it asked, the greatest fence was `told`.
    pub(super) fn enter(&self, number: usize, belief: &Belief, told: i64) {
        let mut lock = self.locks[number].lock().unwrap();
        let sure = self.is_sure(belief);
        lock.inside.retain(|other| self.is_sure(other));
        let most = lock.inside.iter().fold(belief.room, |most, other| most.min(other.room));
        if sure && lock.inside.len() >= most {
            self.fault(format!(
                "two owners of lock {number}: {belief:?} beside {:?}, now {}",
                lock.inside,
                self.now()
            ));
        }
        if let Some(slot) = belief.slot.filter(|_| sure) {
            let same = lock.inside.iter().find(|other| other.slot == Some(slot));
            if same.is_some() || slot < 1 || slot as usize > belief.room {
                self.fault(format!("two owners of a number of lock {number}: {belief:?} beside {same:?}"));
            }
        }
        // An owner that has a lock for itself alone was granted it after all others that were told.
        let told = if sure && belief.room == 1 { told.max(lock.told) } else { told };
        if belief.fence <= told {
            self.fault(format!("the fence falls: after {told} of lock {number} comes {belief:?}"));
        }
        lock.told = lock.told.max(belief.fence);
        if sure {
            lock.inside.push(belief.clone());
        }
    }

    /// An owner counts on its lease until another time.
    pub(super) fn extend(&self, number: usize, changed: &Belief) {
        let mut lock = self.locks[number].lock().unwrap();
        for belief in lock.inside.iter_mut().filter(|belief| belief.owner == changed.owner) {
            *belief = changed.clone();
        }
    }

    /// An owner is about to give it back.
    pub(super) fn leave(&self, number: usize, owner: &str) {
        self.locks[number].lock().unwrap().inside.retain(|belief| belief.owner != owner);
    }

    /// An owner was refused what it counts on.
    pub(super) fn refused(&self, belief: &Belief, what: &str) {
        if self.is_sure(belief) {
            self.fault(format!("{what} to the owner of {belief:?}, now {}", self.now()));
        }
    }
}

/// Longer than any trial.
pub(super) const FOR_EVER: Duration = Duration::from_secs(1_000_000);
