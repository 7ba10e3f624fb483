//! The core behind its mutex, and the types that both APIs give to users.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use redis::{RedisResult, Value};
use uuid::Uuid;

use crate::core::request::Request;
use crate::core::{Acquired, Command, Core, Granted, Id};
use crate::{Error, Observed, Observer};

/// Sends commands, and wakes the clock. The implementations use tasks or threads.
pub(crate) trait Driver: Send + Sync + 'static {
    fn send(&self, shared: &Arc<Shared>, command: Command);
    fn sooner(&self);
}

/// A channel that only this process uses. LOCK.INFO shows its host and process to operators.
fn channel() -> String {
    let odd = |char: char| !char.is_ascii_alphanumeric() && !"._-".contains(char);
    let host = gethostname::gethostname().to_string_lossy().replace(odd, "_");
    format!("redislock:{}:{}:{}", host.get(..64).unwrap_or(&host), std::process::id(), Uuid::new_v4())
}

pub(crate) struct Shared {
    core: Mutex<Core>,
    driver: Box<dyn Driver>,
    observer: OnceLock<Box<dyn Observer>>,
}

impl Shared {
    pub(crate) fn new(driver: impl Driver) -> Arc<Self> {
        Arc::new(Self {
            core: Mutex::new(Core::new(channel())),
            driver: Box::new(driver),
            observer: OnceLock::new(),
        })
    }

    pub(crate) fn with<R>(self: &Arc<Self>, work: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut core, Instant::now());
        let out = std::mem::take(&mut core.out);
        drop(core);
        if let Some(observer) = self.observer.get() {
            for (lock, event) in out.events {
                // A panic of the observer has been reported by the panic hook.
                let _ = catch_unwind(AssertUnwindSafe(|| event.tell(observer.as_ref(), &lock)));
            }
        }
        out.commands.into_iter().for_each(|command| self.driver.send(self, command));
        out.told.into_iter().for_each(|tell| tell());
        if out.sooner {
            self.driver.sooner();
        }
        result
    }

    pub(crate) fn observe(&self, observer: impl Observer) {
        let _ = self.observer.set(Box::new(observer));
    }

    pub(crate) fn acquire(self: &Arc<Self>, mut request: Request) -> Result<(Id, Acquired), Error> {
        request.observed = self.observer.get().map(|_| Arc::new(Observed::new(&request)));
        self.with(|core, now| core.acquire(request, now))
    }

    pub(crate) fn answered(self: &Arc<Self>, id: Id, reply: RedisResult<Value>) {
        self.with(|core, now| core.answered(id, reply, now));
    }
}

/// Keeps the background running: it ends when the last `Use` was dropped, and everything has been given up.
pub(crate) struct Use(pub(crate) Arc<Shared>);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.with(|core, _| core.unused = true);
        self.0.driver.sooner();
    }
}

/// The place or the grant of an acquire. It is given up when this value is dropped.
pub(crate) struct Claim {
    pub(crate) shared: Arc<Use>,
    pub(crate) id: Id,
}

impl Claim {
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Core, Id, Instant) -> R) -> R {
        self.shared.0.with(|core, now| work(core, self.id, now))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.with(|core, id, now| core.dropped(id, now));
    }
}

/// What a holder knows of its lock.
pub struct Grant {
    pub(crate) claim: Claim,
    pub(crate) granted: Granted,
}

