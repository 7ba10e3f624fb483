//! A value that comes once. Tasks of any executor await it, threads wait for it, and functions are called with it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub(crate) struct Promise<T>(Arc<Mutex<Inner<T>>>);

struct Inner<T> {
    value: Option<T>,
    wakers: Vec<Waker>,
    calls: Vec<Box<dyn FnOnce(T) + Send>>,
}

impl<T> Clone for Promise<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Promise<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner { value: None, wakers: Vec::new(), calls: Vec::new() })))
    }
}

impl<T: Clone> Promise<T> {
    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first value stays.
    pub(crate) fn set(&self, value: T) {
        let mut inner = self.inner();
        if inner.value.is_some() {
            return;
        }
        inner.value = Some(value.clone());
        let (wakers, calls) = (std::mem::take(&mut inner.wakers), std::mem::take(&mut inner.calls));
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        for call in calls {
            // A user's function that fails must not end the thread that serves all locks. The hook has shown it.
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

    fn poll_with(&self, waker: &Waker) -> Poll<T> {
        let mut inner = self.inner();
        if let Some(value) = inner.value.clone() {
            return Poll::Ready(value);
        }
        if !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            inner.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    /// Blocks the thread: without a time, until the value is there.
    pub(crate) fn wait(&self, most: Option<Duration>) -> Option<T> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let end = most.and_then(|most| Instant::now().checked_add(most));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if let Poll::Ready(value) = self.poll_with(&waker) {
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

impl<T: Clone> Future for Promise<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.poll_with(context.waker())
    }
}
