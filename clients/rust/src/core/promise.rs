//! A value that is set once. Tasks of any executor can await it, threads can wait for it, and functions can be called with it.

use std::collections::HashMap;
use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub(crate) struct Promise<T>(Arc<Mutex<Inner<T>>>);

struct Inner<T> {
    value: Option<T>,
    /// The wakers of the tasks and threads that wait.
    wakers: HashMap<u64, Waker>,
    last: u64,
    calls: Vec<Box<dyn FnOnce(T) + Send>>,
}

impl<T> Clone for Promise<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Promise<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner { value: None, wakers: HashMap::new(), last: 0, calls: Vec::new() })))
    }
}

impl<T: Clone> Promise<T> {
    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the value, unless it is set already.
    pub(crate) fn set(&self, value: T) {
        let mut inner = self.inner();
        if inner.value.is_some() {
            return;
        }
        inner.value = Some(value.clone());
        let (wakers, calls) = (std::mem::take(&mut inner.wakers), std::mem::take(&mut inner.calls));
        drop(inner);
        wakers.into_values().for_each(Waker::wake);
        for call in calls {
            // A panic in a user's function must not end the thread that serves all locks. The panic hook has reported it.
            let _ = catch_unwind(AssertUnwindSafe(|| call(value.clone())));
        }
    }

    pub(crate) fn then(&self, call: impl FnOnce(T) + Send + 'static) {
        let mut inner = self.inner();
        match inner.value.clone() {
            None => inner.calls.push(Box::new(call)),
            Some(value) => {
                drop(inner);
                call(value);
            }
        }
    }

    /// Blocks the thread until the value is set, or this time is over.
    pub(crate) fn wait(&self, most: Option<Duration>) -> Option<T> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let end = most.and_then(|most| Instant::now().checked_add(most));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut waiting = self.clone().into_future();
        loop {
            if let Poll::Ready(value) = Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker)) {
                return Some(value);
            }
            let Some(end) = end else {
                thread::park();
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            thread::park_timeout(left);
        }
    }
}

/// A task or thread that waits for the value. Dropping it removes its waker: a lock may be held for longer than many of the tasks that wait
/// for its loss live.
pub(crate) struct Waiting<T: Clone>(Promise<T>, u64);

impl<T: Clone> IntoFuture for Promise<T> {
    type Output = T;
    type IntoFuture = Waiting<T>;

    fn into_future(self) -> Waiting<T> {
        let mut inner = self.inner();
        inner.last += 1;
        let id = inner.last;
        drop(inner);
        Waiting(self, id)
    }
}

impl<T: Clone> Future for Waiting<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut inner = self.0.inner();
        if let Some(value) = inner.value.clone() {
            return Poll::Ready(value);
        }
        let before = inner.wakers.insert(self.1, context.waker().clone());
        drop(inner); // unlock first: dropping a waker may drop its task, and with it another `Waiting` of this promise
        drop(before);
        Poll::Pending
    }
}

impl<T: Clone> Drop for Waiting<T> {
    fn drop(&mut self) {
        let waker = self.0.inner().wakers.remove(&self.1);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_no_longer_waits_leaves_nothing_behind() {
        struct Task;
        impl Wake for Task {
            fn wake(self: Arc<Self>) {}
        }
        let promise = Promise::<()>::default();
        for _ in 0..3 {
            let waker = Waker::from(Arc::new(Task));
            let mut waiting = promise.clone().into_future();
            assert!(Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(promise.wait(Some(Duration::from_millis(1))), None);
        assert_eq!(promise.inner().wakers.len(), 0);
    }
}