impl Grant {
    /// The locks, in the order in which they were named.
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.granted.keys
    }

    /// The name under which the server knows the holder.
    pub fn owner(&self) -> &[u8] {
        &self.granted.owner
    }

    /// The fence, which is greater for each later grant: a resource that checks it can refuse a late holder. With several locks, this is their
    /// greatest fence.
    pub fn fence(&self) -> u64 {
        self.granted.fences.iter().copied().max().unwrap_or_default()
    }

    /// The fence of each lock, in the order of the keys. Locks that were acquired together have the same fence, unless the owner held one of
    /// them before.
    pub fn fences(&self) -> &[u64] {
        &self.granted.fences
    }

    /// The number of this holder among the holders of a `limit`, from 1, if the server tells.
    pub fn slot(&self) -> Option<u64> {
        self.granted.slot
    }

    /// Fails with [`Error::Lost`] if the lock was lost, and with [`Error::Closed`] if the locks were closed.
    pub fn check(&self) -> Result<(), Error> {
        self.claim.with(Core::check)
    }

    /// Waits until the lock is lost ([`Error::Lost`]), or the locks are closed. Any executor can await it.
    pub async fn lost(&self) -> Error {
        self.granted.lost.clone().await
    }

    /// Runs the work, and returns its result. If the lock is lost meanwhile, the work is dropped at once.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let (mut work, mut lost) = (pin!(work), pin!(self.lost()));
        poll_fn(|context| match lost.as_mut().poll(context) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => work.as_mut().poll(context).map(Ok),
        })
        .await
    }
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.keys().iter().map(|key| String::from_utf8_lossy(key)).collect();
        to.debug_struct("Held").field("keys", &keys).field("fences", &self.fences()).finish_non_exhaustive()
    }
}

/// A request for a lock. Times are whole milliseconds.
#[must_use = "nothing is asked of the server before this is awaited (or, with threads, before `block`)"]
pub struct Acquire<'a, L> {
    pub(crate) locks: &'a L,
    pub(crate) request: Request,
}

impl<'a, L> Acquire<'a, L> {
    pub(crate) fn new<K: AsRef<[u8]>>(locks: &'a L, keys: impl IntoIterator<Item = K>) -> Self {
        let keys = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
        Self { locks, request: Request::new(keys, Uuid::new_v4().to_string().into_bytes()) }
    }

    fn with(mut self, change: impl FnOnce(&mut Request)) -> Self {
        change(&mut self.request);
        self
    }

    /// Limits the wait; zero asks only once. By default, the wait has no limit.
    pub fn wait(self, time: Duration) -> Self {
        self.with(|request| request.wait = Some(time))
    }

    /// How long the lock stays held if its holder vanishes. By default, the server decides: 30 s.
    pub fn lease(self, time: Duration) -> Self {
        self.with(|request| request.lease = Some(time))
    }

    /// Lets the lock end with its lease, unless it is extended by hand.
    pub fn no_renewal(self) -> Self {
        self.with(|request| request.kept = false)
    }

    /// The longest time for which the lock can be held, however often it is renewed.
    pub fn max_hold(self, time: Duration) -> Self {
        self.with(|request| request.max_hold = Some(time))
    }

    /// Lets the server renew the lock, and free it as soon as the connection of this process closes.
    pub fn session(self) -> Self {
        self.with(|request| request.session = true)
    }

    /// Asks as a reader: any number of readers hold the lock together.
    pub fn shared(self) -> Self {
        self.with(|request| request.shared = true)
    }

    /// Lets this many holders have the lock together. [`Grant::slot`] is the number of each.
    pub fn limit(self, holders: u32) -> Self {
        self.with(|request| request.limit = Some(holders))
    }

    /// With a limit, asks for this number among the holders, from 1, and no other.
    pub fn slot(self, number: u32) -> Self {
        self.with(|request| request.slot = Some(number))
    }

    /// Describes the holder to operators.
    pub fn label(self, text: impl AsRef<[u8]>) -> Self {
        self.with(|request| request.label = Some(text.as_ref().to_vec()))
    }

    /// The name of the owner, with which the same owner can re-enter the lock or use it in another process. By default, a new name.
    pub fn owner(self, name: impl AsRef<[u8]>) -> Self {
        self.with(|request| (request.owner, request.named) = (name.as_ref().to_vec(), true))
    }

    /// Fails with [`Error::Deadlock`] if the wait would never end. Use the same owner for all locks of a task.
    pub fn detect(self) -> Self {
        self.with(|request| request.detect = true)
    }

    /// Waits until this many replicas have confirmed the lock. If they take longer than this, the acquire fails with
    /// [`Error::NotConfirmed`].
    pub fn sync(self, replicas: u32, time: Duration) -> Self {
        self.with(|request| request.sync = Some((replicas, time)))
    }
}
